/*
 * The acceptor takes in new connections and registers each with the next dispatcher of the pool;
 * that is all it does (Roth's Acceptor; Lea's main reactor). It runs in the main thread, which
 * also receives the signals.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "dispatcher_pool.h"

struct acceptor {
    struct server *server;
    struct dispatcher_pool *dispatchers;
    struct admission *admission;
};

void acceptor_init(struct acceptor *acceptor, struct dispatcher_pool *dispatchers,
                   struct admission *admission, struct input_handler_factory *factory);

/** Accepts connections until a signal asks the server to stop; then closes the listener. */
void acceptor_run(struct acceptor *acceptor) NO_LOCK_HELD;

#endif
