/*
 * The threads that run handlers: one for every connection, or a fixed pool.
 *
 * Lea's classic loop starts a thread for each client. Roth's first listing has a pool of ten: the
 * connection that comes when all ten are busy is accepted, and waits for a thread that has become
 * free. In both, a connection has a thread for as long as it lasts; this is what the next stages do
 * away with.
 *
 * Interface:
 * - The acceptor's thread opens, serves, stops and closes; handlers end in their own threads.
 * - A handler is in the list of all from serve to its end, and its socket is open as long as it is
 *   in there.
 */
#ifndef HANDLER_THREADS_H
#define HANDLER_THREADS_H

#include "common/server/admission.h"
#include "handler.h"

struct handler_threads {
    struct server *server;
    struct admission admission;
    size_t pool_size; /* 0: a thread for every handler */
    pthread_t *pool;
    struct mutex lock;
    bool stopping GUARDED_BY(&lock);
    struct condition work; /* a handler waits, or all is over */
    struct condition gone; /* the last handler has gone */
    int stop; /* an eventfd(2): can be read when all handlers have been asked to stop */
    struct handler *all GUARDED_BY(&lock);     /* doubly linked */
    struct handler *waiting GUARDED_BY(&lock); /* for a thread of the pool; oldest first */
    struct handler *last_waiting GUARDED_BY(&lock);
    size_t count GUARDED_BY(&lock); /* handlers that are not destroyed yet */
};

/** Starts the pool, if there is to be one. 0, or -1 and the reason is in the log. */
int handler_threads_open(struct handler_threads *threads, struct server *server,
                         struct input_handler_factory *factory, size_t pool_size);

/** Finds a thread for a connection. False if there is none to be had; fd stays the caller's. */
bool handler_threads_serve(struct handler_threads *threads, int fd) NO_LOCK_HELD;

/**
 * Ends all handlers: no more is read than has arrived already, replies have until the drain timeout
 * to leave, then sockets are shut under whoever still waits. Returns when all threads are gone.
 */
void handler_threads_close(struct handler_threads *threads);

#endif
