/*
 * A call whose result can be had later (java.util.concurrent's FutureTask; Lea, "Coordinating
 * Tasks: Futures").
 *
 *   PENDING --run--> RUNNING --call returns--> DONE
 *   PENDING --cancel, or dropped by its executor--> CANCELLED
 *
 * It runs once at the most. When it is over and its executor has let go of it, the hook `done` is
 * called: the place to tell whoever waits for the outcome without waiting for it (Hitchens'
 * HandlerFutureTask overrides it).
 *
 * Interface:
 * - A future is embedded in its owner and is an executor's task: submit &future->task.
 * - call and done run without any lock, in the thread that runs the task, or done alone in the
 *   thread that drops it. A future that was cancelled is over at once, but its executor holds it
 *   until its turn has come: done is called then.
 * - After done has been called the future is not touched any more, so that its owner may free it
 *   there, unless a thread may still be in future_task_get().
 * - Many futures share one monitor, which is where future_task_get() sleeps.
 */
#ifndef COMMON_FUTURE_TASK_H
#define COMMON_FUTURE_TASK_H

#include "lock.h"
#include "task_queue.h"

/** Where threads wait for futures. */
struct future_monitor {
    struct mutex lock;
    struct condition changed;
};

enum future_state {
    FUTURE_PENDING,
    FUTURE_RUNNING,
    FUTURE_DONE,
    FUTURE_CANCELLED,
};

struct future_task {
    struct task task;
    /** The work: 0, or an error number. What it has to tell beside that, it leaves in its owner. */
    int (*call)(struct future_task *self);
    /** Called once, as the last thing that happens to it; NULL: nothing to call. */
    void (*done)(struct future_task *self);
    struct future_monitor *monitor;
    enum future_state state; /* under the monitor's lock */
    int error; /* likewise; what call returned, or ECANCELED if it was not called. Once over */
};

void future_monitor_init(struct future_monitor *monitor);
void future_monitor_destroy(struct future_monitor *monitor);

/** A future that is pending. Also makes one that is over pending again. */
void future_task_init(struct future_task *future, struct future_monitor *monitor,
                      int (*call)(struct future_task *), void (*done)(struct future_task *));

/** Sees to it that it never runs. False if it is too late for that. Any thread. */
bool future_task_cancel(struct future_task *future);

/** Whether it is over, done or cancelled. Any thread. */
bool future_task_is_over(struct future_task *future);

/** Whether it is over without having run. Any thread. */
bool future_task_was_cancelled(struct future_task *future);

/**
 * Waits until it is over, to deadline_ms at the most. What its call returned, ECANCELED, or
 * ETIMEDOUT. Any thread but the one that runs it.
 */
int future_task_get(struct future_task *future, int64_t deadline_ms);

#endif
