#include "dispatcher.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/base/thread.h"
#include "common/server/strand_host.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* The dispatcher that runs in this thread; NULL: none. */
static _Thread_local const struct dispatcher *own_dispatcher;

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
    dispatcher->home = server->home;
    dispatcher->home.counters = &dispatcher->counters;
    if (selector_open(&dispatcher->selector, provider) != 0)
        return -1;
    selector_guard_init(&dispatcher->guard, &dispatcher->selector, guard_works);
    status_change_queue_init(&dispatcher->changes);
    future_monitor_init(&dispatcher->monitor);
    future_task_init(&dispatcher->life, &dispatcher->monitor, live, NULL);
    timer_heap_init(&dispatcher->timers);
    dispatcher->now = clock_ms();
    if (timer_heap_set(&dispatcher->timers, &dispatcher->end_timer, INT64_MAX) &&
        (guard_works || selector_register(&dispatcher->selector, &dispatcher->signals_key,
                                          server->signals.fd, SELECT_READ, NULL) == 0))
        return 0;
    int error = errno;
    dispatcher_close(dispatcher);
    errno = error;
    return -1;
}

void dispatcher_close(struct dispatcher *dispatcher)
{
    selector_cancel(&dispatcher->signals_key);
    timer_heap_destroy(&dispatcher->timers);
    future_monitor_destroy(&dispatcher->monitor);
    selector_guard_destroy(&dispatcher->guard);
    selector_close(&dispatcher->selector);
}

/* ---- Registration -------------------------------------------------------------------------- */

/*
 * With interest, so the provider is called: poll's moves the array that a sleeping dispatcher uses.
 * If there is no memory for that, the dispatcher tries again, and ends the connection. An event
 * that comes before the adapter is in the queue runs nothing: a new adapter counts as running.
 */
void dispatcher_register_adapter(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                                 unsigned interest)
{
    struct selector *selector = &dispatcher->selector;
    struct selection_key *key = &adapter->key;
    atomic_fetch_add(&dispatcher->registered, 1);
    selector_guard_acquire(&dispatcher->guard);
    if (selector_register(selector, key, key->fd, interest, adapter) != 0)
        selector_register(selector, key, key->fd, SELECT_NOTHING, adapter); /* cannot fail */
    handler_adapter_done(adapter, RUN_NONE); /* the dispatcher has `started` called */
    selector_guard_release(&dispatcher->guard);
}

bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd,
                                 struct input_handler_factory *factory)
{
    struct handler_adapter *adapter = handler_adapter_create(dispatcher, fd, factory);
    if (adapter == NULL)
        return false;
    connection_advance(&adapter->connection, LIFE_STARTING);
    dispatcher_register_adapter(dispatcher, adapter, SELECT_READ);
    return true;
}

/* What the dispatcher asks of every connection at this moment. */
static void ask_by_phase(const struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    if (dispatcher->cut_off)
        handler_adapter_end(adapter, END_SERVER);
    else if (dispatcher->stopping)
        handler_adapter_ask(adapter, ASK_STOP, 0);
}

/* Gives a new adapter its timer, at its first status change. */
static void add_adapter(struct dispatcher *dispatcher, struct handler_adapter *adapter)
{
    if (timer_is_set(&adapter->timer))
        return;
    if (!timer_heap_set(&dispatcher->timers, &adapter->timer, INT64_MAX))
        handler_adapter_end(adapter, END_RESOURCES);
    ask_by_phase(dispatcher, adapter);
}

/* It is in the queue, and begins from there: what it is sent is not part of that run. */
static bool is_new(const struct handler_adapter *adapter)
{
    return !timer_is_set(&adapter->timer);
}

/* Ends a registration, after the handler's `stopped`. */
static void drop_adapter(struct dispatcher *dispatcher,
                         struct handler_adapter *adapter) NO_LOCK_HELD
{
    timer_heap_cancel(&dispatcher->timers, &adapter->timer);
    selector_cancel(&adapter->key);
    close(connection_detach(&adapter->connection));
    handler_adapter_release(adapter);
    atomic_fetch_sub(&dispatcher->registered, 1);
}

/* ---- Dispatch ------------------------------------------------------------------------------ */

/* Only this thread changes a key's interest, so it needs no lock to see that nothing changes. */
static int set_interest(struct handler_adapter *adapter, unsigned interest)
{
    return adapter->key.interest == interest ? 0 : selector_interest(&adapter->key, interest);
}

/* Waits for events again, after a run. */
static void resume_selection(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                             unsigned interest)
{
    if (adapter->connection.marks != 0 || adapter->timer.moment == INT64_MAX)
        timer_heap_set_by(&dispatcher->timers, &adapter->timer,
                          connection_deadline(&adapter->connection, dispatcher->now));
    if (set_interest(adapter, interest) != 0)
        handler_adapter_end(adapter, END_RESOURCES);
}

/* A run in this thread. No other thread has to hear of its end, so the adapter may rest at once. */
static void run_here(struct dispatcher *dispatcher, struct handler_adapter *adapter) NO_LOCK_HELD
{
    unsigned interest;
    handler_future_task_do(adapter);
    enum adapter_status status = handler_adapter_done_here(adapter, &interest);
    if (status == ADAPTER_IS_DEAD)
        drop_adapter(dispatcher, adapter);
    else if (status == ADAPTER_WANTS_REST)
        resume_selection(dispatcher, adapter, interest);
}

/*
 * Without an executor this thread, the dispatcher's, runs the adapter: no future, nothing to wait
 * for. With one, no saturation policy refuses a run that must take place; if there is no worker at
 * all, the dispatcher runs it itself. Any other run may be refused, and then so is its message.
 */
static void dispatcher_execute(struct dispatcher *dispatcher,
                               struct handler_adapter *adapter) NO_LOCK_HELD
{
    struct task *task = &adapter->run.future.task;
    if (dispatcher->executor == NULL) {
        run_here(dispatcher, adapter);
        return;
    }
    handler_future_task_prepare(&adapter->run, adapter);
    if (!connection_must_run(&adapter->connection))
        task_list_append(&dispatcher->round, task);
    else if (!executor_insist(dispatcher->executor, task))
        task_run(task);
}

/* Hands over what this round has prepared to run; what the executor does not take is refused. */
static void submit_round(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    loop_serves(&dispatcher->loop, LOOP_NOBODY); /* it may wait for room */
    executor_submit_all(dispatcher->executor, &dispatcher->round);
    while (dispatcher->round.first != NULL) {
        struct task *task = task_list_remove_first(&dispatcher->round);
        loop_serves(&dispatcher->loop, task->fd);
        handler_future_task_refuse(container_of(task, struct handler_future_task, future.task),
                                   REFUSE_MESSAGE);
    }
}

/*
 * For an event or a request: reads what has arrived, and runs the adapter, or submits it with its
 * events switched off.
 */
static void invoke_handler(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                           unsigned ready) NO_LOCK_HELD
{
    if (!handler_adapter_prepare_to_run(adapter, ready))
        return;
    loop_serves(&dispatcher->loop, adapter->key.fd);
    if (dispatcher->executor != NULL || ready == SELECT_NOTHING)
        set_interest(adapter, SELECT_NOTHING); /* else the run is over before the next select */
    if ((ready & SELECT_READ) != 0)
        connection_receive(&adapter->connection);
    dispatcher_execute(dispatcher, adapter);
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

/* Handles every adapter that has changed since the last round. */
static void check_status_change_queue(struct dispatcher *dispatcher) NO_LOCK_HELD
{
    struct handler_adapter *next = status_change_queue_take_all(&dispatcher->changes);
    while (next != NULL) {
        struct handler_adapter *adapter = next;
        unsigned interest;
        next = adapter->next_changed; /* before it can be put in again */
        add_adapter(dispatcher, adapter);
        switch (handler_adapter_status(adapter, &interest)) {
        case ADAPTER_IS_RUNNING: break;
        case ADAPTER_IS_DEAD: drop_adapter(dispatcher, adapter); break;
        case ADAPTER_WANTS_RUN: invoke_handler(dispatcher, adapter, SELECT_NOTHING); break;
        case ADAPTER_WANTS_REST: resume_selection(dispatcher, adapter, interest); break;
        }
    }
}

/* ---- Times --------------------------------------------------------------------------------- */

/* Begins to stop if asked to: each adapter's timer fires at once, and fire() asks it to stop. */
static void check_stop(struct dispatcher *dispatcher)
{
    if (!atomic_load(&dispatcher->stop_asked) || dispatcher->stopping)
        return;
    dispatcher->stopping = true;
    selector_cancel(&dispatcher->signals_key);
    timer_heap_set_all(&dispatcher->timers, dispatcher->now);
    timer_heap_set(&dispatcher->timers, &dispatcher->end_timer,
                   server_drain_end(dispatcher->server));
}

/* The drain timeout is over: ends all connections that are left. */
static void cut_off(struct dispatcher *dispatcher)
{
    dispatcher->cut_off = true;
    timer_heap_set_all(&dispatcher->timers, dispatcher->now);
    timer_heap_set(&dispatcher->timers, &dispatcher->end_timer, INT64_MAX);
}

/* A timer may fire too early, because its deadline has moved since: then it is only set again. */
static void fire(struct dispatcher *dispatcher, struct timer *timer)
{
    if (timer == &dispatcher->end_timer) {
        cut_off(dispatcher);
        return;
    }
    struct handler_adapter *adapter = handler_adapter_of_timer(timer);
    ask_by_phase(dispatcher, adapter);
    timer_heap_set(&dispatcher->timers, timer, handler_adapter_expire(adapter, dispatcher->now));
}

static void check_timers(struct dispatcher *dispatcher)
{
    struct timer *timer;
    while ((timer = timer_heap_due(&dispatcher->timers, dispatcher->now)) != NULL)
        fire(dispatcher, timer);
}

static bool goes_on(const struct dispatcher *dispatcher)
{
    return !atomic_load(&dispatcher->stop_asked) || atomic_load(&dispatcher->registered) > 0;
}

/*
 * How long select may sleep: until the first timer. If the queue holds anything, not at all: no
 * wakeup announces what this thread itself has put in, and a registration's only wakeup may be over
 * before its adapter is in the queue.
 */
static int select_timeout(struct dispatcher *dispatcher)
{
    struct timer_heap *timers = &dispatcher->timers;
    return status_change_queue_is_empty(&dispatcher->changes)
               ? timer_heap_timeout(timers, loop_sleeps(&dispatcher->loop, timers->count))
               : 0;
}

void dispatcher_dispatch(struct dispatcher *dispatcher)
{
    struct selector *selector = &dispatcher->selector;
    own_dispatcher = dispatcher;
    while (goes_on(dispatcher)) {
        selector_guard_barrier(&dispatcher->guard);
        TEST_POINT("dispatcher: before select");
        int wait = strand_host_sleep(dispatcher->strands, select_timeout(dispatcher));
        size_t count = selector_select(selector, wait);
        TEST_POINT("dispatcher: after select");
        dispatcher->now = loop_woke(&dispatcher->loop);
        check_stop(dispatcher);
        if (loop_is_asked(&dispatcher->loop))
            count_held(dispatcher);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key == &dispatcher->signals_key)
                poll(NULL, 0, 1); /* without a guard the acceptor waits for our lock */
            else if (key != NULL && !is_new(key->attachment)) /* still wanted */
                invoke_handler(dispatcher, key->attachment, key->ready & key->interest);
        }
        check_timers(dispatcher);
        if (dispatcher->strands != NULL) {
            loop_serves(&dispatcher->loop, LOOP_NOBODY); /* a strand serves no one client */
            strand_host_look(dispatcher->strands, dispatcher->now);
        }
        if (!status_change_queue_is_empty(&dispatcher->changes))
            check_status_change_queue(dispatcher);
        if (dispatcher->round.first != NULL)
            submit_round(dispatcher);
    }
    own_dispatcher = NULL;
}

/* ---- Its thread ---------------------------------------------------------------------------- */

static void *dispatcher_thread(void *argument)
{
    struct dispatcher *dispatcher = argument;
    struct segment_cache cache;
    thread_holds_no_lock_yet();
    thread_set_name("dispatcher %zu", dispatcher->number);
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

/* A handler may hold it up, in that thread or in a worker. */
void dispatcher_join(struct dispatcher *dispatcher, int64_t deadline_ms)
{
    if (!dispatcher_await(dispatcher, deadline_ms))
        service_cut_short(&dispatcher->server->service);
    pthread_join(dispatcher->thread, NULL);
}

void dispatcher_wakeup(struct dispatcher *dispatcher)
{
    if (own_dispatcher != dispatcher)
        selector_wakeup(&dispatcher->selector);
}

void dispatcher_count(struct dispatcher *dispatcher)
{
    struct counters *counters = &dispatcher->counters;
    const struct selector *selector = &dispatcher->selector;
    counters_set(counters, COUNTER_WAKEUPS_ASKED, atomic_load(&selector->wakeups_asked));
    counters_set(counters, COUNTER_WAKEUPS_WRITTEN, atomic_load(&selector->wakeups_written));
}
