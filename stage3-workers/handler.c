#include "handler.h"

#include "common/clock.h"
#include "common/line_framing.h"
#include "common/test_point.h"
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
static void handler_run_task(struct task *task);
static void handler_drop_task(struct task *task);

struct handler *handler_create(struct reactor *reactor, int fd, bool urgent)
{
    struct server *server = reactor->server;
    struct handler *handler = calloc(1, sizeof(*handler));
    if (handler == NULL)
        return NULL;
    handler->runnable.run = handler_read;
    handler->reactor = reactor;
    handler->task = (struct task){
        .run = handler_run_task, .dropped = handler_drop_task, .urgent = urgent, .fd = fd};
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
    deadlines_output(&handler->deadlines, clock_ms(), sent, result != OUTPUT_FLOWING);
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
    deadlines_framed(&handler->deadlines, clock_ms(), more && !requests_left);

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

static struct handler *handler_of(struct task *task)
{
    return (struct handler *)(void *)((char *)task - offsetof(struct handler, task));
}

static bool handler_is_processing(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    mutex_lock(&reactor->guard.lock);
    bool processing = handler->processing;
    mutex_unlock(&reactor->guard.lock);
    return processing;
}

static void handler_set_processing(struct handler *handler, bool processing)
{
    struct reactor *reactor = handler->reactor;
    mutex_lock(&reactor->guard.lock);
    handler->processing = processing;
    mutex_unlock(&reactor->guard.lock);
}

/*
 * The end of the worker's part, as in 2006: it takes the guard, wakes the selector and resumes
 * selection itself. What is to wait for nothing it leaves to the reactor, who alone may close.
 */
static void handler_hand_back(struct handler *handler, struct state next)
{
    struct reactor *reactor = handler->reactor;
    TEST_POINT("worker: before hand-back");
    selector_guard_acquire(&reactor->guard);
    TEST_POINT("worker: guard held");
    handler->runnable.run = next.run;
    if (next.interest == SELECT_NOTHING || reactor->stopping ||
        selector_interest(&handler->key, next.interest) != 0) {
        reactor_hand_back(reactor, &handler->task);
    } else {
        TEST_POINT("worker: selection resumed");
        handler->processing = false; /* selected perhaps, but not run before the guard is free */
    }
    selector_guard_release(&reactor->guard);
    TEST_POINT("worker: after hand-back");
}

/* Lea's Processer: what a worker does. */
static void handler_run_task(struct task *task)
{
    struct handler *handler = handler_of(task);
    TEST_POINT("worker: before processing");
    handler_hand_back(handler, handler_process(handler));
}

/* Takes a request out that nobody will process. False without memory for that. */
static bool handler_skip_request(struct handler *handler)
{
    struct server *server = handler->reactor->server;
    struct message request;
    if (line_framing_next(&handler->input, server->settings.max_line, &request) !=
        FRAMING_MESSAGE) {
        server_no_memory(server, &server->counters);
        return false;
    }
    counters_add(&server->counters, COUNTER_MESSAGES, 1);
    deadlines_framed(&handler->deadlines, clock_ms(), false);
    return true;
}

/* The saturation policy has given up a request: it gets no reply. */
static void handler_drop_task(struct task *task)
{
    struct handler *handler = handler_of(task);
    bool skipped = handler_skip_request(handler);
    enum output_result result = output_chain_drain(&handler->output);
    handler_account(handler, result);
    bool requests_left = !input_queue_is_empty(&handler->input);
    handler_hand_back(handler,
                      handler_next_state(handler, skipped ? result : OUTPUT_BROKEN, requests_left));
}

/* No worker will take the request: says so, and goes on with the next one. */
static void handler_refuse_request(struct handler *handler)
{
    bool skipped = handler_skip_request(handler);
    enum output_result result = output_chain_enqueue(&handler->output, server_busy_text);
    handler_account(handler, result);
    bool requests_left = !input_queue_is_empty(&handler->input);
    handler_become(handler,
                   handler_next_state(handler, skipped ? result : OUTPUT_BROKEN, requests_left));
}

/* A client who never pauses is with a worker whenever the reactor looks at deadlines. */
static bool handler_is_too_old(const struct handler *handler)
{
    int64_t now = handler->reactor->now;
    int64_t lifetime = handler->reactor->server->settings.deadlines.lifetime;
    return lifetime != 0 && now >= deadlines_born(&handler->deadlines, now) + lifetime;
}

/* Processing: gives a whole request to a worker; with less than that there is nothing to give. */
static void handler_execute(struct handler *handler)
{
    struct reactor *reactor = handler->reactor;
    if (handler_is_too_old(handler)) {
        handler_expire(handler);
        return;
    }
    size_t max_line = reactor->server->settings.max_line;
    if (line_framing_look(&handler->input, max_line) != FRAMING_MESSAGE) {
        handler_become(handler, handler_process(handler));
        return;
    }
    selector_interest(&handler->key, SELECT_NOTHING);
    handler_set_processing(handler, true);
    if (!executor_submit(reactor->executor, &handler->task)) {
        handler_set_processing(handler, false);
        handler_refuse_request(handler);
    }
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
        handler_execute(handler);
}

/* Sending: the socket takes output again, and then there are requests left to answer. */
static void handler_send(struct runnable *self)
{
    struct handler *handler = (struct handler *)self;
    enum output_result result = output_chain_drain(&handler->output);
    if (result == OUTPUT_FLOWING || result == OUTPUT_WAITING) {
        handler_execute(handler);
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
    if (handler_is_processing(handler))
        return;
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

void handler_go_on(struct task *task)
{
    struct handler *handler = handler_of(task);
    handler_set_processing(handler, false);
    if (handler->reactor->drain_until != 0)
        handler_stop(handler);
    else
        handler->runnable.run(&handler->runnable);
}

void handler_stop(struct handler *handler)
{
    if (handler_is_processing(handler))
        return; /* it stops when it is back */
    if (handler->runnable.run == handler_linger) {
        handler_close(handler);
    } else if (!handler->ended && !handler_fill_up(handler)) {
        handler_close(handler);
    } else {
        handler->ended = true;
        handler_send(&handler->runnable);
    }
}
