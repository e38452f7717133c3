/*
 * An executor as others see it: its kind of queue, what its counters say, and where its workers
 * are.
 */
#include "common/base/container_of.h"
#include "common/workers/executor.h"

bool executor_has_priorities(const struct executor *executor)
{
    return executor->settings.queue_kind == &task_queue_priority;
}

static void see_all(struct executor *executor,
                    void (*see)(void *context, struct executor_place *place), void *context)
    REQUIRES(&executor->lock)
{
    for (struct list_link *link = executor->places.next; link != &executor->places;
         link = link->next)
        see(context, container_of(link, struct executor_place, link));
}

void executor_look(struct executor *executor,
                   void (*see)(void *context, struct executor_place *place), void *context)
{
    mutex_lock(&executor->lock);
    see_all(executor, see, context);
    mutex_unlock(&executor->lock);
}

void executor_try_look(struct executor *executor,
                       void (*see)(void *context, struct executor_place *place), void *context)
{
    if (!mutex_try_lock(&executor->lock))
        return;
    see_all(executor, see, context);
    mutex_unlock(&executor->lock);
}

struct executor_stats executor_stats(struct executor *executor)
{
    mutex_lock(&executor->lock);
    struct executor_stats stats = executor->stats;
    stats.waiting = executor->queue.length;
    stats.idle = executor->sleeping + executor->starting - executor->promised;
    mutex_unlock(&executor->lock);
    return stats;
}

void executor_count(struct executor *executor, struct counters *counters)
{
    struct executor_stats stats = executor_stats(executor);
    counters_set(counters, COUNTER_TASKS_COMPLETED, stats.completed);
    counters_set(counters, COUNTER_TASKS_ABORTED, stats.aborted);
    counters_set(counters, COUNTER_TASKS_BLOCKED, stats.blocked);
    counters_set(counters, COUNTER_TASKS_BY_CALLER, stats.run_by_caller);
    counters_set(counters, COUNTER_TASKS_DISCARDED, stats.discarded);
    counters_set(counters, COUNTER_TASKS_LATE, stats.late);
    counters_set(counters, COUNTER_MAX_THREADS, stats.max_threads);
}
