/*
 * Stands in for common/workers/executor_threads.c: a thread that has begun stays, all sleep at one
 * condition, and each task wakes all of them.
 */
#include "common/workers/executor_parts.h"

/* The task whose turn it is, as soon as there is one; NULL: nothing comes any more. */
static struct task *next_task(struct executor *executor) REQUIRES(&executor->lock)
{
    struct task *task;
    while ((task = task_queue_take(&executor->queue)) == NULL && !executor->closing)
        condition_wait(&executor->work, &executor->lock);
    if (executor->submitters > 0)
        condition_broadcast(&executor->room); /* there is room */
    return task;
}

static void *worker(void *argument)
{
    struct executor *executor = argument;
    struct task *task;
    thread_holds_no_lock_yet();
    thread_set_name("worker");
    mutex_lock(&executor->lock);
    while ((task = next_task(executor)) != NULL) {
        mutex_unlock(&executor->lock);
        executor_run_task(task);
        mutex_lock(&executor->lock);
    }
    executor->stats.threads--;
    condition_broadcast(&executor->gone);
    mutex_unlock(&executor->lock);
    return NULL;
}

bool executor_start_thread(struct executor *executor, size_t limit)
{
    if (executor->stats.threads >= limit || thread_start(NULL, worker, executor) != 0)
        return false;
    executor->stats.threads++;
    return true;
}

bool executor_start_thread_for(struct executor *executor, struct task *task, size_t limit)
{
    return executor_start_thread(executor, limit) && task_queue_insist(&executor->queue, task);
}

bool executor_promise(struct executor *executor, struct task *task)
{
    (void)task;
    condition_broadcast(&executor->work); /* they find it in the queue, if it takes it */
    return false;
}

void executor_wake(struct executor *executor)
{
    (void)executor;
}

void executor_release(struct executor *executor)
{
    mutex_unlock(&executor->lock);
}
