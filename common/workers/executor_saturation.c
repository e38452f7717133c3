/*
 * The saturation policies: what happens to a task that neither a thread nor the queue takes.
 */
#include "common/workers/executor_parts.h"

static bool abort_task(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    (void)task;
    executor->stats.aborted++;
    return false;
}

/* While it waits, all threads above core may end. Then the submitter has to start one. */
static bool block_submitter(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    executor->stats.blocked++;
    while (!executor->closing && executor->stats.threads > 0) {
        executor->submitters++;
        condition_wait(&executor->room, &executor->lock);
        executor->submitters--;
        if (!executor->closing && executor_place_task(executor, task, task_queue_offer))
            return true;
    }
    if (!executor->closing)
        abort_task(executor, task);
    return false;
}

static bool run_in_caller(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    executor->stats.run_by_caller++;
    mutex_unlock(&executor->lock);
    if (thread_serves != NULL)
        atomic_store_explicit(thread_serves, task->fd, memory_order_relaxed);
    executor_run_task(task);
    mutex_lock(&executor->lock);
    return true;
}

/*
 * While the lock is free, another thread may take the room that was made: then this tries again.
 * But the owner of a dropped task may put it back (executor_insist()), so the queue need not get
 * any shorter. After as many drops as there were tasks, this one is dropped.
 */
static bool drop_oldest(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    size_t tries = executor->queue.length;
    while (!executor->closing) {
        struct task *oldest = tries > 0 ? task_queue_take(&executor->queue) : NULL;
        if (oldest == NULL)
            return executor_drop(executor,
                                 task); /* nothing waits that may go: it is itself the oldest */
        bool accepted = executor_place_task(executor, task, task_queue_offer);
        executor_drop(executor, oldest);
        if (accepted)
            return true;
        tries--;
    }
    return false;
}

const struct saturation_policy saturation_abort = {"abort", false, abort_task};
const struct saturation_policy saturation_block = {"block", false, block_submitter};
const struct saturation_policy saturation_caller_runs = {"caller-runs", false, run_in_caller};
const struct saturation_policy saturation_discard = {"discard", true, executor_drop};
const struct saturation_policy saturation_discard_oldest = {"discard-oldest", true, drop_oldest};
