#include "handler.h"

#include "common/clock.h"
#include "common/line_framing.h"
#include "common/trace.h"
#include "handler_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/time.h>

enum {
    LAST_READS = 16, /* what a stopping server still takes in, in reads */
};

/*
 * The segment that a handler's thread holds while it waits is made before there is a thread, where
 * the client can be told that there is no memory for it. And a thread that asks the heap for
 * nothing has no cache of the C library's, which would be an eighth of what it holds in the heap.
 */
struct handler *handler_create(struct handler_threads *threads, struct server *server, int fd)
{
    struct handler *handler = calloc(1, sizeof(*handler));
    if (handler == NULL || !buffer_factory_stock(&server->buffers, 1)) {
        free(handler);
        return NULL;
    }
    handler->server = server;
    handler->threads = threads;
    handler->fd = fd;
    handler->last_reads = LAST_READS;
    input_queue_init(&handler->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    output_chain_init(&handler->output, &server->output_settings, fd);
    deadlines_start(&handler->deadlines, clock_ms());
    return handler;
}

int handler_release(struct handler *handler)
{
    int fd = handler->fd;
    input_queue_clear(&handler->input);
    output_chain_clear(&handler->output);
    free(handler);
    return fd;
}

/* Lets the next blocking call of that direction last until the next deadline, and no longer. */
static void set_socket_timeout(struct handler *handler, int direction)
{
    const struct deadline_limits *limits = &handler->server->settings.deadlines;
    if (!deadline_limits_any(limits))
        return;
    int64_t left = 0; /* to the kernel, no timeout at all */
    int64_t now = clock_ms();
    int64_t next = deadlines_next(&handler->deadlines, limits, now);
    if (next != INT64_MAX) {
        left = next - now;
        left = left > 0 ? left : 1;
    }
    struct timeval timeout = {.tv_sec = left / 1000, .tv_usec = left % 1000 * 1000};
    setsockopt(handler->fd, SOL_SOCKET, direction, &timeout, sizeof(timeout));
}

/* Whether a deadline has passed, which ends the connection. */
static bool timed_out(struct handler *handler)
{
    struct server *server = handler->server;
    enum deadline passed =
        deadlines_passed(&handler->deadlines, &server->settings.deadlines, clock_ms());
    if (passed == DEADLINE_NONE)
        return false;
    counters_add(&server->counters, COUNTER_TIMED_OUT, 1);
    trace_event(TRACE_TIMER, handler->fd, passed);
    log_write(&server->log, LOG_LEVEL_INFO, "closed a client: %s", deadline_name(passed));
    return true;
}

/* Keeps the books on what the socket has taken, and whether something waits for it. */
static void handler_account(struct handler *handler, enum output_result result)
{
    uint64_t sent = output_chain_newly_sent(&handler->output);
    counters_add(&handler->server->counters, COUNTER_BYTES_OUT, sent);
    deadlines_output(&handler->deadlines, clock_ms(), sent, result != OUTPUT_FLOWING);
}

/* Answers one request: what comes out of the service goes into the output queue. */
static enum output_result handler_answer(struct handler *handler, struct message request)
{
    struct server *server = handler->server;
    counters_add(&server->counters, COUNTER_MESSAGES, 1);
    deadlines_message(&handler->deadlines);
    struct message reply = service_process(&server->service, request);
    return output_chain_enqueue(&handler->output, reply);
}

/* No line can follow one without an end: says so, and drops what came of it. */
static void handler_refuse_line(struct handler *handler)
{
    counters_add(&handler->server->counters, COUNTER_TOO_LONG, 1);
    output_chain_enqueue(&handler->output, server_too_long_text);
    input_queue_clear(&handler->input);
}

/*
 * Answers the whole requests there are, until the replies get too many, and holds the replies back
 * so that one write takes them all. What the next request looks like is the result.
 */
static enum framing_result handler_process(struct handler *handler)
{
    const struct server_settings *settings = &handler->server->settings;
    struct message request;
    enum framing_result framing = FRAMING_MESSAGE;
    enum output_result result = OUTPUT_FLOWING;
    trace_event(TRACE_RUN, handler->fd, 0);
    output_chain_cork(&handler->output);
    while (result == OUTPUT_FLOWING) {
        framing = line_framing_next(&handler->input, settings->max_line, &request);
        if (framing != FRAMING_MESSAGE)
            break;
        result = handler_answer(handler, request);
    }
    if (framing == FRAMING_TOO_LONG)
        handler_refuse_line(handler);
    bool more = !input_queue_is_empty(&handler->input);
    bool requests_left = more && framing == FRAMING_MESSAGE;
    deadlines_framed(&handler->deadlines, clock_ms(), more && !requests_left);
    trace_event(TRACE_RUN_DONE, handler->fd, 0);
    return framing;
}

/* No call waits for a client who never pauses, so none of them ends at a deadline. */
static bool handler_is_too_old(const struct handler *handler)
{
    int64_t lifetime = handler->server->settings.deadlines.lifetime;
    if (lifetime == 0)
        return false;
    int64_t now = clock_ms();
    return now >= deadlines_born(&handler->deadlines, now) + lifetime;
}

/* Reads what there is, or waits for it. False when there is nothing more to come. */
static bool handler_read(struct handler *handler)
{
    if (handler_threads_stopping(handler->threads) && handler->last_reads-- == 0)
        return false;
    if (handler_is_too_old(handler) && timed_out(handler))
        return false;
    ssize_t received;
    do {
        set_socket_timeout(handler, SO_RCVTIMEO);
        trace_event(TRACE_BLOCKED_READ, handler->fd, 0);
        received = input_queue_fill(&handler->input, handler->fd);
        trace_event(TRACE_BLOCKED_READ_DONE, handler->fd, 0);
    } while (received < 0 && errno == EAGAIN && !timed_out(handler));
    if (received < 0 && errno == ENOMEM)
        server_no_memory(handler->server, &handler->server->counters);
    if (received <= 0)
        return false;
    counters_add(&handler->server->counters, COUNTER_BYTES_IN, (uint64_t)received);
    deadlines_received(&handler->deadlines, clock_ms());
    return true;
}

/* Writes what waits, to the last byte. False if the peer is gone, or too slow. */
static bool handler_send(struct handler *handler)
{
    enum output_result result;
    handler_account(handler, OUTPUT_WAITING); /* its time runs while the first write blocks, too */
    do {
        set_socket_timeout(handler, SO_SNDTIMEO);
        trace_event(TRACE_BLOCKED_WRITE, handler->fd, 0);
        result = output_chain_uncork(&handler->output);
        trace_event(TRACE_BLOCKED_WRITE_DONE, handler->fd, 0);
        handler_account(handler, result);
    } while (result != OUTPUT_FLOWING && result != OUTPUT_BROKEN && !timed_out(handler));
    return result == OUTPUT_FLOWING;
}

/*
 * Lingering: all is said. The client may be sending still, and a close would be answered to its
 * next bytes as a reset, which can overtake what we sent last. So what it sends is dropped until it
 * has seen our end of stream, or for so long.
 */
static void handler_linger(struct handler *handler)
{
    const struct timeval timeout = {.tv_sec = SERVER_LINGER_MS / 1000};
    int64_t end = clock_ms() + SERVER_LINGER_MS;
    char dropped[4096];
    shutdown(handler->fd, SHUT_WR);
    setsockopt(handler->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    while (recv(handler->fd, dropped, sizeof(dropped), 0) > 0 && clock_ms() < end)
        ;
}

void handler_run(struct handler *handler)
{
    enum framing_result framing = FRAMING_INCOMPLETE;
    while (framing == FRAMING_INCOMPLETE || framing == FRAMING_MESSAGE) {
        if (framing == FRAMING_INCOMPLETE && !handler_read(handler))
            return;
        framing = handler_process(handler);
        if (!handler_send(handler))
            return;
    }
    if (framing == FRAMING_NO_MEMORY)
        server_no_memory(handler->server, &handler->server->counters);
    if (framing == FRAMING_TOO_LONG)
        handler_linger(handler);
}
