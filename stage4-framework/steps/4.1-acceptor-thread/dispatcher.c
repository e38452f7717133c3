#include "dispatcher.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/base/thread.h"
#include "handler_adapter.h"

#include <errno.h>

/* What the dispatcher's thread does, as a future: main can wait for its end, with a deadline. */
static int live(struct future_task *future) NO_LOCK_HELD
{
    dispatcher_dispatch(container_of(future, struct dispatcher, life));
    return 0;
}

int dispatcher_open(struct dispatcher *dispatcher, struct server *server, struct executor *executor,
                    struct admission *admission, const struct selector_provider *provider,
                    bool guard_works)
{
    *dispatcher =
        (struct dispatcher){.server = server, .executor = executor, .admission = admission};
    if (selector_open(&dispatcher->selector, provider) != 0)
        return -1;
    selector_guard_init(&dispatcher->guard, &dispatcher->selector, guard_works);
    future_monitor_init(&dispatcher->monitor);
    future_task_init(&dispatcher->life, &dispatcher->monitor, live, NULL);
    timer_heap_init(&dispatcher->timers);
    dispatcher->now = clock_ms();
    if (timer_heap_set(&dispatcher->timers, &dispatcher->end_timer, INT64_MAX))
        return 0;
    dispatcher_close(dispatcher);
    errno = ENOMEM;
    return -1;
}

void dispatcher_close(struct dispatcher *dispatcher)
{
    timer_heap_destroy(&dispatcher->timers);
    future_monitor_destroy(&dispatcher->monitor);
    selector_guard_destroy(&dispatcher->guard);
    selector_close(&dispatcher->selector);
}

/*
 * The acceptor's thread. The dispatcher may be asleep in select, so the selector can only be
 * changed under the guard. The dispatcher does the rest itself, such as the new client's timer; it
 * also tries again if there is no memory to watch the descriptor.
 */
bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd,
                                 struct input_handler_factory *factory)
{
    struct handler_adapter *adapter = handler_adapter_create(dispatcher, fd, factory);
    if (adapter == NULL)
        return false;
    connection_advance(&adapter->connection, LIFE_STARTING);
    selector_guard_acquire(&dispatcher->guard);
    if (selector_register(&dispatcher->selector, &adapter->key, fd, SELECT_READ, adapter) != 0)
        selector_register(&dispatcher->selector, &adapter->key, fd, SELECT_NOTHING, adapter);
    dispatcher_hand_back(dispatcher, &adapter->task);
    selector_guard_release(&dispatcher->guard);
    return true;
}

bool dispatcher_is_stopping(const struct dispatcher *dispatcher) NO_THREAD_SAFETY_ANALYSIS
{
    return dispatcher->stopping; /* only this thread changes it */
}

/* Goes on with the adapters that are new, or that workers have given back. */
static void take_back(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    mutex_lock(&dispatcher->guard.lock);
    struct task *task = dispatcher->handed_back;
    dispatcher->handed_back = NULL;
    mutex_unlock(&dispatcher->guard.lock);
    while (task != NULL) {
        struct task *next = task->next;
        handler_adapter_go_on(task);
        task = next;
    }
}

void dispatcher_hand_back(struct dispatcher *dispatcher, struct task *task)
{
    task->next = dispatcher->handed_back;
    dispatcher->handed_back = task;
}

/* Adds up what its connections hold. */
static void count_held(struct dispatcher *dispatcher)
{
    uint64_t output = 0, input = 0;
    for (size_t i = 0; i < dispatcher->timers.count; i++) {
        struct timer *timer = dispatcher->timers.timers[i];
        if (timer != &dispatcher->end_timer)
            handler_adapter_count_held(handler_adapter_of_timer(timer), &output, &input);
    }
    loop_answers(&dispatcher->loop, output, input);
}

/* Has every handler finish what it has begun, when that was asked for. */
static void check_stop(struct dispatcher *dispatcher)
{
    if (!atomic_load(&dispatcher->stop_asked) || dispatcher_is_stopping(dispatcher))
        return;
    mutex_lock(&dispatcher->guard.lock);
    dispatcher->stopping = true;
    mutex_unlock(&dispatcher->guard.lock);
    timer_heap_set_all(&dispatcher->timers, dispatcher->now);
    /* + 1: due last */
    timer_heap_set(&dispatcher->timers, &dispatcher->end_timer,
                   1 + server_drain_end(dispatcher->server));
}

/* Runs every timer that is due. A handler may close itself then, but never another one. */
static void check_timers(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct timer *timer;
    while ((timer = timer_heap_due(&dispatcher->timers, dispatcher->now)) != NULL) {
        if (timer == &dispatcher->end_timer)
            return;
        handler_adapter_expire(handler_adapter_of_timer(timer));
    }
}

/* No worker is left: nobody hands back any more. */
static void end_workers(struct dispatcher *dispatcher)
{
    service_cut_short(&dispatcher->server->service);
    executor_end(dispatcher->executor, true);
}

/* Whether there is still something to do. */
static bool goes_on(struct dispatcher *dispatcher)
{
    return !dispatcher_is_stopping(dispatcher) || (dispatcher->now < dispatcher->end_timer.moment &&
                                                   !admission_is_empty(dispatcher->admission));
}

/* Ends those that have not come to their end in time. */
static void cut_off(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct timer *timer;
    take_back(dispatcher);
    timer_heap_cancel(&dispatcher->timers, &dispatcher->end_timer);
    while ((timer = timer_heap_first(&dispatcher->timers)) != NULL)
        handler_adapter_close(handler_adapter_of_timer(timer));
}

/* How long to wait for events, ms. Those that go on without one are not kept waiting. */
static int select_timeout(struct dispatcher *dispatcher)
{
    struct timer_heap *timers = &dispatcher->timers;
    return dispatcher->again.first == NULL
               ? timer_heap_timeout(timers, loop_sleeps(&dispatcher->loop, timers->count))
               : 0;
}

/* Hands over what this round has found for workers; what they do not take is refused. */
static void submit_round(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    executor_submit_all(dispatcher->executor, &dispatcher->round);
    while (dispatcher->round.first != NULL)
        handler_adapter_refuse(task_list_remove_first(&dispatcher->round));
}

void dispatcher_dispatch(struct dispatcher *dispatcher)
{
    struct selector *selector = &dispatcher->selector;
    while (goes_on(dispatcher)) {
        selector_guard_barrier(&dispatcher->guard);
        TEST_POINT("dispatcher: before select");
        size_t count = selector_select(selector, select_timeout(dispatcher));
        TEST_POINT("dispatcher: after select");
        dispatcher->now = loop_woke(&dispatcher->loop);
        check_stop(dispatcher);
        if (loop_is_asked(&dispatcher->loop))
            count_held(dispatcher);
        take_back(dispatcher);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* NULL: not wanted any more */
                handler_adapter_run(key->attachment);
        }
        check_timers(dispatcher);
        if (dispatcher->again.first != NULL)
            handler_adapter_take_turns(&dispatcher->again);
        submit_round(dispatcher);
    }
    end_workers(dispatcher);
    cut_off(dispatcher);
}

static void *dispatcher_thread(void *argument)
{
    struct dispatcher *dispatcher = argument;
    struct segment_cache cache;
    thread_holds_no_lock_yet();
    thread_set_name("dispatcher");
    thread_serves = &dispatcher->loop.fd;
    segment_cache_open(&cache, &dispatcher->server->buffers, SEGMENT_CACHE_LIMIT);
    task_run(&dispatcher->life.task);
    segment_cache_close(&cache);
    return NULL;
}

int dispatcher_start(struct dispatcher *dispatcher)
{
    return thread_start(&dispatcher->thread, dispatcher_thread, dispatcher);
}

void dispatcher_stop(struct dispatcher *dispatcher)
{
    atomic_store(&dispatcher->stop_asked, true);
    dispatcher_wakeup(dispatcher);
}

bool dispatcher_await(struct dispatcher *dispatcher, int64_t deadline_ms)
{
    return future_task_get(&dispatcher->life, deadline_ms) != ETIMEDOUT;
}

/* A handler that runs in that thread may hold it up. */
void dispatcher_join(struct dispatcher *dispatcher, int64_t deadline_ms)
{
    if (!dispatcher_await(dispatcher, deadline_ms))
        service_cut_short(&dispatcher->server->service);
    pthread_join(dispatcher->thread, NULL);
}

void dispatcher_wakeup(struct dispatcher *dispatcher)
{
    selector_wakeup(&dispatcher->selector);
}

void dispatcher_count(struct dispatcher *dispatcher)
{
    struct counters *counters = &dispatcher->server->counters;
    const struct selector *selector = &dispatcher->selector;
    counters_set(counters, COUNTER_WAKEUPS_ASKED, atomic_load(&selector->wakeups_asked));
    counters_set(counters, COUNTER_WAKEUPS_WRITTEN, atomic_load(&selector->wakeups_written));
    executor_count(dispatcher->executor, counters);
}
