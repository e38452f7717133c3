#include "dispatcher.h"

#include "common/clock.h"
#include "common/test_point.h"

#include <limits.h>
#include <unistd.h>

int dispatcher_open(struct dispatcher *dispatcher, struct server *server, struct executor *executor,
                    struct admission *admission, const struct selector_provider *provider,
                    bool guard_stands)
{
    *dispatcher =
        (struct dispatcher){.server = server, .executor = executor, .admission = admission};
    if (selector_open(&dispatcher->selector, provider) != 0)
        return -1;
    selector_guard_init(&dispatcher->guard, &dispatcher->selector, guard_stands);
    status_change_queue_init(&dispatcher->changes);
    future_monitor_init(&dispatcher->monitor);
    mutex_init(&dispatcher->end_lock);
    condition_init(&dispatcher->end);
    dispatcher->now = clock_ms();
    dispatcher->next_sweep = INT64_MAX;
    return 0;
}

void dispatcher_close(struct dispatcher *dispatcher)
{
    condition_destroy(&dispatcher->end);
    mutex_destroy(&dispatcher->end_lock);
    future_monitor_destroy(&dispatcher->monitor);
    status_change_queue_destroy(&dispatcher->changes);
    selector_guard_destroy(&dispatcher->guard);
    selector_close(&dispatcher->selector);
}

/* ---- Registration -------------------------------------------------------------------------- */

/*
 * The key is registered without interest: that begins when the handler's `started` has run, which
 * the status change asks for.
 */
bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd, bool urgent,
                                 struct input_handler *handler)
{
    struct handler_adapter *adapter = handler_adapter_create(dispatcher, fd, urgent, handler);
    if (adapter == NULL) {
        if (handler->verbs->unused != NULL)
            handler->verbs->unused(handler);
        return false;
    }
    handler_adapter_live_to(adapter, LIFE_STARTING);
    atomic_fetch_add(&dispatcher->registered, 1);
    selector_guard_acquire(&dispatcher->guard);
    int result =
        selector_register(&dispatcher->selector, &adapter->key, fd, SELECT_NOTHING, adapter);
    if (result == 0)
        handler_adapter_done(adapter, 0);
    selector_guard_release(&dispatcher->guard);
    if (result == 0)
        return true;
    atomic_fetch_sub(&dispatcher->registered, 1);
    handler_adapter_live_to(adapter, LIFE_STOPPED);
    handler_adapter_detach(adapter);
    handler_adapter_release(adapter);
    return false;
}

void dispatcher_unregister_channel(struct channel_facade *facade)
{
    handler_adapter_wish((struct handler_adapter *)facade, WISH_END);
}

/* What the dispatcher wishes of every connection at this moment. */
static void wish_by_phase(const struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    if (dispatcher->cut_off)
        handler_adapter_wish(adapter, WISH_END);
    else if (dispatcher->drain_until != 0)
        handler_adapter_wish(adapter, WISH_STOP);
}

static void sweep_no_later_than(struct dispatcher *dispatcher, int64_t delay)
{
    if (delay != INT64_MAX && dispatcher->now + delay < dispatcher->next_sweep)
        dispatcher->next_sweep = dispatcher->now + delay;
}

/* An adapter comes in by its first status change. */
static void add_adapter(struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    adapter->next = dispatcher->adapters;
    if (adapter->next != NULL)
        adapter->next->previous = adapter;
    dispatcher->adapters = adapter;
    sweep_no_later_than(dispatcher,
                        deadline_limits_shortest(&dispatcher->server->settings.deadlines));
    wish_by_phase(dispatcher, adapter);
}

/* An adapter whose handler has heard `stopped` goes. */
static void drop_adapter(struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    if (adapter->previous != NULL)
        adapter->previous->next = adapter->next;
    else
        dispatcher->adapters = adapter->next;
    if (adapter->next != NULL)
        adapter->next->previous = adapter->previous;
    selector_cancel(&adapter->key);
    close(handler_adapter_detach(adapter));
    handler_adapter_release(adapter);
    counters_add(&dispatcher->server->counters, COUNTER_CLOSED, 1);
    atomic_fetch_sub(&dispatcher->registered, 1);
    admission_leave(dispatcher->admission);
}

/* ---- Dispatch ------------------------------------------------------------------------------ */

/*
 * Runs that must take place are not subject to the saturation policy; if there is no worker at all,
 * the dispatcher does them itself. Any other run that is refused costs the message it was for.
 */
void dispatcher_execute(struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    struct task *task = &adapter->run.future.task;
    handler_future_task_prepare(&adapter->run, adapter);
    if (handler_adapter_must_run(adapter)) {
        if (!executor_insist(dispatcher->executor, task))
            task->run(task);
    } else if (!executor_submit(dispatcher->executor, task)) {
        handler_adapter_refuse(adapter, true);
    }
}

/* An event, or a wish, for an adapter: stops selection on its channel and has it run. */
static void invoke_handler(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                           unsigned ready)
{
    if (!handler_adapter_prepare_to_run(adapter, ready))
        return;
    selector_interest(&adapter->key, SELECT_NOTHING);
    dispatcher_execute(dispatcher, adapter);
}

/* A handler has run, and waits for events again: for one. A worker has it then, and reads later. */
static void resume_selection(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                             unsigned interest)
{
    if (adapter->phase == ADAPTER_LINGERING)
        sweep_no_later_than(dispatcher, SERVER_LINGER_MS);
    if (selector_interest(&adapter->key, interest | SELECT_ONCE) != 0)
        handler_adapter_wish(adapter, WISH_END);
}

/* Looks at every adapter that has changed since the last round. */
static void check_status_change_queue(struct dispatcher *dispatcher)
{
    struct handler_adapter *next = status_change_queue_take_all(&dispatcher->changes);
    while (next != NULL) {
        struct handler_adapter *adapter = next;
        unsigned interest;
        next = adapter->next_changed; /* before it can be put in again */
        switch (handler_adapter_status(adapter, &interest)) {
        case ADAPTER_IS_RUNNING: break;
        case ADAPTER_IS_DEAD: drop_adapter(dispatcher, adapter); break;
        case ADAPTER_WANTS_RUN:
            if (adapter->life == LIFE_STARTING)
                add_adapter(dispatcher, adapter);
            invoke_handler(dispatcher, adapter, SELECT_NOTHING);
            break;
        case ADAPTER_WANTS_REST: resume_selection(dispatcher, adapter, interest); break;
        }
    }
}

static void wish_of_all(struct dispatcher *dispatcher)
{
    for (struct handler_adapter *adapter = dispatcher->adapters; adapter != NULL;
         adapter = adapter->next)
        wish_by_phase(dispatcher, adapter);
}

/* Begins to stop when that was asked for, and cuts connections off when they had their time. */
static void check_stop(struct dispatcher *dispatcher)
{
    if (!atomic_load(&dispatcher->stop_asked))
        return;
    if (dispatcher->drain_until == 0) {
        dispatcher->drain_until = dispatcher->now + dispatcher->server->settings.drain_timeout;
        wish_of_all(dispatcher);
    }
    if (dispatcher->now >= dispatcher->drain_until && !dispatcher->cut_off) {
        dispatcher->cut_off = true;
        service_cut_short(&dispatcher->server->service);
        wish_of_all(dispatcher);
    }
}

/* Looks at all deadlines, and finds out when to look again. */
static void sweep(struct dispatcher *dispatcher)
{
    if (dispatcher->now < dispatcher->next_sweep)
        return;
    int64_t next = INT64_MAX;
    for (struct handler_adapter *adapter = dispatcher->adapters; adapter != NULL;
         adapter = adapter->next) {
        int64_t moment = handler_adapter_expire(adapter, dispatcher->now);
        next = moment < next ? moment : next;
    }
    int64_t earliest = dispatcher->now + DISPATCHER_TICK_MS;
    dispatcher->next_sweep = next > earliest ? next : earliest;
    if (dispatcher->adapters != NULL)
        sweep_no_later_than(dispatcher,
                            deadline_limits_shortest(&dispatcher->server->settings.deadlines));
}

/* How long select may sleep: until something happens, unless a deadline comes first. */
static int select_timeout(const struct dispatcher *dispatcher)
{
    if (dispatcher->drain_until != 0)
        return DISPATCHER_TICK_MS;
    if (dispatcher->adapters == NULL || dispatcher->next_sweep == INT64_MAX)
        return -1;
    int64_t left = dispatcher->next_sweep - dispatcher->now;
    if (left > INT_MAX)
        return INT_MAX;
    return left > 0 ? (int)left : 0;
}

static bool goes_on(const struct dispatcher *dispatcher)
{
    return !atomic_load(&dispatcher->stop_asked) || atomic_load(&dispatcher->registered) > 0;
}

void dispatcher_dispatch(struct dispatcher *dispatcher)
{
    struct selector *selector = &dispatcher->selector;
    while (goes_on(dispatcher)) {
        selector_guard_barrier(&dispatcher->guard);
        TEST_POINT("dispatcher: before select");
        size_t count = selector_select(selector, select_timeout(dispatcher));
        TEST_POINT("dispatcher: after select");
        dispatcher->now = clock_ms();
        check_stop(dispatcher);
        executor_hold(dispatcher->executor); /* one waking for all that this round submits */
        check_status_change_queue(dispatcher);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* cancelled by a status change */
                invoke_handler(dispatcher, key->attachment, key->ready);
        }
        executor_release(dispatcher->executor);
        sweep(dispatcher);
    }
    mutex_lock(&dispatcher->end_lock);
    dispatcher->ended = true;
    condition_broadcast(&dispatcher->end);
    mutex_unlock(&dispatcher->end_lock);
}

bool dispatcher_await(struct dispatcher *dispatcher, int64_t deadline_ms)
{
    mutex_lock(&dispatcher->end_lock);
    bool in_time = true;
    while (!dispatcher->ended && in_time)
        in_time = condition_wait_until(&dispatcher->end, &dispatcher->end_lock, deadline_ms);
    bool ended = dispatcher->ended;
    mutex_unlock(&dispatcher->end_lock);
    return ended;
}

void dispatcher_stop(struct dispatcher *dispatcher)
{
    atomic_store(&dispatcher->stop_asked, true);
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
