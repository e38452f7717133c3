/*
 * The acceptor takes in new connections and gives each a handler (Lea, "Reactor 3: Acceptor"). It
 * is attached to the listener's key: a client that knocks is an event like any other.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "common/selector.h"
#include "common/server.h"
#include "runnable.h"

struct reactor;

struct acceptor {
    struct runnable runnable; /* attached to the key */
    struct server *server;
    struct reactor *reactor;
    struct listener *listener;
    struct selection_key key;
    int64_t resume_at; /* out of descriptors: nothing is accepted before that moment; else 0 */
};

/** Registers the listener. 0, or -1 with errno. */
int acceptor_open(struct acceptor *acceptor, struct reactor *reactor, struct listener *listener);

/** Stops listening. May be called twice. */
void acceptor_close(struct acceptor *acceptor);

/** Looks whether to be interested in new connections: a place may be free, or time have passed. */
void acceptor_update(struct acceptor *acceptor);

/** Whether it waits for time to pass. */
bool acceptor_is_backing_off(const struct acceptor *acceptor);

#endif
