#include "common/workers/executor_parts.h"

#include "common/base/clock.h"
#include "common/base/trace.h"

void executor_open(struct executor *executor, const struct executor_settings *settings)
{
    assert(settings->max >= settings->core);
    *executor = (struct executor){.settings = *settings};
    mutex_init(&executor->lock);
    condition_init(&executor->work);
    condition_init(&executor->room);
    condition_init(&executor->gone);
    mutex_lock(&executor->lock);
    list_init(&executor->places);
    task_queue_init(&executor->queue, settings->queue_kind, settings->queue_limit);
    while (settings->warm && settings->core > 0 && executor_start_thread(executor, settings->core))
        continue;
    mutex_unlock(&executor->lock);
}

bool executor_place_task(struct executor *executor, struct task *task,
                         bool (*put)(struct task_queue *, struct task *))
{
    size_t threads = executor->stats.threads;
    if ((threads == 0 || threads < executor->settings.core) &&
        executor_start_thread_for(executor, task, executor->settings.core))
        return true;
    if (threads == 0)
        return false;
    return executor_promise(executor, task) || put(&executor->queue, task) ||
           executor_start_thread_for(executor, task, executor->settings.max);
}

void executor_run_task(struct task *task)
{
    trace_event(TRACE_TASK, task->fd, (intptr_t)task);
    task_run(task);
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
}

static bool accept_task(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    if (executor->closing)
        return false;
    if (executor_place_task(executor, task, task_queue_offer))
        return true;
    executor_wake(executor); /* a policy may wait */
    if (executor->stats.threads == 0)
        return saturation_abort.saturated(executor, task); /* no thread would ever run it */
    return executor->settings.policy->saturated(executor, task);
}

/* Its waiting begins. */
static void begin_wait(const struct executor *executor, struct task *task)
{
    task->late = false;
    if (executor->settings.max_wait > 0)
        task->since = (uint32_t)clock_ms() & TASK_SINCE_MASK;
}

bool executor_submit(struct executor *executor, struct task *task)
{
    struct task_list one = {0};
    task_list_append(&one, task);
    executor_submit_all(executor, &one);
    return one.first == NULL;
}

void executor_submit_all(struct executor *executor, struct task_list *tasks)
{
    if (tasks->first == NULL)
        return;
    struct task_list refused = {0};
    mutex_lock(&executor->lock);
    while (tasks->first != NULL) {
        struct task *task = task_list_remove_first(tasks);
        begin_wait(executor, task);
        if (!accept_task(executor, task))
            task_list_append(&refused, task);
    }
    executor_release(executor);
    *tasks = refused;
}

bool executor_insist(struct executor *executor, struct task *task)
{
    begin_wait(executor, task);
    mutex_lock(&executor->lock);
    bool accepted = executor_place_task(executor, task, task_queue_insist);
    executor_wake(executor); /* and keeps the processor: a loop insists for one after the other */
    mutex_unlock(&executor->lock);
    return accepted;
}

bool executor_drop(struct executor *executor, struct task *task)
{
    executor->stats.discarded++;
    trace_event(TRACE_TASK_DROPPED, task->fd, (intptr_t)task);
    mutex_unlock(&executor->lock);
    task_drop(task);
    mutex_lock(&executor->lock);
    return true;
}

void executor_shutdown(struct executor *executor, bool now)
{
    mutex_lock(&executor->lock);
    executor->closing = true;
    condition_broadcast(&executor->work);
    condition_broadcast(&executor->room);
    struct task *waiting;
    while (now && (waiting = task_queue_take(&executor->queue)) != NULL)
        executor_drop(executor, waiting);
    executor_release(executor);
}

void executor_end(struct executor *executor, bool now)
{
    executor_shutdown(executor, now);
    mutex_lock(&executor->lock);
    while (executor->stats.threads > 0)
        condition_wait(&executor->gone, &executor->lock);
    mutex_unlock(&executor->lock);
}

void executor_close(struct executor *executor)
{
    executor_end(executor, true);
    condition_destroy(&executor->gone);
    condition_destroy(&executor->room);
    condition_destroy(&executor->work);
    mutex_destroy(&executor->lock);
}
