#include "acceptor.h"

#include <poll.h>

void acceptor_init(struct acceptor *acceptor, struct server *server,
                   struct handler_threads *threads)
{
    *acceptor = (struct acceptor){.server = server, .threads = threads};
}

/* Sleeps until there is a client, a signal comes, or it is time to accept again. */
static void acceptor_wait(struct acceptor *acceptor)
{
    const struct server *server = acceptor->server;
    struct admission *admission = &acceptor->threads->admission;
    bool open = admission_is_open(admission);
    struct pollfd fds[] = {
        {.fd = server->signals.fd, .events = POLLIN},
        {.fd = open ? server->listener.fd : -1, .events = POLLIN},
    };
    poll(fds, 2, admission_is_backing_off(admission) ? SERVER_BACK_OFF_MS : -1);
}

static bool acceptor_serve(void *self, int fd) NO_LOCK_HELD
{
    struct acceptor *acceptor = self;
    return handler_threads_serve(acceptor->threads, fd);
}

void acceptor_run(struct acceptor *acceptor)
{
    struct server *server = acceptor->server;
    while (!server->signals.stop) {
        acceptor_wait(acceptor);
        signals_take(&server->signals);
        if (server->signals.report)
            server_report(server);
        admission_accept(&acceptor->threads->admission, &server->listener, 0, acceptor_serve,
                         acceptor);
    }
    server_drain_end(server); /* the drain timeout begins */
    admission_accept_last(&acceptor->threads->admission, &server->listener, 0, acceptor_serve,
                          acceptor);
}
