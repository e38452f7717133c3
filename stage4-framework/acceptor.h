/*
 * The acceptor takes in new connections and registers each with the dispatcher; that is all it does
 * (Hitchens: "accepting new sockets is done elsewhere"; Roth's Acceptor). It runs in the main
 * thread, which also receives the signals.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "dispatcher.h"

struct acceptor {
    struct server *server;
    struct dispatcher *dispatcher;
    struct admission *admission;
};

void acceptor_init(struct acceptor *acceptor, struct dispatcher *dispatcher,
                   struct admission *admission, struct input_handler_factory *factory);

/** Accepts connections until a signal asks the server to stop; then closes the listener. */
void acceptor_run(struct acceptor *acceptor) NO_LOCK_HELD;

#endif
