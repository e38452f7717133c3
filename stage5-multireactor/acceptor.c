#include "acceptor.h"

#include "common/clock.h"

#include <poll.h>

enum {
    ACCEPTS_PER_ROUND = 16, /* then signals get their turn */
};

void acceptor_init(struct acceptor *acceptor, struct dispatcher_pool *dispatchers,
                   struct admission *admission, struct input_handler_factory *factory)
{
    *acceptor = (struct acceptor){.server = dispatchers->server,
                                  .dispatchers = dispatchers,
                                  .admission = admission,
                                  .factory = factory};
}

static bool acceptor_has_place(struct acceptor *acceptor)
{
    return admission_has_place(acceptor->admission, acceptor->server->settings.max_connections);
}

/* Whether it makes sense to accept now. */
static bool acceptor_is_open(struct acceptor *acceptor)
{
    const struct server_settings *settings = &acceptor->server->settings;
    if (acceptor->resume_at != 0 && clock_ms() < acceptor->resume_at)
        return false;
    acceptor->resume_at = 0;
    return settings->overload != OVERLOAD_WAIT || acceptor_has_place(acceptor);
}

static void acceptor_turn_away(struct acceptor *acceptor, int fd)
{
    struct server *server = acceptor->server;
    counters_add(&server->counters, COUNTER_REJECTED, 1);
    socket_turn_away(fd, server->settings.turn_away);
}

/* Registers a new connection, with a handler of its own, with the dispatcher whose turn it is. */
static bool acceptor_register(struct acceptor *acceptor, int fd, bool urgent)
{
    struct input_handler *handler = acceptor->factory->create(acceptor->factory);
    if (handler == NULL)
        return false;
    struct dispatcher *dispatcher = dispatcher_pool_next(acceptor->dispatchers);
    admission_enter(acceptor->admission);
    if (dispatcher_register_channel(dispatcher, fd, urgent, handler))
        return true;
    admission_leave(acceptor->admission);
    return false;
}

/* A new connection: it is registered, if there is a place and memory. */
static void acceptor_admit(struct acceptor *acceptor, int fd, bool urgent)
{
    if (!acceptor_has_place(acceptor) || !acceptor_register(acceptor, fd, urgent))
        acceptor_turn_away(acceptor, fd);
}

/* Takes in one connection. False when there is nothing more to do for now. */
static bool acceptor_accept(struct acceptor *acceptor, struct listener *listener)
{
    struct server *server = acceptor->server;
    int fd;
    switch (listener_accept(listener, SOCK_NONBLOCK, &server->log, &fd)) {
    case ACCEPT_CONNECTION:
        acceptor_admit(acceptor, fd, listener == &server->urgent_listener);
        return true;
    case ACCEPT_SHED: counters_add(&server->counters, COUNTER_REJECTED, 1); return true;
    case ACCEPT_EXHAUSTED: acceptor->resume_at = clock_ms() + SERVER_BACK_OFF_MS; return false;
    case ACCEPT_NOTHING: return false;
    }
    return false;
}

/* Sleeps until a client knocks, a signal comes, or it is time to accept again. */
static void acceptor_wait(struct acceptor *acceptor)
{
    const struct server *server = acceptor->server;
    bool open = acceptor_is_open(acceptor);
    struct pollfd fds[] = {
        {.fd = server->signals.fd, .events = POLLIN},
        {.fd = open ? server->listener.fd : -1, .events = POLLIN},
        {.fd = open ? server->urgent_listener.fd : -1, .events = POLLIN},
    };
    poll(fds, 3, acceptor->resume_at != 0 ? SERVER_BACK_OFF_MS : -1);
}

/* Takes in what waits at a listener, as far as there is a place. */
static void acceptor_accept_all(struct acceptor *acceptor, struct listener *listener)
{
    int accepts = 0;
    while (listener->fd >= 0 && accepts < ACCEPTS_PER_ROUND && acceptor_is_open(acceptor) &&
           acceptor_accept(acceptor, listener))
        accepts++;
}

void acceptor_run(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    while (!server->signals.stop) {
        acceptor_wait(acceptor);
        signals_take(&server->signals);
        dispatcher_pool_count(acceptor->dispatchers);
        if (server->signals.report) {
            counters_print(&server->counters, server->name);
            dispatcher_pool_report(acceptor->dispatchers);
        }
        acceptor_accept_all(acceptor, &server->urgent_listener);
        acceptor_accept_all(acceptor, &server->listener);
    }
    listener_close(&server->listener);
    listener_close(&server->urgent_listener);
}
