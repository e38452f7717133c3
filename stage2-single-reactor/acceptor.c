#include "acceptor.h"

#include "handler.h"
#include "reactor.h"

enum {
    ACCEPTS_PER_ROUND = 16, /* then the other events get their turn */
};

static void acceptor_run(struct runnable *self);

int acceptor_open(struct acceptor *acceptor, struct reactor *reactor, struct listener *listener)
{
    *acceptor = (struct acceptor){.runnable.run = acceptor_run,
                                  .server = reactor->server,
                                  .reactor = reactor,
                                  .listener = listener};
    return selector_register(&reactor->selector, &acceptor->key, listener->fd, SELECT_READ,
                             &acceptor->runnable);
}

void acceptor_close(struct acceptor *acceptor)
{
    selector_cancel(&acceptor->key);
    listener_close(acceptor->listener);
}

static bool acceptor_has_place(const struct acceptor *acceptor)
{
    return acceptor->reactor->handler_count < acceptor->server->settings.max_connections;
}

/* Whether it makes sense to accept now. */
static bool acceptor_is_open(struct acceptor *acceptor)
{
    const struct server_settings *settings = &acceptor->server->settings;
    if (acceptor->resume_at != 0 && acceptor->reactor->now < acceptor->resume_at)
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

/* A new connection: a handler for it, if there is a place and memory. */
static void acceptor_admit(struct acceptor *acceptor, int fd)
{
    if (!acceptor_has_place(acceptor) || handler_create(acceptor->reactor, fd) == NULL)
        acceptor_turn_away(acceptor, fd);
}

/* Takes in one connection. False when there is nothing more to do for now. */
static bool acceptor_accept(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    int fd;
    switch (listener_accept(acceptor->listener, SOCK_NONBLOCK, &server->log, &fd)) {
    case ACCEPT_CONNECTION: acceptor_admit(acceptor, fd); return true;
    case ACCEPT_SHED: counters_add(&server->counters, COUNTER_REJECTED, 1); return true;
    case ACCEPT_EXHAUSTED:
        acceptor->resume_at = acceptor->reactor->now + SERVER_BACK_OFF_MS;
        return false;
    case ACCEPT_NOTHING: return false;
    }
    return false;
}

/* A client has knocked. */
static void acceptor_run(struct runnable *self)
{
    struct acceptor *acceptor = (struct acceptor *)self;
    int accepts = 0;
    while (accepts < ACCEPTS_PER_ROUND && acceptor_is_open(acceptor) && acceptor_accept(acceptor))
        accepts++;
    acceptor_update(acceptor);
}

void acceptor_update(struct acceptor *acceptor)
{
    if (acceptor->key.selector == NULL)
        return;
    unsigned interest = acceptor_is_open(acceptor) ? SELECT_READ : SELECT_NOTHING;
    if (interest != acceptor->key.interest && selector_interest(&acceptor->key, interest) != 0)
        acceptor->resume_at = acceptor->reactor->now + SERVER_BACK_OFF_MS;
}

bool acceptor_is_backing_off(const struct acceptor *acceptor)
{
    return acceptor->resume_at != 0;
}
