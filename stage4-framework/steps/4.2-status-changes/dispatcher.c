#include "dispatcher.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/base/thread.h"

#include <errno.h>
#include <unistd.h>

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
    status_change_queue_init(&dispatcher->changes);
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

/* ---- Registration -------------------------------------------------------------------------- */

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
    status_change_queue_put(&dispatcher->changes, adapter); /* the guard's wakeup will do */
    selector_guard_release(&dispatcher->guard);
    return true;
}

/* Ends the connection at once: what waits is dropped. The adapter is gone afterwards. */
static void drop_adapter(struct dispatcher *dispatcher,
                         struct handler_adapter *adapter) NO_LOCK_HELD
{
    timer_heap_cancel(&dispatcher->timers, &adapter->timer);
    selector_cancel(&adapter->key);
    close(connection_detach(&adapter->connection));
    handler_adapter_release(adapter);
    admission_leave(dispatcher->admission);
}

/* ---- Dispatch ------------------------------------------------------------------------------ */

/* Only this thread changes a key's interest, so it needs no lock to see that nothing changes. */
static int set_interest(struct handler_adapter *adapter, unsigned interest)
{
    return adapter->key.interest == interest ? 0 : selector_interest(&adapter->key, interest);
}

/* Whether it is in the list of those that go on: then the next key there is attached. */
static bool has_turn(const struct handler_adapter *adapter)
{
    return adapter->key.attachment != adapter;
}

/* Puts it into that list, unless it is there: the others go first. */
static void give_turn(struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    if (!has_turn(adapter))
        turns_append(&dispatcher->again, &adapter->key);
}

/* Waits for what the connection wants, or ends it. */
static void resume_selection(struct dispatcher *dispatcher,
                             struct handler_adapter *adapter) NO_LOCK_HELD
{
    unsigned interest = connection_wants(&adapter->connection);
    if (interest == CONNECTION_RUN) {
        give_turn(dispatcher, adapter);
    } else if (interest == CONNECTION_OVER || set_interest(adapter, interest) != 0) {
        drop_adapter(dispatcher, adapter);
        return;
    }
    timer_heap_set_by(&dispatcher->timers, &adapter->timer,
                      connection_deadline(&adapter->connection, dispatcher->now));
}

/* Input has come, or room for what could not be sent before, or the connection is to end. */
static void invoke_handler(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                           unsigned ready) NO_LOCK_HELD
{
    if (adapter->processing)
        return; /* new, and still the acceptor's */
    loop_serves(&dispatcher->loop, adapter->key.fd);
    if ((ready & SELECT_READ) != 0)
        connection_receive(&adapter->connection);
    if (handler_adapter_process(adapter))
        set_interest(adapter, SELECT_NOTHING);
    else
        resume_selection(dispatcher, adapter);
}

/* A worker is through with an adapter, or it is new: then there may be no memory for its timer. */
static void go_on(struct dispatcher *dispatcher, struct handler_adapter *adapter) NO_LOCK_HELD
{
    adapter->processing = false;
    if (!timer_heap_set(&dispatcher->timers, &adapter->timer, INT64_MAX))
        drop_adapter(dispatcher, adapter);
    else if (dispatcher->stopping && connection_ask(&adapter->connection, ASK_STOP, 0))
        invoke_handler(dispatcher, adapter, SELECT_NOTHING);
    else
        resume_selection(dispatcher, adapter);
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

/* Goes on with every adapter that has changed since the last round: new ones, and those that ran.
 */
static void check_status_change_queue(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct handler_adapter *next = status_change_queue_take_all(&dispatcher->changes);
    while (next != NULL) {
        struct handler_adapter *adapter = next;
        next = adapter->next_changed; /* before it can be put in again */
        go_on(dispatcher, adapter);
    }
}

/* ---- Times --------------------------------------------------------------------------------- */

/* Has every handler finish what it has begun, when that was asked for. */
static void check_stop(struct dispatcher *dispatcher)
{
    if (!atomic_load(&dispatcher->stop_asked) || dispatcher->stopping)
        return;
    dispatcher->stopping = true;
    timer_heap_set_all(&dispatcher->timers, dispatcher->now);
    /* + 1: due last */
    timer_heap_set(&dispatcher->timers, &dispatcher->end_timer,
                   1 + server_drain_end(dispatcher->server));
}

/* A timer may fire too early, because its deadline has moved since: then it is only set again. */
static void fire(struct dispatcher *dispatcher, struct timer *timer) NO_LOCK_HELD
{
    struct handler_adapter *adapter = handler_adapter_of_timer(timer);
    timer_heap_set(&dispatcher->timers, timer, INT64_MAX);
    if (adapter->processing)
        return; /* its timer is set again when it is back */
    bool stops = dispatcher->stopping && connection_ask(&adapter->connection, ASK_STOP, 0);
    if (connection_expire(&adapter->connection, dispatcher->now) || stops || has_turn(adapter))
        give_turn(dispatcher, adapter); /* in this round, if it has none; that sets the timer */
    else
        resume_selection(dispatcher, adapter);
}

/* Runs every timer that is due. A handler may close itself then, but never another one. */
static void check_timers(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct timer *timer;
    while ((timer = timer_heap_due(&dispatcher->timers, dispatcher->now)) != NULL) {
        if (timer == &dispatcher->end_timer)
            return;
        fire(dispatcher, timer);
    }
}

/* No worker is left: nothing changes any more. */
static void end_workers(struct dispatcher *dispatcher)
{
    service_cut_short(&dispatcher->server->service);
    executor_end(dispatcher->executor, true);
}

/* Whether there is still something to do. */
static bool goes_on(struct dispatcher *dispatcher)
{
    return !dispatcher->stopping || (dispatcher->now < dispatcher->end_timer.moment &&
                                     !admission_is_empty(dispatcher->admission));
}

/* Ends those that have not come to their end in time. */
static void cut_off(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct timer *timer;
    check_status_change_queue(dispatcher);
    timer_heap_cancel(&dispatcher->timers, &dispatcher->end_timer);
    while ((timer = timer_heap_first(&dispatcher->timers)) != NULL)
        drop_adapter(dispatcher, handler_adapter_of_timer(timer));
}

/* How long to wait for events, ms. Those that go on without one, or are new, do not wait. */
static int select_timeout(struct dispatcher *dispatcher)
{
    struct timer_heap *timers = &dispatcher->timers;
    return dispatcher->again.first == NULL && status_change_queue_is_empty(&dispatcher->changes)
               ? timer_heap_timeout(timers, loop_sleeps(&dispatcher->loop, timers->count))
               : 0;
}

/* One that has more to do after its turn is in the list again, for the next round. */
static void take_turns(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct turns turns = dispatcher->again;
    struct selection_key *key;
    dispatcher->again.first = NULL;
    while ((key = turns_take_first(&turns)) != NULL) {
        struct handler_adapter *adapter = container_of(key, struct handler_adapter, key);
        key->attachment = adapter;
        invoke_handler(dispatcher, adapter, SELECT_NOTHING);
    }
}

/* Hands over what this round has found for workers; what they do not take is refused. */
static void submit_round(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    executor_submit_all(dispatcher->executor, &dispatcher->round);
    while (dispatcher->round.first != NULL) {
        struct task *task = task_list_remove_first(&dispatcher->round);
        struct handler_adapter *adapter = container_of(task, struct handler_adapter, task);
        handler_adapter_refuse(adapter);
        resume_selection(dispatcher, adapter);
    }
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
        check_status_change_queue(dispatcher);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* NULL: not wanted any more */
                invoke_handler(dispatcher, key->attachment, key->ready);
        }
        check_timers(dispatcher);
        if (dispatcher->again.first != NULL)
            take_turns(dispatcher);
        submit_round(dispatcher);
    }
    end_workers(dispatcher);
    cut_off(dispatcher);
}

/* ---- Its thread ---------------------------------------------------------------------------- */

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
