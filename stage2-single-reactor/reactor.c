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
                 struct input_handler_factory *factory, const struct selector_provider *provider)
{
    memset(reactor, 0, sizeof(*reactor));
    reactor->server = server;
    server->listener.factory = factory;
    reactor->now = clock_ms();
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    admission_init(&reactor->admission, server);
    timer_heap_init(&reactor->timers);
    server->home.wake = handler_wake;
    if (timer_heap_set(&reactor->timers, &reactor->accept_timer, INT64_MAX) &&
        timer_heap_set(&reactor->timers, &reactor->look_timer, INT64_MAX) &&
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

/* Once a second: whether anybody has been held up, and how late this loop was. */
static void reactor_look(struct reactor *reactor)
{
    int64_t next = server_look(reactor->server, reactor->now);
    timer_heap_set(&reactor->timers, &reactor->look_timer, next);
}

static bool reactor_owns(const struct reactor *reactor, const struct timer *timer)
{
    return timer == &reactor->accept_timer || timer == &reactor->look_timer ||
           timer == &reactor->end_timer;
}

/* Adds up what its connections hold. */
static void count_held(struct reactor *reactor)
{
    uint64_t output = 0, input = 0;
    for (size_t i = 0; i < reactor->timers.count; i++) {
        struct timer *timer = reactor->timers.timers[i];
        if (!reactor_owns(reactor, timer))
            handler_count_held(handler_of_timer(timer), &output, &input);
    }
    loop_answers(&reactor->loop, output, input);
}

/* Stops listening, and has every handler finish what it has begun. */
static void reactor_stop(struct reactor *reactor) NO_LOCK_HELD
{
    acceptor_stop(&reactor->acceptor);
    reactor->stopping = true;
    timer_heap_set_all(&reactor->timers, reactor->now);
    timer_heap_set(&reactor->timers, &reactor->accept_timer, INT64_MAX);
    /* + 1: due last */
    timer_heap_set(&reactor->timers, &reactor->end_timer,
                   reactor->now + 1 + reactor->server->settings.drain_timeout);
}

/* A signal is an event like any other; so is a place that has become free. */
static void reactor_on_signal(struct selection_key *key) NO_LOCK_HELD
{
    struct reactor *reactor = reactor_of(key);
    struct server *server = reactor->server;
    signals_take(&server->signals);
    acceptor_update(&reactor->acceptor);
    if (server->signals.report || loop_is_asked(&reactor->loop))
        count_held(reactor);
    if (server->signals.report)
        server_report(server);
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
        if (timer == &reactor->look_timer)
            reactor_look(reactor);
        else if (timer == &reactor->accept_timer)
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
    timer_heap_cancel(&reactor->timers, &reactor->look_timer);
    timer_heap_cancel(&reactor->timers, &reactor->end_timer);
    while ((timer = timer_heap_first(&reactor->timers)) != NULL)
        handler_close(handler_of_timer(timer));
}

/* How long to wait for events, ms. Those that go on without one are not kept waiting. */
static int select_timeout(struct reactor *reactor)
{
    struct timer_heap *timers = &reactor->timers;
    if (reactor->again.first != NULL)
        return 0;
    return timer_heap_timeout(timers, loop_sleeps(&reactor->loop, timers->count));
}

void reactor_run(struct reactor *reactor)
{
    struct selector *selector = &reactor->selector;
    reactor_look(reactor);
    while (goes_on(reactor)) {
        size_t count = selector_select(selector, select_timeout(reactor));
        reactor->now = loop_woke(&reactor->loop);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* NULL: not wanted any more, as the acceptor's at a stop */
                reactor_dispatch(key);
        }
        check_timers(reactor);
        if (atomic_load(&reactor->told.newest) != NULL)
            handler_take_told(reactor);
        if (reactor->again.first != NULL)
            handler_take_turns(&reactor->again);
    }
    cut_off(reactor);
}
