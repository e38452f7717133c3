#include "handler.h"

#include "common/base/container_of.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STALL_NS = 20000000, /* 20 ms */
};

static void handler_received(struct operation *self,
                             const struct completion *completion) NO_LOCK_HELD;
/*
 * A send waits for room in the kernel, and should not come back without having sent anything. But
 * once the peer has half-closed, the kernel is woken by that for ever, gives up, and says EAGAIN.
 * Asked again at once, it would take all of a processor.
 */
static void handler_stall(struct handler *handler)
{
    static const struct __kernel_timespec a_while = {.tv_nsec = STALL_NS};
    handler->stalled = true;
    if (handler->turn.pending)
        return;
    struct io_uring_sqe *request =
        ring_request(&handler->proactor->ring, &handler->turn, IORING_OP_TIMEOUT, -1);
    request->addr = (uintptr_t)&a_while;
    request->len = 1;
}

static void handler_sent(struct operation *self, const struct completion *completion) NO_LOCK_HELD;
static void handler_turn(struct operation *self, const struct completion *completion) NO_LOCK_HELD;
static void handler_process(struct handler *handler) NO_LOCK_HELD;

bool handler_create(struct proactor *proactor, int fd)
{
    struct handler *handler = calloc(1, sizeof(*handler) + proactor->factory->handler_size);
    struct input_handler *input =
        handler != NULL ? input_handler_create(proactor->factory, handler->memory) : NULL;
    if (input == NULL) {
        free(handler);
        return false;
    }
    handler->receive.done = handler_received;
    handler->send.done = handler_sent;
    handler->turn.done = handler_turn;
    handler->proactor = proactor;
    connection_open(&handler->connection, &proactor->server->home, fd, input);
    connection_live_to(&handler->connection, LIFE_STARTING);
    if (!timer_heap_set(&proactor->timers, &handler->timer, INT64_MAX)) {
        connection_detach(&handler->connection);
        free(handler);
        return false;
    }
    handler_process(handler);
    return true;
}

/* The kernel may still be reading our memory, so its requests have to end first. */
void handler_close(struct handler *handler)
{
    struct proactor *proactor = handler->proactor;
    struct operation *operations[] = {&handler->receive, &handler->send, &handler->turn};
    bool pending = false;
    timer_heap_cancel(&proactor->timers, &handler->timer);
    for (int i = 0; i < 3; i++) {
        pending |= operations[i]->pending;
        if (!handler->closing)
            ring_cancel(&proactor->ring, operations[i]);
    }
    handler->closing = true;
    if (pending)
        return;
    handler->lent = false;
    close(connection_detach(&handler->connection));
    admission_leave(&proactor->admission);
    free(handler);
}

/* What the connection waits for becomes requests, unless they are with the kernel already. */
static void handler_wait(struct handler *handler) NO_LOCK_HELD
{
    struct ring *ring = &handler->proactor->ring;
    struct connection *connection = &handler->connection;
    int fd = connection->output.fd;
    unsigned wants = connection_wants(connection);
    if (wants == CONNECTION_OVER) {
        handler_close(handler);
        return;
    }
    if (handler->rests && wants != SELECT_LOSS) {
        ring_cancel(ring, &handler->turn); /* its completion is a turn */
        handler->rests = false;
    }
    if (wants == CONNECTION_RUN && !handler->turn.pending) /* the others go first */
        ring_request(ring, &handler->turn, IORING_OP_NOP, -1);
    if ((wants & SELECT_READ) != 0 && !handler->receive.pending)
        ring_receive(ring, &handler->receive, fd,
                     connection->input.limit - input_queue_length(&connection->input));
    if ((wants & SELECT_WRITE) != 0 && !handler->send.pending && !handler->turn.pending)
        ring_poll(ring, &handler->turn, fd, POLLOUT); /* a file: it is sent by sendfile(2) */
    if (wants == SELECT_LOSS && !handler->receive.pending && !handler->turn.pending) {
        ring_poll(ring, &handler->turn, fd, 0); /* a reset comes unasked */
        handler->rests = true;
    }
    timer_heap_set_by(&handler->proactor->timers, &handler->timer,
                      connection_deadline(connection, handler->proactor->now));
}

/* A stopping connection reads by itself what has come, so no request may do that meanwhile. */
static void handler_process(struct handler *handler)
{
    if (handler->closing) {
        handler_close(handler);
        return;
    }
    if (handler->proactor->stopping && !handler->receive.pending)
        connection_ask(&handler->connection, ASK_STOP, 0);
    connection_handle(&handler->connection, HANDLE_MESSAGES);
    connection_send(&handler->connection);
    handler_wait(handler);
}

static void handler_fail(struct handler *handler, enum end_reason reason)
{
    connection_end_because(&handler->connection, reason);
    connection_ask(&handler->connection, ASK_END, 0);
}

/* The connection copies the bytes. What they were may have been a password, so nothing is left. */
static void handler_take(struct handler *handler, int buffer, size_t length)
{
    struct ring *ring = &handler->proactor->ring;
    struct server *server = handler->proactor->server;
    unsigned char *bytes = buffer >= 0 ? ring_buffer(ring, buffer) : NULL;
    if (!connection_give(&handler->connection, bytes, length)) {
        struct endpoint peer;
        connection_peer(&handler->connection, &peer);
        server_no_memory(server, &server->counters, &peer);
        handler_fail(handler, END_RESOURCES);
    }
    if (bytes != NULL)
        explicit_bzero(bytes, length);
}

/* Nothing was done, and nothing is wrong with the peer: no buffer was free, for one. */
static bool is_to_be_repeated(int result)
{
    return result == -ECANCELED || result == -ENOBUFS || result == -EINTR || result == -EAGAIN;
}

/* Bytes have come, or the end of the stream (0). */
static void handler_received(struct operation *self, const struct completion *completion)
{
    struct handler *handler = container_of(self, struct handler, receive);
    if (completion->result >= 0)
        handler_take(handler, completion->buffer, (size_t)completion->result);
    else if (!is_to_be_repeated(completion->result))
        handler_fail(handler, END_PEER_LOST);
    if (completion->buffer >= 0)
        ring_give_back(&handler->proactor->ring, completion->buffer);
    handler_process(handler);
}

static void handler_sent(struct operation *self, const struct completion *completion)
{
    struct handler *handler = container_of(self, struct handler, send);
    handler->sent = is_to_be_repeated(completion->result) ? 0 : completion->result;
    if (handler->sent == 0 && !handler->closing)
        handler_stall(handler);
    handler_process(handler);
}

static void handler_turn(struct operation *self, const struct completion *completion)
{
    struct handler *handler = container_of(self, struct handler, turn);
    (void)completion;
    handler->stalled = handler->rests = false;
    handler_process(handler);
}

/* Asks for these bytes to be sent, without the first `skipped`, as far as one request takes them.
 */
static void handler_send(struct handler *handler, const struct iovec *pieces, int count,
                         size_t skipped)
{
    size_t used = 0;
    for (int i = 0; i < count && used < HANDLER_PIECES; i++) {
        size_t here = skipped < pieces[i].iov_len ? skipped : pieces[i].iov_len;
        skipped -= here;
        if (here < pieces[i].iov_len)
            handler->pieces[used++] = (struct iovec){(unsigned char *)pieces[i].iov_base + here,
                                                     pieces[i].iov_len - here};
    }
    if (used == 0)
        return;
    struct io_uring_sqe *request =
        ring_request(&handler->proactor->ring, &handler->send,
                     used == 1 ? IORING_OP_SEND : IORING_OP_SENDMSG, handler->connection.output.fd);
    handler->message = (struct msghdr){.msg_iov = handler->pieces, .msg_iovlen = used};
    request->addr = (uintptr_t)(used == 1 ? handler->pieces->iov_base : &handler->message);
    request->len = used == 1 ? (unsigned)handler->pieces->iov_len : 1;
    request->msg_flags = MSG_NOSIGNAL;
    handler->lent = true;
}

/* The answer to this call comes later: what is returned is the answer to the one before. */
ssize_t handler_write(struct output_chain *chain, const struct iovec *pieces, int count)
{
    struct handler *handler = container_of(chain, struct handler, connection.output);
    ssize_t sent = handler->sent;
    if (handler->send.pending || handler->stalled)
        return 0;
    handler->sent = 0;
    handler->lent = false;
    if (sent >= 0) {
        handler_send(handler, pieces, count, (size_t)sent);
        return sent;
    }
    errno = (int)-sent;
    return -1;
}

bool handler_is_lent(const struct output_chain *chain)
{
    return container_of(chain, const struct handler, connection.output)->lent;
}

/*
 * A timer that fires too early is only set again. When the server stops, bytes may be on their way
 * into a buffer of the ring. They come before those that are in the socket, so we wait for them.
 */
void handler_expire(struct handler *handler)
{
    struct proactor *proactor = handler->proactor;
    struct connection *connection = &handler->connection;
    bool stops = proactor->stopping && !connection_is_asked(connection, ASK_STOP);
    timer_heap_set(&proactor->timers, &handler->timer, INT64_MAX);
    if (stops)
        ring_cancel(&proactor->ring, &handler->receive);
    if (connection_expire(connection, proactor->now) || (stops && !handler->receive.pending))
        handler_process(handler);
    else
        handler_wait(handler);
}

struct handler *handler_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler, timer);
}
