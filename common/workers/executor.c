#include "common/workers/executor.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/base/thread.h"
#include "common/base/trace.h"

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
    struct list_link link; /* in `idle` until it is called */
    struct semaphore call;
    _Atomic(struct task *) task; /* handed over with the call; NULL: look for yourself */
    struct worker *next_called;  /* in `called` */
    struct segment_cache cache;
    struct executor_place place;
};

/* Takes a sleeping worker out of `idle`. It gets its call when the lock is released. */
static void call_worker(struct executor *executor, struct worker *worker) REQUIRES(&executor->lock)
{
    list_remove(&worker->link);
    worker->next_called = executor->called;
    executor->called = worker;
    executor->stats.idle--;
}

/*
 * Hands the task over to a worker that sleeps: it needs no lock to begin. A worker sleeps only when
 * the queue is empty, so no other task has waited for longer. False if none sleeps.
 */
static bool hand_over(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    if (list_is_empty(&executor->idle))
        return false;
    struct worker *worker = container_of(executor->idle.next, struct worker, link);
    trace_object(TRACE_TASK_QUEUED, task->fd, task);
    worker->task = task;
    call_worker(executor, worker);
    return true;
}

/* What is called may end at once, and with it the link. */
static void wake(struct worker *called)
{
    while (called != NULL) {
        struct worker *worker = called;
        called = worker->next_called;
        TEST_POINT("executor: before a call");
        semaphore_post(&worker->call);
    }
}

/* Releases the lock before it wakes a thread, which may want the lock next. */
static void release(struct executor *executor) RELEASE(&executor->lock)
{
    struct worker *called = executor->called;
    executor->called = NULL;
    mutex_unlock(&executor->lock);
    wake(called);
}

/* The task whose turn it is. One that a thread was started for waits for no room: it goes first. */
static struct task *take(struct executor *executor) REQUIRES(&executor->lock)
{
    if (executor->first_tasks.first != NULL)
        return task_list_remove_first(&executor->first_tasks);
    struct task *task = task_queue_take(&executor->queue);
    if (task != NULL)
        signal_room(executor);
    return task;
}

/* Sleeps until it is called. A spare one calls itself after the keep-alive time: false then. */
static bool doze(struct executor *executor, struct worker *self, bool spare)
    RELEASE(&executor->lock)
{
    TEST_POINT("worker: finds nothing");
    self->task = NULL;
    list_insert_behind(&executor->idle, &self->link);
    executor->stats.idle++;
    signal_room(executor); /* a direct queue takes a task only if a worker waits */
    mutex_unlock(&executor->lock);
    TEST_POINT("worker: about to sleep");
    if (spare && semaphore_wait_until(&self->call, clock_ms() + executor->settings.keep_alive))
        return true;
    if (spare) {
        TEST_POINT("worker: has slept long enough");
        mutex_lock(&executor->lock);
        if (!list_is_empty(&self->link)) /* else another thread has called it */
            call_worker(executor, self);
        release(executor);
    }
    semaphore_wait(&self->call);
    return !spare;
}

/* The task whose turn it is, as soon as there is one; NULL when the thread has ended. */
static struct task *next_task(struct executor *executor, struct worker *self)
    RELEASE(&executor->lock)
{
    bool in_time = true;
    struct task *task;
    while ((task = take(executor)) == NULL && !executor->closing) {
        bool spare = executor->stats.threads > executor->settings.core;
        if (spare && (!in_time || executor->settings.keep_alive == 0))
            break;
        in_time = doze(executor, self, spare);
        if ((task = self->task) != NULL)
            return task;
        mutex_lock(&executor->lock);
    }
    if (task == NULL) {
        list_remove(&self->place.link);
        segment_cache_close(&self->cache); /* before another thread can know of the end */
        executor->stats.threads--;
        condition_broadcast(&executor->room); /* for another thread, or because there is none */
        condition_broadcast(&executor->gone);
    }
    mutex_unlock(&executor->lock);
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

/* The task's owner may be gone when it has run. */
static void run_task(struct task *task) NO_LOCK_HELD
{
    trace_object(TRACE_TASK, task->fd, task);
    task_run(task);
    trace_event(TRACE_TASK_FINISHED, TRACE_NO_CONNECTION, 0);
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
    semaphore_init(&self.call);
    segment_cache_open(&self.cache, executor->settings.buffers, SEGMENT_CACHE_LIMIT);
    mutex_lock(&executor->lock);
    list_append(&executor->places, &self.place.link);
    while ((task = next_task(executor, &self)) != NULL) {
        if (executor->settings.max_wait > 0)
            look_at_wait(executor, task);
        atomic_store_explicit(&self.place.turn, ++turn, memory_order_relaxed);
        atomic_store_explicit(&self.place.fd, task->fd, memory_order_relaxed);
        run_task(task);
        atomic_store_explicit(&self.place.fd, -1, memory_order_relaxed);
        mutex_lock(&executor->lock);
        executor->stats.completed++;
    }
    semaphore_destroy(&self.call);
    return NULL;
}

/* Whether the last attempts to start a thread have failed, and not long ago. */
static bool is_backing_off(const struct executor *executor) REQUIRES(&executor->lock)
{
    return executor->failed_starts > 1 && clock_ms() < executor->start_again;
}

/* A new thread, if there are fewer than `limit`, or none at all; false if there is no new one. */
static bool start_thread(struct executor *executor, size_t limit) REQUIRES(&executor->lock)
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
    stats->threads++;
    if (stats->max_threads < stats->threads)
        stats->max_threads = stats->threads;
    return true;
}

/* A new thread for the task. */
static bool start_thread_for(struct executor *executor, struct task *task, size_t limit)
    REQUIRES(&executor->lock)
{
    if (!start_thread(executor, limit))
        return false;
    trace_object(TRACE_TASK_QUEUED, task->fd, task);
    task_list_append(&executor->first_tasks, task); /* the thread waits for our lock */
    return true;
}

void executor_open(struct executor *executor, const struct executor_settings *settings)
{
    assert(settings->max >= settings->core);
    *executor = (struct executor){.settings = *settings};
    mutex_init(&executor->lock);
    condition_init(&executor->room);
    condition_init(&executor->gone);
    mutex_lock(&executor->lock);
    list_init(&executor->idle);
    list_init(&executor->places);
    task_queue_init(&executor->queue, settings->queue_kind, settings->queue_limit);
    while (settings->warm && settings->core > 0 && start_thread(executor, settings->core))
        continue;
    mutex_unlock(&executor->lock);
}

/*
 * Finds a thread or a place in the queue for the task. Without any thread a place is useless. `put`
 * is how it is queued: task_queue_offer() or task_queue_insist().
 */
static bool place(struct executor *executor, struct task *task,
                  bool (*put)(struct task_queue *, struct task *)) REQUIRES(&executor->lock)
{
    if (start_thread_for(executor, task, executor->settings.core))
        return true;
    if (executor->stats.threads == 0)
        return false;
    return hand_over(executor, task) || put(&executor->queue, task) ||
           start_thread_for(executor, task, executor->settings.max);
}

static bool accept_task(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    if (executor->closing)
        return false;
    if (place(executor, task, task_queue_offer))
        return true;
    wake(executor->called); /* a policy may wait for them */
    executor->called = NULL;
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
    release(executor);
    *tasks = refused;
}

bool executor_insist(struct executor *executor, struct task *task)
{
    begin_wait(executor, task);
    mutex_lock(&executor->lock);
    bool accepted = place(executor, task, task_queue_insist);
    release(executor);
    return accepted;
}

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
        if (!executor->closing && place(executor, task, task_queue_offer))
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
    run_task(task);
    mutex_lock(&executor->lock);
    return true;
}

static bool drop(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    executor->stats.discarded++;
    trace_object(TRACE_TASK_DROPPED, task->fd, task);
    mutex_unlock(&executor->lock);
    task_drop(task);
    mutex_lock(&executor->lock);
    return true;
}

/*
 * While the lock is free, another thread may take the room that was made: then this tries again.
 * But the owner of a dropped task may put it back (executor_insist()), so the queue need not get
 * any shorter. A thread that has dropped as many tasks as there were fails.
 */
static bool drop_oldest(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    size_t tries = executor->queue.length;
    while (!executor->closing) {
        struct task *oldest = tries > 0 ? task_queue_take(&executor->queue) : NULL;
        if (oldest == NULL)
            return drop(executor, task); /* nothing waits that may go: it is itself the oldest */
        bool accepted = place(executor, task, task_queue_offer);
        drop(executor, oldest);
        if (accepted)
            return true;
        tries--;
    }
    return false;
}

const struct saturation_policy saturation_abort = {"abort", false, abort_task};
const struct saturation_policy saturation_block = {"block", false, block_submitter};
const struct saturation_policy saturation_caller_runs = {"caller-runs", false, run_in_caller};
const struct saturation_policy saturation_discard = {"discard", true, drop};
const struct saturation_policy saturation_discard_oldest = {"discard-oldest", true, drop_oldest};

void executor_shutdown(struct executor *executor, bool now)
{
    mutex_lock(&executor->lock);
    executor->closing = true;
    while (!list_is_empty(&executor->idle))
        call_worker(executor, container_of(executor->idle.next, struct worker, link));
    condition_broadcast(&executor->room);
    struct task *waiting;
    while (now && (waiting = task_queue_take(&executor->queue)) != NULL)
        drop(executor, waiting);
    release(executor);
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
    mutex_destroy(&executor->lock);
}

bool executor_has_priorities(const struct executor *executor)
{
    return executor->settings.queue_kind == &task_queue_priority;
}
