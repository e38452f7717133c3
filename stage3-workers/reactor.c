#include "reactor.h"

#include "common/clock.h"
#include "common/test_point.h"
#include "handler.h"

#include <string.h>

static void reactor_on_signal(struct runnable *self);

static struct reactor *reactor_of(struct runnable *on_signal)
{
    return (struct reactor *)(void *)((char *)on_signal - offsetof(struct reactor, on_signal));
}

int reactor_open(struct reactor *reactor, struct server *server,
                 const struct selector_provider *provider, struct executor *executor,
                 bool guard_wakes)
{
    memset(reactor, 0, sizeof(*reactor));
    reactor->server = server;
    reactor->executor = executor;
    reactor->now = clock_ms();
    reactor->on_signal.run = reactor_on_signal;
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    selector_guard_init(&reactor->guard, &reactor->selector, guard_wakes);
    if (acceptor_open(&reactor->acceptor, reactor, &server->listener, false) == 0 &&
        acceptor_open(&reactor->urgent_acceptor, reactor, &server->urgent_listener, true) == 0 &&
        selector_register(&reactor->selector, &reactor->signals_key, server->signals.fd,
                          SELECT_READ, &reactor->on_signal) == 0)
        return 0;
    reactor_close(reactor);
    return -1;
}

void reactor_close(struct reactor *reactor)
{
    acceptor_close(&reactor->acceptor);
    acceptor_close(&reactor->urgent_acceptor);
    selector_guard_destroy(&reactor->guard);
    selector_cancel(&reactor->signals_key);
    selector_close(&reactor->selector);
}

/* How long select may sleep: until something happens, unless somebody has to be looked after. */
static int reactor_timeout(const struct reactor *reactor)
{
    bool watching = deadline_limits_any(&reactor->server->settings.deadlines) ||
                    reactor->lingering > 0 || reactor->drain_until != 0 ||
                    acceptor_is_backing_off(&reactor->acceptor) ||
                    acceptor_is_backing_off(&reactor->urgent_acceptor);
    return watching ? REACTOR_TICK_MS : -1;
}

/* Lea's dispatch: run what is attached. */
static void reactor_dispatch(const struct selection_key *key)
{
    struct runnable *runnable = key->attachment;
    runnable->run(runnable);
}

/* Looks at every handler's deadlines. Each may end in the course of it, but no other does. */
static void reactor_sweep(struct reactor *reactor)
{
    if (reactor->now < reactor->next_sweep)
        return;
    reactor->next_sweep = reactor->now + REACTOR_TICK_MS;
    acceptor_update(&reactor->acceptor);
    acceptor_update(&reactor->urgent_acceptor);
    for (struct handler *handler = reactor->handlers, *next; handler != NULL; handler = next) {
        next = handler->next;
        handler_expire(handler);
    }
}

/* Stops listening, and has every handler finish what it has begun. */
static void reactor_stop(struct reactor *reactor)
{
    reactor->drain_until = reactor->now + reactor->server->settings.drain_timeout;
    acceptor_close(&reactor->acceptor);
    acceptor_close(&reactor->urgent_acceptor);
    mutex_lock(&reactor->guard.lock);
    reactor->stopping = true;
    mutex_unlock(&reactor->guard.lock);
    for (struct handler *handler = reactor->handlers, *next; handler != NULL; handler = next) {
        next = handler->next;
        handler_stop(handler);
    }
}

/* Brings those counters up to date that others keep. */
static void reactor_count(struct reactor *reactor)
{
    struct counters *counters = &reactor->server->counters;
    counters_set(counters, COUNTER_WAKEUPS_ASKED, reactor->selector.wakeups_asked);
    counters_set(counters, COUNTER_WAKEUPS_WRITTEN, reactor->selector.wakeups_written);
    executor_count(reactor->executor, counters);
}

/* A signal is an event like any other. */
static void reactor_on_signal(struct runnable *self)
{
    struct reactor *reactor = reactor_of(self);
    struct server *server = reactor->server;
    signals_take(&server->signals);
    reactor_count(reactor);
    if (server->signals.report)
        counters_print(&server->counters, server->name);
    if (server->signals.stop && reactor->drain_until == 0)
        reactor_stop(reactor);
}

/* Goes on with the handlers that workers have given back and that wait for no event. */
static void reactor_take_back(struct reactor *reactor)
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

/* No worker is left: nobody hands back any more. */
static void reactor_end_workers(struct reactor *reactor)
{
    service_cut_short(&reactor->server->service);
    executor_shutdown(reactor->executor, true);
    while (!executor_await(reactor->executor, clock_ms() + REACTOR_TICK_MS))
        ;
    mutex_lock(&reactor->guard.lock);
    reactor->handed_back = NULL;
    mutex_unlock(&reactor->guard.lock);
}

/* Whether there is still something to do. */
static bool reactor_goes_on(const struct reactor *reactor)
{
    if (reactor->drain_until == 0)
        return true;
    return reactor->handler_count > 0 && reactor->now < reactor->drain_until;
}

void reactor_run(struct reactor *reactor)
{
    struct selector *selector = &reactor->selector;
    while (reactor_goes_on(reactor)) {
        TEST_POINT("reactor: at the barrier");
        selector_guard_barrier(&reactor->guard);
        TEST_POINT("reactor: before select");
        size_t count = selector_select(selector, reactor_timeout(reactor));
        TEST_POINT("reactor: after select");
        reactor->now = clock_ms();
        executor_hold(reactor->executor); /* one waking for all that this round submits */
        reactor_take_back(reactor);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* cancelled by a handler that ran before it in this round */
                reactor_dispatch(key);
        }
        executor_release(reactor->executor);
        reactor_sweep(reactor);
    }
    reactor_end_workers(reactor);
    reactor_count(reactor);
    while (reactor->handlers != NULL)
        handler_close(reactor->handlers);
}

void reactor_add(struct reactor *reactor, struct handler *handler)
{
    handler->next = reactor->handlers;
    if (handler->next != NULL)
        handler->next->previous = handler;
    reactor->handlers = handler;
    reactor->handler_count++;
}

void reactor_remove(struct reactor *reactor, struct handler *handler)
{
    if (handler->previous != NULL)
        handler->previous->next = handler->next;
    else
        reactor->handlers = handler->next;
    if (handler->next != NULL)
        handler->next->previous = handler->previous;
    reactor->handler_count--;
    acceptor_update(&reactor->acceptor);
    acceptor_update(&reactor->urgent_acceptor);
}
