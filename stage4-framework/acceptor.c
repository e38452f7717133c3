#include "acceptor.h"

#include <poll.h>

void acceptor_init(struct acceptor *acceptor, struct dispatcher *dispatcher,
                   struct admission *admission, struct input_handler_factory *factory)
{
    *acceptor = (struct acceptor){
        .server = dispatcher->server, .dispatcher = dispatcher, .admission = admission};
    acceptor->server->listener.factory = factory;
}

/* Registers a new connection with a handler of its own. */
static bool acceptor_serve(void *self, int fd) NO_LOCK_HELD
{
    struct acceptor *acceptor = self;
    return dispatcher_register_channel(acceptor->dispatcher, fd,
                                       acceptor->server->listener.factory);
}

/* Sleeps until there is a client, a signal comes, or it is time to accept again. */
static void acceptor_wait(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    int look = server_look_timeout(server);
    bool open = admission_is_open(acceptor->admission);
    struct pollfd fds[] = {
        {.fd = server->signals.fd, .events = POLLIN},
        {.fd = open ? server->listener.fd : -1, .events = POLLIN},
    };
    poll(fds, 2, admission_is_backing_off(acceptor->admission) ? SERVER_BACK_OFF_MS : look);
}

void acceptor_run(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    while (!server->signals.stop) {
        acceptor_wait(acceptor);
        signals_take(&server->signals);
        if (server->signals.report) {
            dispatcher_count(acceptor->dispatcher);
            server_report(server);
        }
        admission_accept(acceptor->admission, &server->listener, SOCK_NONBLOCK, acceptor_serve,
                         acceptor);
    }
    server_drain_end(server); /* the drain timeout begins */
    admission_accept_last(acceptor->admission, &server->listener, SOCK_NONBLOCK, acceptor_serve,
                          acceptor);
}
