#include "reactor.h"

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
    reactor->accept_at = INT64_MAX;
    if (selector_open(&reactor->selector, provider) != 0)
        return -1;
    admission_init(&reactor->admission, server);
    list_init(&reactor->again);
    if (acceptor_open(&reactor->acceptor, reactor, &server->listener) == 0 &&
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
    admission_destroy(&reactor->admission);
    selector_close(&reactor->selector);
}

void reactor_accept_at(struct reactor *reactor, int64_t moment)
{
    reactor->accept_at = moment;
}

/* Lea's dispatch: run what is attached. */
static void reactor_dispatch(struct selection_key *key)
{
    const struct runnable *runnable = key->attachment;
    runnable->run(key);
}

/* A signal is an event like any other; so is a place that has become free. */
static void reactor_on_signal(struct selection_key *key) NO_LOCK_HELD
{
    struct reactor *reactor = reactor_of(key);
    struct server *server = reactor->server;
    signals_take(&server->signals);
    acceptor_update(&reactor->acceptor);
    if (server->signals.report)
        counters_print(&server->counters, server->name);
    reactor->stopping = server->signals.stop;
}

void reactor_run(struct reactor *reactor)
{
    struct selector *selector = &reactor->selector;
    while (!reactor->stopping) {
        handler_take_turns(&reactor->again);
        bool backs_off = reactor->accept_at != INT64_MAX;
        bool goes_on = !list_is_empty(&reactor->again);
        size_t count = selector_select(selector, goes_on ? 0 : backs_off ? SERVER_BACK_OFF_MS : -1);
        for (size_t i = 0; i < count; i++) {
            struct selection_key *key = selector_selected(selector, i);
            if (key != NULL) /* NULL: not wanted any more */
                reactor_dispatch(key);
        }
        if (backs_off)
            acceptor_update(&reactor->acceptor);
    }
}
