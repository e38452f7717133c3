/*
 * The acceptor takes in new connections and gives each to a thread (Lea, "Classic ServerSocket
 * Loop"; Roth's Acceptor). It runs in the main thread.
 */
#ifndef ACCEPTOR_H
#define ACCEPTOR_H

#include "handler_threads.h"

struct acceptor {
    struct server *server;
    struct handler_threads *threads;
};

void acceptor_init(struct acceptor *acceptor, struct server *server,
                   struct handler_threads *threads);

/** Accepts connections until a signal asks the server to stop. */
void acceptor_run(struct acceptor *acceptor);

#endif
