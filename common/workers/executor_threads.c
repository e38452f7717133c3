/*
 * An executor's threads: how they begin, sleep, are woken, and end.
 */
#include "common/base/clock.h"
#include "common/base/test_point.h"
#include "common/base/trace.h"
#include "common/workers/executor_parts.h"

#include <sched.h>

enum {
    BACK_OFF_MS = 100, /* after no thread could be started twice, before that is tried again */
};

/* A blocked submitter may try again. */
static void signal_room(struct executor *executor) REQUIRES(&executor->lock)
{
    if (executor->submitters > 0)
        condition_signal(&executor->room);
}

/* A thread of the pool. It is on that thread's stack. */
struct worker {
    struct segment_cache cache;
    struct executor_place place;
};

/* In front of the queue: for a worker that sleeps, or starts. Any other may be there first. */
static void promise(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    trace_event(TRACE_TASK_QUEUED, task->fd, (intptr_t)task);
    task_list_append(&executor->first_tasks, task);
    executor->promised++;
}

bool executor_promise(struct executor *executor, struct task *task)
{
    if (executor->queue.length > 0 || executor->promised >= executor->sleeping + executor->starting)
        return false; /* nobody passes one that waits */
    promise(executor, task);
    return true;
}

/* Whether a worker sleeps, and more tasks wait than workers start. */
static bool misses_worker(const struct executor *executor) REQUIRES(&executor->lock)
{
    return executor->sleeping > 0 &&
           executor->promised + executor->queue.length > executor->starting;
}

/* With the lock or without. */
static void call_worker(struct executor *executor)
{
    TEST_POINT("executor: before a call");
    condition_signal(&executor->work);
}

void executor_wake(struct executor *executor)
{
    if (misses_worker(executor))
        call_worker(executor);
}

void executor_release(struct executor *executor)
{
    bool calls = misses_worker(executor);
    mutex_unlock(&executor->lock);
    if (!calls)
        return;
    call_worker(executor);
    sched_yield(); /* a loop that comes back later finds more to do in one round */
}

/*
 * The task whose turn it is, and no more: what a worker took with it would wait behind it, though
 * others sleep (docs/model.md, TAKES_SEVERAL).
 */
static struct task *take(struct executor *executor) REQUIRES(&executor->lock)
{
    struct task *task;
    if (executor->promised > 0) {
        task = task_list_remove_first(&executor->first_tasks);
        executor->promised--;
    } else {
        task = task_queue_take(&executor->queue);
    }
    if (task != NULL)
        signal_room(executor);
    return task;
}

/* In the worker: sleeps, without the lock, until it is called; a spare one, until its deadline. */
static void doze(struct executor *executor, bool spare, int64_t deadline_ms)
    REQUIRES(&executor->lock)
{
    TEST_POINT("worker: finds nothing");
    executor->sleeping++;
    signal_room(executor); /* a direct queue takes a task only if a worker waits */
    if (spare)
        condition_wait_until(&executor->work, &executor->lock, deadline_ms);
    else
        condition_wait(&executor->work, &executor->lock);
    executor->sleeping--;
}

/*
 * In the worker: the task whose turn it is, as soon as there is one. NULL: the thread must end, and
 * the executor may be gone.
 */
static struct task *next_task(struct executor *executor, struct worker *self)
    RELEASE(&executor->lock)
{
    int64_t deadline = 0; /* of a spare one, from its first look in vain */
    bool has_slept = false;
    struct task *task;
    while ((task = take(executor)) == NULL && !executor->closing) {
        bool spare = executor->stats.threads > executor->settings.core;
        if (spare && deadline == 0)
            deadline = clock_ms() + executor->settings.keep_alive;
        if (spare && clock_ms() >= deadline)
            break;
        doze(executor, spare, deadline);
        has_slept = true;
    }
    bool calls = has_slept && misses_worker(executor);
    if (task == NULL) {
        list_remove(&self->place.link);
        segment_cache_close(&self->cache); /* before another thread can know of the end */
        executor->stats.threads--;
        condition_broadcast(&executor->room); /* for another thread, or because there is none */
        condition_broadcast(&executor->gone);
    }
    mutex_unlock(&executor->lock);
    if (calls)
        call_worker(executor); /* one more, for what is left */
    return task;
}

/*
 * In the worker, when the run is about to begin, if there is a max_wait. Differences of 32 bits
 * hold for 49 days.
 */
static void look_at_wait(struct executor *executor, struct task *task) EXCLUDES(&executor->lock)
{
    uint32_t waited = ((uint32_t)clock_ms() - task->since) & TASK_SINCE_MASK;
    task->late = waited > executor->settings.max_wait;
    if (!task->late)
        return;
    mutex_lock(&executor->lock);
    executor->stats.late++;
    mutex_unlock(&executor->lock);
}

static void *worker(void *argument)
{
    struct executor *executor = argument;
    struct worker self = {.place.fd = -1};
    struct task *task;
    unsigned turn = 0;
    thread_holds_no_lock_yet();
    thread_set_name("%s %zu", executor->settings.name != NULL ? executor->settings.name : "worker",
                    atomic_fetch_add(&executor->named, 1) + 1);
    thread_name(self.place.name);
    segment_cache_open(&self.cache, executor->settings.buffers, SEGMENT_CACHE_LIMIT);
    mutex_lock(&executor->lock);
    list_append(&executor->places, &self.place.link);
    executor->starting--;
    while ((task = next_task(executor, &self)) != NULL) {
        if (executor->settings.max_wait > 0)
            look_at_wait(executor, task);
        atomic_store_explicit(&self.place.turn, ++turn, memory_order_relaxed);
        atomic_store_explicit(&self.place.fd, task->fd, memory_order_relaxed);
        executor_run_task(task);
        atomic_store_explicit(&self.place.fd, -1, memory_order_relaxed);
        mutex_lock(&executor->lock);
        executor->stats.completed++;
    }
    return NULL;
}

/* Whether the last attempts to start a thread have failed, and not long ago. */
static bool is_backing_off(const struct executor *executor) REQUIRES(&executor->lock)
{
    return executor->failed_starts > 1 && clock_ms() < executor->start_again;
}

bool executor_start_thread(struct executor *executor, size_t limit)
{
    struct executor_stats *stats = &executor->stats;
    if ((stats->threads > 0 && stats->threads >= limit) || is_backing_off(executor))
        return false;
    if (thread_start(NULL, worker, executor) != 0) {
        executor->failed_starts++;
        executor->start_again = clock_ms() + BACK_OFF_MS;
        return false;
    }
    executor->failed_starts = 0;
    executor->starting++;
    stats->threads++;
    if (stats->max_threads < stats->threads)
        stats->max_threads = stats->threads;
    return true;
}

bool executor_start_thread_for(struct executor *executor, struct task *task, size_t limit)
{
    if (!executor_start_thread(executor, limit))
        return false;
    promise(executor, task); /* the thread waits for our lock */
    return true;
}
