#include "reactor.h"

#include "common/clock.h"
#include "handler.h"

#include <string.h>

static void reactor_on_signal(struct runnable *self);

static struct reactor *reactor_of(struct runnable *on_signal)
{
    return (struct reactor *)(void *)((char *)on_signal - offsetof(struct reactor, on_signal));
}

int reactor_open(struct reactor *reactor, struct server *server,
                 const struct selector_provider *provider)
{
    memset(reactor, 0, sizeof(*reactor));
    reactor->server = server;
    reactor->now = clock_ms();
    reactor->on_signal.run = reactor_on_signal;
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    if (acceptor_open(&reactor->acceptor, reactor, &server->listener) == 0 &&
        selector_register(&reactor->selector, &reactor->signals_key, server->signals.fd,
                          SELECT_READ, &reactor->on_signal) == 0)
        return 0;
    reactor_close(reactor);
    return -1;
}

void reactor_close(struct reactor *reactor)
{
    acceptor_close(&reactor->acceptor);
    selector_cancel(&reactor->signals_key);
    selector_close(&reactor->selector);
}

/* How long select may sleep: until something happens, unless somebody has to be looked after. */
static int reactor_timeout(const struct reactor *reactor)
{
    bool watching = deadline_limits_any(&reactor->server->settings.deadlines) ||
                    reactor->lingering > 0 || reactor->drain_until != 0 ||
                    acceptor_is_backing_off(&reactor->acceptor);
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
    for (struct handler *handler = reactor->handlers, *next; handler != NULL; handler = next) {
        next = handler->next;
        handler_stop(handler);
    }
}

/* A signal is an event like any other. */
static void reactor_on_signal(struct runnable *self)
{
    struct reactor *reactor = reactor_of(self);
    struct server *server = reactor->server;
    signals_take(&server->signals);
    if (server->signals.report)
        counters_print(&server->counters, server->name);
    if (server->signals.stop && reactor->drain_until == 0)
        reactor_stop(reactor);
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
        size_t count = selector_select(selector, reactor_timeout(reactor));
        reactor->now = clock_ms();
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* cancelled by a handler that ran before it in this round */
                reactor_dispatch(key);
        }
        reactor_sweep(reactor);
    }
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
}
