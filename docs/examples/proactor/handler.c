#include "handler.h"

#include "common/base/container_of.h"
#include "common/bytes/shared_file.h"
#include "common/server/connection_feed.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STALL_NS = 20000000, /* 20 ms */
};

static void handler_received(struct operation *self,
                             const struct completion *completion) NO_LOCK_HELD;
static void handler_sent(struct operation *self, const struct completion *completion) NO_LOCK_HELD;
static void handler_turn(struct operation *self, const struct completion *completion) NO_LOCK_HELD;
static void handler_process(struct handler *handler) NO_LOCK_HELD;

/* ---- Output: a gate that keeps it in the chain, and requests that send it ------------------- */

static struct output_chain *output_of(struct output_gate *gate)
{
    return &container_of(gate, struct handler, gate)->connection.output;
}

/*
 * What may leave by a system call: a range of a file, which no request can send, and what a flush
 * asks for, in the middle of a run, because a request that is written down has not left. But never
 * beside a request.
 */
static size_t handler_allowance(struct output_gate *gate)
{
    const struct output_chain *output = output_of(gate);
    bool is_file = output->last != NULL && output->last->next->verbs == &shared_file_link_verbs;
    bool pending = container_of(gate, struct handler, gate)->lent != NULL;
    return !pending && (is_file || output->corked) ? SIZE_MAX : 0;
}

static void handler_spend(struct output_gate *gate, size_t bytes)
{
    (void)gate;
    (void)bytes;
}

static int64_t handler_due(const struct output_gate *gate, uint64_t waiting)
{
    (void)gate;
    (void)waiting;
    return 0;
}

static void handler_close_gate(struct output_gate *gate)
{
    (void)gate;
}

static const struct output_gate_verbs gate_verbs = {handler_allowance, handler_spend, handler_due,
                                                    handler_close_gate};

/* Copies what the output begins with, as far as it lies in memory; how many bytes that is. */
static size_t handler_copy(const struct output_chain *output, unsigned char *to, size_t most)
{
    const struct segment *link = output->last->next;
    size_t count = 0;
    while (count < most && link->verbs != &shared_file_link_verbs) {
        const unsigned char *bytes = link->verbs != NULL ? link->verbs->bytes(link) : link->data;
        size_t left = most - count;
        size_t here = segment_length(link) < left ? segment_length(link) : left;
        memcpy(to + count, bytes + link->start, here);
        count += here;
        if (link == output->last)
            break;
        link = link->next;
    }
    return count;
}

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

/*
 * Asks for what waits to be sent. The chain may drop it at any time, and its memory may be another
 * client's next, so the kernel gets a copy, which stays until the request has ended.
 */
static void handler_send(struct handler *handler)
{
    struct ring *ring = &handler->proactor->ring;
    struct output_chain *output = &handler->connection.output;
    size_t most = output->length < OUTPUT_BATCH ? (size_t)output->length : OUTPUT_BATCH;
    unsigned char *copy = malloc(most + 1);
    if (copy == NULL) {
        handler_stall(handler);
        return;
    }
    size_t count = most > 0 ? handler_copy(output, copy, most) : 0;
    if (count == 0) {
        free(copy);
        if (!handler->turn.pending) /* a file: sendfile(2) sends it when there is room */
            ring_poll(ring, &handler->turn, output->fd, POLLOUT);
        return;
    }
    struct io_uring_sqe *request = ring_request(ring, &handler->send, IORING_OP_SEND, output->fd);
    request->addr = (uintptr_t)copy;
    request->len = (unsigned)count;
    request->msg_flags = MSG_NOSIGNAL;
    handler->lent = copy;
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

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
    handler->gate.verbs = &gate_verbs;
    handler->connection.output.gate = &handler->gate;
    connection_advance(&handler->connection, LIFE_STARTING);
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
    close(connection_detach(&handler->connection));
    admission_leave(&proactor->admission);
    free(handler);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

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
    if (handler->rests && (wants & SELECT_LOSS) == 0) {
        ring_cancel(ring, &handler->turn); /* its completion is a turn */
        handler->rests = false;
    }
    if (wants == CONNECTION_RUN && !handler->turn.pending) /* the others go first */
        ring_request(ring, &handler->turn, IORING_OP_NOP, -1);
    if ((wants & SELECT_READ) != 0 && !handler->receive.pending)
        ring_receive(ring, &handler->receive, fd,
                     connection->input.limit - input_queue_length(&connection->input));
    if ((wants & SELECT_WRITE) != 0 && handler->lent == NULL && !handler->stalled)
        handler_send(handler);
    if ((wants & SELECT_LOSS) != 0 && !handler->receive.pending && !handler->turn.pending) {
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
    struct run run = {0};
    connection_handle(&handler->connection, &run, HANDLE_MESSAGES);
    connection_send(&handler->connection, &run);
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
    if (!connection_feed(&handler->connection, bytes, length)) {
        struct endpoint peer;
        channel_peer(&handler->connection.facade, &peer);
        server_no_memory(server, &server->counters, &peer, handler->connection.output.fd);
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
    struct output_chain *output = &handler->connection.output;
    int result = completion->result;
    free(handler->lent);
    handler->lent = NULL;
    if (is_to_be_repeated(result))
        result = 0;
    if (result > 0)
        output_chain_consume(output, (size_t)output_chain_wrote(output, result));
    else if (result < 0)
        output_chain_break(output, -result);
    else if (!handler->closing)
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
