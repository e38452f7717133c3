/*
 * The acceptor takes in new connections and gives each a handler (Lea, "Reactor 3: Acceptor"). It
 * is attached to the listener's key: a new client is an event like any other.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "common/events/selector.h"
#include "common/server/admission.h"
#include "runnable.h"

struct reactor;

struct acceptor {
    struct reactor *reactor;
    struct listener *listener;
    struct selection_key key;
};

/** Registers the listener. 0, or -1 with errno. */
int acceptor_open(struct acceptor *acceptor, struct reactor *reactor, struct listener *listener);

/** Stops listening. May be called twice, and for one that was never opened. */
void acceptor_close(struct acceptor *acceptor);

/** Decides anew whether to listen: a place may be free, or the back-off over. */
void acceptor_update(struct acceptor *acceptor);

#endif
