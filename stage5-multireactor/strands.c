#include "strands.h"

#include "common/base/container_of.h"
#include "connector.h"

static struct strands *strands_of(struct strand_host *host)
{
    return container_of(host, struct strands, host);
}

static void wake(struct strand_host *host)
{
    dispatcher_wakeup(strands_of(host)->dispatcher);
}

static int open_connection(struct strand_host *host, const struct endpoint *to, int64_t timeout,
                           struct input_handler_factory *factory) NO_LOCK_HELD
{
    return connector_connect(strands_of(host)->dispatcher, to, timeout, factory);
}

static const struct strand_host_verbs host_verbs = {.wake = wake, .connect = open_connection};

void strands_init(struct strands *strands, struct server *server)
{
    *strands = (struct strands){.host.verbs = &host_verbs};
    server->strands = &strands->host;
}

void strands_host(struct strands *strands, struct dispatcher *dispatcher)
{
    strands->dispatcher = dispatcher;
    strands->host.executor = dispatcher->executor;
    strands->host.registered = &dispatcher->registered;
    dispatcher->strands = strands->host.first != NULL ? &strands->host : NULL;
}

void strands_keep(struct strand_host *host)
{
    if (host == NULL)
        return;
    atomic_store(&strands_of(host)->is_kept, true);
    atomic_fetch_add(&strands_of(host)->dispatcher->registered, 1);
}

void strands_let_go(struct strand_host *host)
{
    if (host == NULL || !atomic_exchange(&strands_of(host)->is_kept, false))
        return;
    atomic_fetch_sub(&strands_of(host)->dispatcher->registered, 1);
    selector_wakeup(&strands_of(host)->dispatcher->selector);
}
