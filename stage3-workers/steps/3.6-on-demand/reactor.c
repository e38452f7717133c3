#include "reactor.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "handler.h"

#include <string.h>

static void reactor_on_signal(struct selection_key *key);

static struct runnable on_signal = {reactor_on_signal};

struct reactor *reactor_of(const struct selection_key *key)
{
    return container_of(key->selector, struct reactor, selector);
}

int reactor_open(struct reactor *reactor, struct server *server,
                 struct input_handler_factory *factory, const struct selector_provider *provider,
                 struct executor *executor)
{
    memset(reactor, 0, sizeof(*reactor));
    reactor->server = server;
    server->listener.factory = factory;
    reactor->executor = executor;
    reactor->now = clock_ms();
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    selector_guard_init(&reactor->guard, &reactor->selector);
    admission_init(&reactor->admission, server);
    timer_heap_init(&reactor->timers);
    if (timer_heap_set(&reactor->timers, &reactor->accept_timer, INT64_MAX) &&
        timer_heap_set(&reactor->timers, &reactor->end_timer, INT64_MAX) &&
        acceptor_open(&reactor->acceptor, reactor, &server->listener) == 0 &&
        selector_register(&reactor->selector, &reactor->signals_key, server->signals.fd,
                          SELECT_READ, &on_signal) == 0)
        return 0;
    reactor_close(reactor);
    return -1;
}

void reactor_close(struct reactor *reactor)
{
    acceptor_close(&reactor->acceptor);
    selector_cancel(&reactor->signals_key);
    timer_heap_destroy(&reactor->timers);
    admission_destroy(&reactor->admission);
    selector_guard_destroy(&reactor->guard);
    selector_close(&reactor->selector);
}

void reactor_accept_at(struct reactor *reactor, int64_t moment)
{
    timer_heap_set(&reactor->timers, &reactor->accept_timer, moment);
}

bool reactor_is_stopping(const struct reactor *reactor) NO_THREAD_SAFETY_ANALYSIS
{
    return reactor->stopping; /* only this thread changes it */
}

/* Lea's dispatch: run what is attached. */
static void reactor_dispatch(struct selection_key *key)
{
    const struct runnable *runnable = key->attachment;
    runnable->run(key);
}

/* Goes on with the handlers that workers have given back. */
static void take_back(struct reactor *reactor)
{
    mutex_lock(&reactor->guard.lock);
    struct task *task = reactor->handed_back;
    reactor->handed_back = NULL;
    mutex_unlock(&reactor->guard.lock);
    while (task != NULL) {
        struct task *next = task->next;
        handler_go_on(task);
        task = next;
    }
}

void reactor_hand_back(struct reactor *reactor, struct task *task)
{
    task->next = reactor->handed_back;
    reactor->handed_back = task;
}

/* Brings those counters up to date that the selector keeps. */
static void reactor_count(struct reactor *reactor)
{
    struct counters *counters = &reactor->server->counters;
    counters_set(counters, COUNTER_WAKEUPS_ASKED, reactor->selector.wakeups_asked);
    counters_set(counters, COUNTER_WAKEUPS_WRITTEN, reactor->selector.wakeups_written);
}

/* Stops listening, and has every handler finish what it has begun. */
static void reactor_stop(struct reactor *reactor) NO_LOCK_HELD
{
    acceptor_stop(&reactor->acceptor);
    mutex_lock(&reactor->guard.lock);
    reactor->stopping = true;
    mutex_unlock(&reactor->guard.lock);
    timer_heap_set_all(&reactor->timers, reactor->now);
    timer_heap_set(&reactor->timers, &reactor->accept_timer, INT64_MAX);
    timer_heap_set(&reactor->timers, &reactor->end_timer,
                   reactor->now + 1 + reactor->server->settings.drain_timeout); /* + 1: due last */
}

/* A signal is an event like any other; so is a place that has become free. */
static void reactor_on_signal(struct selection_key *key) NO_LOCK_HELD
{
    struct reactor *reactor = reactor_of(key);
    struct server *server = reactor->server;
    signals_take(&server->signals);
    acceptor_update(&reactor->acceptor);
    reactor_count(reactor);
    if (server->signals.report)
        counters_print(&server->counters, server->name);
    if (server->signals.stop && !reactor_is_stopping(reactor))
        reactor_stop(reactor);
}

/* Runs every timer that is due. A handler may close itself then, but never another one. */
static void check_timers(struct reactor *reactor) NO_LOCK_HELD
{
    struct timer *timer;
    while ((timer = timer_heap_due(&reactor->timers, reactor->now)) != NULL) {
        if (timer == &reactor->end_timer)
            return;
        if (timer == &reactor->accept_timer)
            acceptor_update(&reactor->acceptor);
        else
            handler_expire(handler_of_timer(timer));
    }
}

/* Whether there is still something to do. */
static bool goes_on(struct reactor *reactor)
{
    return !reactor_is_stopping(reactor) ||
           (reactor->now < reactor->end_timer.moment && !admission_is_empty(&reactor->admission));
}

/* Ends those that have not come to their end in time. */
static void cut_off(struct reactor *reactor) NO_LOCK_HELD
{
    struct timer *timer;
    timer_heap_cancel(&reactor->timers, &reactor->accept_timer);
    timer_heap_cancel(&reactor->timers, &reactor->end_timer);
    while ((timer = timer_heap_first(&reactor->timers)) != NULL)
        handler_close(handler_of_timer(timer));
}

/* How long to wait for events, ms. Those that go on without one are not kept waiting. */
static int select_timeout(const struct reactor *reactor)
{
    return reactor->again.first == NULL ? timer_heap_timeout(&reactor->timers, clock_ms()) : 0;
}

/* Hands over what this round has found for workers; what they do not take is refused. */
static void submit_round(struct reactor *reactor) NO_LOCK_HELD
{
    executor_submit_all(reactor->executor, &reactor->round);
    while (reactor->round.first != NULL)
        handler_refuse(task_list_remove_first(&reactor->round));
}

void reactor_run(struct reactor *reactor)
{
    struct selector *selector = &reactor->selector;
    while (goes_on(reactor)) {
        size_t count = selector_select(selector, select_timeout(reactor));
        reactor->now = clock_ms();
        take_back(reactor);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* NULL: not wanted any more */
                reactor_dispatch(key);
        }
        check_timers(reactor);
        handler_take_turns(&reactor->again);
        submit_round(reactor);
    }
    service_cut_short(&reactor->server->service);
    executor_end(reactor->executor, true);
    reactor_count(reactor);
    cut_off(reactor);
}
