#include "acceptor.h"

#include "common/clock.h"

#include <poll.h>

enum {
    ACCEPTS_PER_ROUND = 16, /* then signals get their turn */
};

void acceptor_init(struct acceptor *acceptor, struct server *server,
                   struct handler_threads *threads)
{
    *acceptor = (struct acceptor){.server = server, .threads = threads};
}

/* Whether it makes sense to accept now. */
static bool acceptor_is_open(struct acceptor *acceptor)
{
    const struct server_settings *settings = &acceptor->server->settings;
    if (acceptor->resume_at != 0 && clock_ms() < acceptor->resume_at)
        return false;
    acceptor->resume_at = 0;
    return settings->overload != OVERLOAD_WAIT ||
           handler_threads_place_for(acceptor->threads, settings->max_connections);
}

static void acceptor_turn_away(struct acceptor *acceptor, int fd)
{
    struct server *server = acceptor->server;
    counters_add(&server->counters, COUNTER_REJECTED, 1);
    socket_turn_away(fd, server->settings.turn_away);
}

/* A new connection: a handler for it, if there is a place and a thread. */
static void acceptor_admit(struct acceptor *acceptor, int fd)
{
    size_t most = acceptor->server->settings.max_connections;
    if (!handler_threads_place_for(acceptor->threads, most) ||
        !handler_threads_serve(acceptor->threads, fd))
        acceptor_turn_away(acceptor, fd);
}

/* Takes in one connection. False when there is nothing more to do for now. */
static bool acceptor_accept(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    int fd;
    switch (listener_accept(&server->listener, 0, &server->log, &fd)) {
    case ACCEPT_CONNECTION: acceptor_admit(acceptor, fd); return true;
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
    };
    poll(fds, 2, acceptor->resume_at != 0 ? SERVER_BACK_OFF_MS : -1);
}

void acceptor_run(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    while (!server->signals.stop) {
        acceptor_wait(acceptor);
        signals_take(&server->signals);
        if (server->signals.report)
            counters_print(&server->counters, server->name);
        int accepts = 0;
        while (accepts < ACCEPTS_PER_ROUND && acceptor_is_open(acceptor) &&
               acceptor_accept(acceptor))
            accepts++;
    }
    listener_close(&server->listener);
}
