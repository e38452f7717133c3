#include "acceptor.h"

#include "common/base/container_of.h"
#include "handler.h"
#include "proactor.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

static void acceptor_accepted(struct operation *self,
                              const struct completion *completion) NO_LOCK_HELD;
static void acceptor_looked(struct operation *self,
                            const struct completion *completion) NO_LOCK_HELD;

void acceptor_open(struct acceptor *acceptor, struct proactor *proactor, struct listener *listener)
{
    *acceptor = (struct acceptor){
        .accept.done = acceptor_accepted, .proactor = proactor, .listener = listener};
    acceptor_update(acceptor);
}

static bool acceptor_serve(void *self, int fd) NO_LOCK_HELD
{
    struct acceptor *acceptor = self;
    return handler_create(acceptor->proactor, fd);
}

/* Those that wait are accepted by system calls, which know what to do when nothing is left. */
static void acceptor_accept_waiting(struct acceptor *acceptor) NO_LOCK_HELD
{
    admission_accept(&acceptor->proactor->admission, acceptor->listener, SOCK_NONBLOCK,
                     acceptor_serve, acceptor);
}

/* The kernel may accept until its request has completed, so that comes before the end. */
static void acceptor_go_on(struct acceptor *acceptor) NO_LOCK_HELD
{
    if (!acceptor->stopping) {
        acceptor_update(acceptor);
        return;
    }
    admission_accept_last(&acceptor->proactor->admission, acceptor->listener, SOCK_NONBLOCK,
                          acceptor_serve, acceptor);
    proactor_stop(acceptor->proactor);
}

/*
 * A client has connected, or an accept has failed: without a free descriptor it does so before
 * anybody waits. Asked again, it would fail again at once, so the next request is only a look.
 */
static void acceptor_accepted(struct operation *self, const struct completion *completion)
{
    struct acceptor *acceptor = container_of(self, struct acceptor, accept);
    if (completion->result >= 0) {
        admission_take(&acceptor->proactor->admission, acceptor->listener, completion->result,
                       &acceptor->peer, acceptor_serve, acceptor);
    } else if (completion->result != -ECANCELED) {
        acceptor_accept_waiting(acceptor);
        acceptor->accept.done = acceptor_looked;
    }
    acceptor_go_on(acceptor);
}

static void acceptor_looked(struct operation *self, const struct completion *completion)
{
    struct acceptor *acceptor = container_of(self, struct acceptor, accept);
    acceptor->accept.done = acceptor_accepted;
    if (completion->result >= 0)
        acceptor_accept_waiting(acceptor);
    acceptor_go_on(acceptor);
}

/* accept4(2), written down. */
static void acceptor_ask(struct acceptor *acceptor)
{
    struct io_uring_sqe *request = ring_request(&acceptor->proactor->ring, &acceptor->accept,
                                                IORING_OP_ACCEPT, acceptor->listener->fd);
    acceptor->peer.length = sizeof(acceptor->peer.address);
    request->addr = (uintptr_t)&acceptor->peer.address;
    request->addr2 = (uintptr_t)&acceptor->peer.length;
    request->accept_flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
}

void acceptor_update(struct acceptor *acceptor)
{
    struct proactor *proactor = acceptor->proactor;
    if (acceptor->stopping)
        return;
    bool open = admission_is_open(&proactor->admission);
    proactor_accept_at(proactor, admission_resumes(&proactor->admission));
    if (!open || acceptor->accept.pending)
        return;
    if (acceptor->accept.done == acceptor_looked)
        ring_poll(&proactor->ring, &acceptor->accept, acceptor->listener->fd, POLLIN);
    else
        acceptor_ask(acceptor);
}

void acceptor_stop(struct acceptor *acceptor)
{
    acceptor->stopping = true;
    if (acceptor->accept.pending)
        ring_cancel(&acceptor->proactor->ring, &acceptor->accept);
    else
        acceptor_go_on(acceptor);
}
