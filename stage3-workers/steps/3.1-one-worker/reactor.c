#include "reactor.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "handler.h"

#include <errno.h>
#include <string.h>

static void reactor_on_signal(struct selection_key *key);

static struct runnable on_signal = {reactor_on_signal};

struct reactor *reactor_of(const struct selection_key *key)
{
    return container_of(key->selector, struct reactor, selector);
}

int reactor_open(struct reactor *reactor, struct server *server,
                 struct input_handler_factory *factory, const struct selector_provider *provider)
{
    memset(reactor, 0, sizeof(*reactor));
    reactor->server = server;
    server->listener.factory = factory;
    reactor->now = clock_ms();
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    mutex_init(&reactor->lock);
    admission_init(&reactor->admission, server);
    timer_heap_init(&reactor->timers);
    if (timer_heap_set(&reactor->timers, &reactor->accept_timer, INT64_MAX) &&
        timer_heap_set(&reactor->timers, &reactor->end_timer, INT64_MAX) &&
        acceptor_open(&reactor->acceptor, reactor, &server->listener) == 0 &&
        selector_register(&reactor->selector, &reactor->signals_key, server->signals.fd,
                          SELECT_READ, &on_signal) == 0 &&
        (errno = workers_start(&reactor->workers)) == 0)
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
    mutex_destroy(&reactor->lock);
    selector_close(&reactor->selector);
}

void reactor_accept_at(struct reactor *reactor, int64_t moment)
{
    timer_heap_set(&reactor->timers, &reactor->accept_timer, moment);
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
    mutex_lock(&reactor->lock);
    struct handler *handler = reactor->handed_back;
    reactor->handed_back = NULL;
    mutex_unlock(&reactor->lock);
    while (handler != NULL) {
        struct handler *next = handler->next;
        handler_go_on(handler);
        handler = next;
    }
}

/* The wakeup ends the sleep of a select, so the reactor finds the list at once. */
void reactor_hand_back(struct reactor *reactor, struct handler *handler)
{
    mutex_lock(&reactor->lock);
    handler->next = reactor->handed_back;
    reactor->handed_back = handler;
    mutex_unlock(&reactor->lock);
    selector_wakeup(&reactor->selector);
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
    reactor->stopping = true;
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
    if (server->signals.stop && !reactor->stopping)
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
    return !reactor->stopping ||
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
    }
    service_cut_short(&reactor->server->service);
    workers_end(&reactor->workers);
    reactor_count(reactor);
    cut_off(reactor);
}
