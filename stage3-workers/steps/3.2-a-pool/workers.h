/*
 * The workers: threads that run handlers, because that may take long and the reactor must not wait.
 * Handlers stand in one queue, and each worker that is idle takes the first.
 *
 * Interface:
 * - The reactor gives a handler away with workers_take(), and touches it no more until it is back
 *   (take_back()).
 * - A worker never touches the selector, the timers or the acceptor: these are the reactor's.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include "common/base/lock.h"

#include <pthread.h>
#include <stddef.h>

enum { WORKERS = 4, QUEUE_MAX = 20 };

struct handler;

struct workers {
    pthread_t threads[WORKERS];
    size_t started;
    struct mutex lock;
    struct condition work;                   /* there is a handler in the queue, or all is over */
    struct handler *first GUARDED_BY(&lock); /* the queue, linked by next */
    struct handler *last GUARDED_BY(&lock);
    size_t waiting GUARDED_BY(&lock); /* how many there are in it */
    bool end GUARDED_BY(&lock);
};

/** Starts the threads. 0, or an error number if not even one can be started. */
int workers_start(struct workers *workers);

/** Has a worker run the handler. False if the queue is full: then it is still the reactor's. */
bool workers_take(struct workers *workers, struct handler *handler);

/** Ends the threads when the queue is empty. */
void workers_end(struct workers *workers);

#endif
