#include "handler.h"

#include "common/line_framing.h"
#include "common/trace.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    REQUESTS_PER_TURN = 64, /* then the other clients get their turn */
    LAST_READS = 16,        /* what a stopping server still takes in, in reads */
};

/* What is run, and what the socket has to be ready for before that. */
struct state {
    void (*run)(struct runnable *self);
    unsigned interest;
};

static void handler_read(struct runnable *self);
static void handler_send(struct runnable *self);
static void handler_finish(struct runnable *self);
static void handler_linger(struct runnable *self);
static void handler_end(struct runnable *self);

struct handler *handler_create(struct reactor *reactor, int fd)
{
    struct server *server = reactor->server;
    struct handler *handler = calloc(1, sizeof(*handler));
    if (handler == NULL)
        return NULL;
    handler->runnable.run = handler_read;
    handler->reactor = reactor;
    if (selector_register(&reactor->selector, &handler->key, fd, SELECT_READ, &handler->runnable) !=
        0) {
        free(handler);
        return NULL;
    }
    input_queue_init(&handler->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    output_chain_init(&handler->output, &server->output_settings, fd);
    deadlines_start(&handler->deadlines, reactor->now);
    reactor_add(reactor, handler);
    counters_add(&server->counters, COUNTER_ACCEPTED, 1);
    return handler;
}

void handler_close(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    int fd = handler->key.fd;
    if (handler->runnable.run == handler_linger)
        reactor->lingering--;
    selector_cancel(&handler->key);
    input_queue_clear(&handler->input);
    output_chain_clear(&handler->output);
    trace_event(TRACE_CLOSE, fd, 0);
    close(fd);
    counters_add(&reactor->server->counters, COUNTER_CLOSED, 1);
    reactor_remove(reactor, handler);
    free(handler);
}

/* A state that waits for nothing runs at once. May close. */
static void handler_become(struct handler *handler, struct state next)
{
    handler->runnable.run = next.run;
    if (next.interest == SELECT_NOTHING)
        next.run(&handler->runnable);
    else if (next.interest != handler->key.interest &&
             selector_interest(&handler->key, next.interest) != 0)
        handler_close(handler);
}

/* The state that fits, after output has gone or not and requests are left or not. */
static struct state handler_next_state(const struct handler *handler, enum output_result result,
                                       bool requests_left)
{
    const struct state end = {handler_end, SELECT_NOTHING};
    const struct state finish = {handler_finish, SELECT_NOTHING};
    const struct state send = {handler_send, SELECT_WRITE};
    const struct state read = {handler_read, SELECT_READ};
    const struct state read_and_send = {handler_read, SELECT_READ | SELECT_WRITE};

    if (result == OUTPUT_REFUSED || result == OUTPUT_BROKEN)
        return end;
    if (result == OUTPUT_CHOKED || requests_left)
        return send;
    if (handler->ended)
        return result == OUTPUT_WAITING ? send : finish;
    return result == OUTPUT_WAITING ? read_and_send : read;
}

/* Keeps the books on what the socket has taken, and whether something waits for it. */
static void handler_account(struct handler *handler, enum output_result result)
{
    uint64_t sent = output_chain_newly_sent(&handler->output);
    counters_add(&handler->reactor->server->counters, COUNTER_BYTES_OUT, sent);
    deadlines_output(&handler->deadlines, handler->reactor->now, sent, result != OUTPUT_FLOWING);
}

/* Answers one request: what comes out of the service goes into the output queue. */
static enum output_result handler_answer(struct handler *handler, struct message request)
{
    struct server *server = handler->reactor->server;
    counters_add(&server->counters, COUNTER_MESSAGES, 1);
    deadlines_message(&handler->deadlines);
    struct message reply = service_process(&server->service, request);
    return output_chain_enqueue(&handler->output, reply);
}

/* No line can follow one without an end: says so, and drops what came of it. */
static void handler_refuse_line(struct handler *handler)
{
    counters_add(&handler->reactor->server->counters, COUNTER_TOO_LONG, 1);
    output_chain_enqueue(&handler->output, server_too_long_text);
    input_queue_clear(&handler->input);
    handler->ended = handler->too_long = true;
}

/*
 * Answers the whole requests there are, a turn's worth at the most, and holds the replies back so
 * that one write takes them all. The state that follows from it is the result.
 */
static struct state handler_process(struct handler *handler)
{
    struct server *server = handler->reactor->server;
    struct message request;
    enum framing_result framing = FRAMING_MESSAGE;
    enum output_result result = OUTPUT_FLOWING;
    trace_event(TRACE_RUN, handler->key.fd, 0);
    output_chain_cork(&handler->output);
    for (int i = 0; i < REQUESTS_PER_TURN && result == OUTPUT_FLOWING; i++) {
        framing = line_framing_next(&handler->input, server->settings.max_line, &request);
        if (framing != FRAMING_MESSAGE)
            break;
        result = handler_answer(handler, request);
    }
    if (framing == FRAMING_TOO_LONG)
        handler_refuse_line(handler);
    bool more = !input_queue_is_empty(&handler->input);
    bool requests_left = more && framing == FRAMING_MESSAGE;
    deadlines_framed(&handler->deadlines, handler->reactor->now, more && !requests_left);

    result = output_chain_uncork(&handler->output);
    /* Requests that are left wait for room to reply, like output that waits for room to go. */
    handler_account(handler, requests_left ? OUTPUT_WAITING : result);
    if (framing == FRAMING_NO_MEMORY) {
        server_no_memory(server, &server->counters);
        result = OUTPUT_BROKEN;
    }
    trace_event(TRACE_RUN_DONE, handler->key.fd, 0);
    return handler_next_state(handler, result, requests_left);
}

/* Takes in what the socket has. False if the connection is broken. */
static bool handler_fill(struct handler *handler)
{
    struct server *server = handler->reactor->server;
    ssize_t received = input_queue_fill(&handler->input, handler->key.fd);
    if (received < 0 && errno == ENOMEM)
        server_no_memory(server, &server->counters);
    if (received < 0)
        return errno == EAGAIN;
    if (received == 0)
        handler->ended = true;
    counters_add(&server->counters, COUNTER_BYTES_IN, (uint64_t)received);
    deadlines_received(&handler->deadlines, handler->reactor->now);
    return true;
}

/* Reading: there is input, or room for output that was waiting. */
static void handler_read(struct runnable *self)
{
    struct handler *handler = (struct handler *)self;
    if ((handler->key.ready & SELECT_READ) != 0 && !handler_fill(handler))
        handler_close(handler);
    else
        handler_become(handler, handler_process(handler));
}

/* Sending: the socket takes output again, and then there are requests left to answer. */
static void handler_send(struct runnable *self)
{
    struct handler *handler = (struct handler *)self;
    enum output_result result = output_chain_drain(&handler->output);
    if (result == OUTPUT_FLOWING || result == OUTPUT_WAITING) {
        handler_become(handler, handler_process(handler));
        return;
    }
    handler_account(handler, result);
    handler_become(handler, handler_next_state(handler, result, true));
}

/* Finishing: all is sent, and nothing will be read. */
static void handler_finish(struct runnable *self)
{
    struct handler *handler = (struct handler *)self;
    if (!handler->too_long) {
        socket_discard(handler->key.fd); /* unread bytes would turn the close into a reset */
        handler_close(handler);
        return;
    }
    shutdown(handler->key.fd, SHUT_WR);
    handler->reactor->lingering++;
    deadlines_received(&handler->deadlines, handler->reactor->now);
    handler_become(handler, (struct state){handler_linger, SELECT_READ});
}

/* The connection is of no use any more. */
static void handler_end(struct runnable *self)
{
    handler_close((struct handler *)self);
}

/*
 * Lingering: all is said. The client may be sending still, and a close would be answered to its
 * next bytes as a reset, which can overtake what we sent last. So what it sends is dropped until it
 * has seen our end of stream, or for so long.
 */
static void handler_linger(struct runnable *self)
{
    struct handler *handler = (struct handler *)self;
    if (!socket_discard(handler->key.fd))
        handler_close(handler);
}

void handler_expire(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    struct server *server = reactor->server;
    if (handler->runnable.run == handler_linger) {
        int64_t since = deadlines_active(&handler->deadlines, reactor->now);
        if (reactor->now >= since + SERVER_LINGER_MS)
            handler_close(handler);
        return;
    }
    enum deadline passed =
        deadlines_passed(&handler->deadlines, &server->settings.deadlines, reactor->now);
    if (passed == DEADLINE_NONE)
        return;
    if (passed == DEADLINE_PROGRESS && socket_is_writable(handler->key.fd)) {
        deadlines_restart_progress(&handler->deadlines, reactor->now); /* it is we who are slow */
        return;
    }
    counters_add(&server->counters, COUNTER_TIMED_OUT, 1);
    trace_event(TRACE_TIMER, handler->key.fd, passed);
    log_write(&server->log, LOG_LEVEL_INFO, "closed a client: %s", deadline_name(passed));
    handler_close(handler);
}

/* Takes in all that has arrived, as far as there is room. False if the connection is broken. */
static bool handler_fill_up(struct handler *handler)
{
    for (int i = 0; i < LAST_READS; i++) {
        size_t before = input_queue_length(&handler->input);
        if (!handler_fill(handler))
            return errno == ENOBUFS;
        if (input_queue_length(&handler->input) == before)
            return true;
    }
    return true;
}

void handler_stop(struct handler *handler)
{
    if (handler->runnable.run == handler_linger) {
        handler_close(handler);
    } else if (!handler->ended && !handler_fill_up(handler)) {
        handler_close(handler);
    } else {
        handler->ended = true;
        handler_send(&handler->runnable);
    }
}
