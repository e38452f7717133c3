/*
 * The workers: threads that run tasks, because that may take long and the reactor must not wait.
 * They know nothing of handlers. Tasks stand in one queue, and each worker that is idle takes the
 * first.
 *
 * Interface:
 * - The reactor gives a round's tasks away with workers_take(), and touches them no more until they
 *   are back (take_back()).
 * - A worker never touches the selector, the timers or the acceptor: these are the reactor's.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include "common/base/lock.h"
#include "common/workers/task_queue.h"

#include <pthread.h>
#include <stddef.h>

enum { WORKERS = 4, QUEUE_MAX = 20 };

struct workers {
    pthread_t threads[WORKERS];
    size_t started;
    struct mutex lock;
    struct condition work; /* there is a task in the queue, or all is over */
    struct task_queue queue GUARDED_BY(&lock);
    bool end GUARDED_BY(&lock);
};

/** Starts the threads. 0, or an error number if not even one can be started. */
int workers_start(struct workers *workers);

/** Puts the tasks of a list into the queue. Those for which it has no room are in the list then. */
void workers_take(struct workers *workers, struct task_list *tasks);

/** Ends the threads when the queue is empty. */
void workers_end(struct workers *workers);

#endif
