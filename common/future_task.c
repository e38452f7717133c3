#include "future_task.h"

#include <errno.h>

void future_monitor_init(struct future_monitor *monitor)
{
    mutex_init(&monitor->lock);
    condition_init(&monitor->changed);
}

void future_monitor_destroy(struct future_monitor *monitor)
{
    condition_destroy(&monitor->changed);
    mutex_destroy(&monitor->lock);
}

/* From one state to another, and whoever waits is told; false if it is not in that state. */
static bool change(struct future_task *future, enum future_state from, enum future_state to,
                   int error)
{
    struct future_monitor *monitor = future->monitor;
    mutex_lock(&monitor->lock);
    bool possible = future->state == from;
    if (possible) {
        future->state = to;
        future->error = error;
        condition_broadcast(&monitor->changed);
    }
    mutex_unlock(&monitor->lock);
    return possible;
}

static void call_done(struct future_task *future)
{
    if (future->done != NULL)
        future->done(future);
}

static struct future_task *future_of(struct task *task)
{
    return (struct future_task *)task;
}

static void run(struct task *task)
{
    struct future_task *future = future_of(task);
    if (change(future, FUTURE_PENDING, FUTURE_RUNNING, 0))
        change(future, FUTURE_RUNNING, FUTURE_DONE, future->call(future));
    call_done(future);
}

static void dropped(struct task *task)
{
    future_task_cancel(future_of(task));
    call_done(future_of(task));
}

void future_task_init(struct future_task *future, struct future_monitor *monitor,
                      int (*call)(struct future_task *), void (*done)(struct future_task *))
{
    *future = (struct future_task){
        .task = {.run = run, .dropped = dropped}, .call = call, .done = done, .monitor = monitor};
}

bool future_task_cancel(struct future_task *future)
{
    return change(future, FUTURE_PENDING, FUTURE_CANCELLED, ECANCELED);
}

static bool is_over(enum future_state state)
{
    return state == FUTURE_DONE || state == FUTURE_CANCELLED;
}

bool future_task_is_over(struct future_task *future)
{
    struct future_monitor *monitor = future->monitor;
    mutex_lock(&monitor->lock);
    bool over = is_over(future->state);
    mutex_unlock(&monitor->lock);
    return over;
}

bool future_task_was_cancelled(struct future_task *future)
{
    struct future_monitor *monitor = future->monitor;
    mutex_lock(&monitor->lock);
    bool cancelled = future->state == FUTURE_CANCELLED;
    mutex_unlock(&monitor->lock);
    return cancelled;
}

int future_task_get(struct future_task *future, int64_t deadline_ms)
{
    struct future_monitor *monitor = future->monitor;
    mutex_lock(&monitor->lock);
    bool in_time = true;
    while (!is_over(future->state) && in_time)
        in_time = condition_wait_until(&monitor->changed, &monitor->lock, deadline_ms);
    int error = is_over(future->state) ? future->error : ETIMEDOUT;
    mutex_unlock(&monitor->lock);
    return error;
}
