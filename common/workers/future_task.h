/*
 * A call whose result can be had later (java.util.concurrent's FutureTask; Lea, "Coordinating
 * Tasks").
 *
 *   PENDING --run--> RUNNING --call returns--> DONE
 *   PENDING --cancel, or dropped by its executor--> CANCELLED
 *
 * It runs at most once. When it is over and its executor does not need it any more, the hook `done`
 * is called, so that a thread need not wait for the outcome (Hitchens' HandlerFutureTask overrides
 * it).
 *
 * Interface:
 * - A future is embedded in its owner and is an executor's task: submit &future->task.
 * - call and done run without any lock, in the thread that runs the task, or done alone in the
 *   thread that drops it. A future that was cancelled is over at once, but its executor holds it
 *   until its turn has come: done is called then.
 * - After done has been called the future is not touched any more, so that its owner may free it
 *   there, unless a thread may still be in future_task_get().
 * - Many futures share one monitor, which is where future_task_get() sleeps. Its lock is taken only
 *   when a thread sleeps there: a future without a waiting thread costs two atomic steps. A future
 *   that no thread will ever wait for needs no monitor (NULL).
 */
#ifndef COMMON_FUTURE_TASK_H
#define COMMON_FUTURE_TASK_H

#include "common/base/lock.h"
#include "common/workers/task_queue.h"

#include <stdatomic.h>

/** Where threads wait for futures. */
struct future_monitor {
    struct mutex lock;
    struct condition over;
    atomic_size_t waiting; /* threads in future_task_get() */
};

enum future_state {
    FUTURE_PENDING,
    FUTURE_RUNNING,
    FUTURE_DONE,
    FUTURE_CANCELLED,
};

struct future_task {
    struct task task;
    /** The work. What it returns is the future's result: what that means is its owner's. */
    int (*call)(struct future_task *self);
    /** Called once, as the last thing that happens to it; NULL: nothing to call. */
    void (*done)(struct future_task *self);
    struct future_monitor *monitor; /* NULL: no thread ever waits for it */
    _Atomic(enum future_state) state;
    int result; /* what call returned; there to be read once the state is FUTURE_DONE */
};

void future_monitor_init(struct future_monitor *monitor);
void future_monitor_destroy(struct future_monitor *monitor);

/** A future that is pending. Also makes one that is over pending again. */
void future_task_init(struct future_task *future, struct future_monitor *monitor,
                      int (*call)(struct future_task *), void (*done)(struct future_task *));

/** Prevents it from running. False if it is too late for that. Any thread. */
bool future_task_cancel(struct future_task *future);

/** Whether it is over, done or cancelled. Any thread. */
bool future_task_is_over(struct future_task *future);

/** Whether it has run; if so, *result is what its call returned (NULL: no matter). Any thread. */
bool future_task_has_run(struct future_task *future, int *result);

/**
 * Waits until it is over, until deadline_ms at most. Returns what its call returned, ECANCELED, or
 * ETIMEDOUT; a call whose result a thread waits for returns none of these two. It needs a monitor.
 *
 * The thread that calls this does nothing else meanwhile, so it has to be one that serves no
 * client, such as main() while the server stops. A thread that runs handlers would stop every
 * connection that it serves; and a worker that waits for a task of its own pool may be the thread
 * that the task waits for. Such threads use `done`.
 */
int future_task_get(struct future_task *future, int64_t deadline_ms);

#endif
