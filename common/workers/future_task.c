#include "common/workers/future_task.h"

#include "common/base/container_of.h"
#include "common/base/test_point.h"

#include <errno.h>

void future_monitor_init(struct future_monitor *monitor)
{
    mutex_init(&monitor->lock);
    condition_init(&monitor->over);
    atomic_init(&monitor->waiting, 0);
}

void future_monitor_destroy(struct future_monitor *monitor)
{
    condition_destroy(&monitor->over);
    mutex_destroy(&monitor->lock);
}

/* From one state to another; false if it is not in that state. */
static bool change(struct future_task *future, enum future_state from, enum future_state to)
{
    return atomic_compare_exchange_strong(&future->state, &from, to);
}

/*
 * Wakes the threads that wait for a future, once it is over. A thread that waits counts itself
 * before it reads the state, and here the state is set before the count is read. So either that
 * thread sees the new state, or it is counted here (sequentially consistent).
 */
static void wake(struct future_monitor *monitor)
{
    if (monitor == NULL || atomic_load(&monitor->waiting) == 0)
        return;
    mutex_lock(&monitor->lock); /* it has counted itself under this lock, and sleeps by now */
    condition_broadcast(&monitor->over);
    mutex_unlock(&monitor->lock);
}

static void call_done(struct future_task *future) NO_LOCK_HELD
{
    if (future->done != NULL)
        future->done(future);
}

static struct future_task *future_of(struct task *task)
{
    return container_of(task, struct future_task, task);
}

static void run(struct task *task) NO_LOCK_HELD
{
    struct future_task *future = future_of(task);
    TEST_POINT("future: before it runs");
    if (change(future, FUTURE_PENDING, FUTURE_RUNNING)) {
        future->result = future->call(future);
        atomic_store(&future->state, FUTURE_DONE);
        wake(future->monitor);
    }
    call_done(future);
}

static void dropped(struct task *task) NO_LOCK_HELD
{
    future_task_cancel(future_of(task));
    call_done(future_of(task));
}

static const struct task_verbs future_verbs = {run, dropped};

void future_task_init(struct future_task *future, struct future_monitor *monitor,
                      int (*call)(struct future_task *), void (*done)(struct future_task *))
{
    *future = (struct future_task){
        .task = {.verbs = &future_verbs}, .call = call, .done = done, .monitor = monitor};
}

bool future_task_cancel(struct future_task *future)
{
    bool in_time = change(future, FUTURE_PENDING, FUTURE_CANCELLED);
    if (in_time)
        wake(future->monitor);
    return in_time;
}

bool future_task_is_over(struct future_task *future)
{
    enum future_state state = atomic_load(&future->state);
    return state == FUTURE_DONE || state == FUTURE_CANCELLED;
}

bool future_task_has_run(struct future_task *future, int *result)
{
    bool has_run = atomic_load(&future->state) == FUTURE_DONE;
    if (has_run && result != NULL)
        *result = future->result;
    return has_run;
}

int future_task_get(struct future_task *future, int64_t deadline_ms)
{
    struct future_monitor *monitor = future->monitor;
    int result;
    assert(monitor != NULL);
    bool in_time = true;
    mutex_lock(&monitor->lock);
    atomic_fetch_add(&monitor->waiting, 1);
    while (!future_task_is_over(future) && in_time)
        in_time = condition_wait_until(&monitor->over, &monitor->lock, deadline_ms);
    atomic_fetch_sub(&monitor->waiting, 1);
    mutex_unlock(&monitor->lock);
    if (future_task_has_run(future, &result))
        return result;
    return future_task_is_over(future) ? ECANCELED : ETIMEDOUT;
}
