/*
 * The acceptor asks for one connection at a time and gives each a handler.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "common/server/admission.h"
#include "ring.h"

struct proactor;

struct acceptor {
    struct operation accept; /* or, after an error, a look whether somebody waits */
    struct endpoint peer;    /* the kernel writes here whom it has accepted */
    struct proactor *proactor;
    struct listener *listener;
    bool stopping;
};

/** Begins to accept. */
void acceptor_open(struct acceptor *acceptor, struct proactor *proactor, struct listener *listener);

/** Stops listening, and calls proactor_stop() when nobody can be accepted any more. */
void acceptor_stop(struct acceptor *acceptor) NO_LOCK_HELD;

/** Decides anew whether to accept: a place may be free, or the back-off over. */
void acceptor_update(struct acceptor *acceptor);

#endif
