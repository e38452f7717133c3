#include "acceptor.h"

#include "common/base/container_of.h"
#include "handler.h"
#include "reactor.h"

static void acceptor_run(struct selection_key *key);

static struct runnable accepting = {acceptor_run};

int acceptor_open(struct acceptor *acceptor, struct reactor *reactor, struct listener *listener)
{
    *acceptor = (struct acceptor){.reactor = reactor, .listener = listener};
    return selector_register(&reactor->selector, &acceptor->key, listener->fd, SELECT_READ,
                             &accepting);
}

void acceptor_close(struct acceptor *acceptor)
{
    if (acceptor->listener == NULL)
        return;
    selector_cancel(&acceptor->key);
    listener_close(acceptor->listener);
}

static bool acceptor_serve(void *self, int fd) NO_LOCK_HELD
{
    struct acceptor *acceptor = self;
    return handler_create(acceptor->reactor, fd);
}

/* A client wants to connect. */
static void acceptor_run(struct selection_key *key)
{
    struct acceptor *acceptor = container_of(key, struct acceptor, key);
    admission_accept(&acceptor->reactor->admission, acceptor->listener, SOCK_NONBLOCK,
                     acceptor_serve, acceptor);
    acceptor_update(acceptor);
}

void acceptor_update(struct acceptor *acceptor)
{
    struct reactor *reactor = acceptor->reactor;
    if (acceptor->key.selector == NULL)
        return;
    unsigned interest = admission_is_open(&reactor->admission) ? SELECT_READ : SELECT_NOTHING;
    if (interest != acceptor->key.interest && selector_interest(&acceptor->key, interest) != 0)
        admission_back_off(&reactor->admission);
    reactor_accept_at(reactor, admission_resumes(&reactor->admission));
}
