/*
 * The threads that run handlers: one for every connection (Lea's classic loop).
 *
 * Interface: the acceptor's thread opens and serves; handlers end in their own threads.
 */
#ifndef HANDLER_THREADS_H
#define HANDLER_THREADS_H

#include "common/server/admission.h"
#include "handler.h"

struct handler_threads {
    struct server *server;
    struct admission admission;
    int stop; /* a descriptor that wakes all threads; -1: there is none before step 1.5 */
};

void handler_threads_open(struct handler_threads *threads, struct server *server,
                          struct input_handler_factory *factory);

/** Finds a thread for a connection. False if there is none to be had; fd stays the caller's. */
bool handler_threads_serve(struct handler_threads *threads, int fd) NO_LOCK_HELD;

#endif
