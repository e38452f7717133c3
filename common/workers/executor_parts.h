/*
 * What the files of an executor call of each other: executor.c finds a place for each task,
 * executor_threads.c has the threads that run them, executor_saturation.c what happens when there
 * is no place. Nobody else includes this.
 */
#ifndef COMMON_EXECUTOR_PARTS_H
#define COMMON_EXECUTOR_PARTS_H

#include "common/workers/executor.h"

/* ---- Its threads --------------------------------------------------------------------------- */

/** A new thread, if there are fewer than `limit`, or none at all. False: there is no new one. */
bool executor_start_thread(struct executor *executor, size_t limit) REQUIRES(&executor->lock);

/** The same, and the task is promised to it. */
bool executor_start_thread_for(struct executor *executor, struct task *task, size_t limit)
    REQUIRES(&executor->lock);

/**
 * Promises the task to a worker that sleeps or starts, no matter to which: any worker may take it
 * that is there before. False if as many tasks are promised already, or if another one waits in the
 * queue.
 */
bool executor_promise(struct executor *executor, struct task *task) REQUIRES(&executor->lock);

/** Signals a worker, if one sleeps and a task waits. It signals the next one. */
void executor_wake(struct executor *executor) REQUIRES(&executor->lock);

/**
 * The same after it has released the lock, which the worker wants next, and then offers that the
 * processor. As long as a task waits for a worker that has not come, each release signals again.
 */
void executor_release(struct executor *executor) RELEASE(&executor->lock);

/* ---- A place for a task -------------------------------------------------------------------- */

/**
 * Finds a thread or a place in the queue for the task. Without any thread a place is useless. `put`
 * is how it is queued: task_queue_offer() or task_queue_insist().
 */
bool executor_place_task(struct executor *executor, struct task *task,
                         bool (*put)(struct task_queue *, struct task *)) REQUIRES(&executor->lock);

/** Runs a task, whose owner may be gone then. */
void executor_run_task(struct task *task) NO_LOCK_HELD;

/** Lets the owner know that its task will not run, with the lock released meanwhile. True. */
bool executor_drop(struct executor *executor, struct task *task) REQUIRES(&executor->lock);

#endif
