/*
 * The workers: threads that run a handler when that may take long, so that the reactor need not. In
 * this step there is one.
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

struct handler;

struct workers {
    pthread_t thread;
    struct mutex lock;
    struct condition work;                 /* there is a job, or it is to end */
    struct handler *job GUARDED_BY(&lock); /* what it runs, or is to run next; NULL: idle */
    bool end GUARDED_BY(&lock);
};

/** Starts the thread. 0, or an error number. */
int workers_start(struct workers *workers);

/** Has a worker run the handler. False if it is busy: then the handler is still the reactor's. */
bool workers_take(struct workers *workers, struct handler *handler);

/** Ends the thread when it is through with what it runs. */
void workers_end(struct workers *workers);

#endif
