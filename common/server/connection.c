#include "common/server/connection.h"

#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/server/burst.h"
#include "common/server/connection_parts.h"

#include <errno.h>
#include <sys/socket.h>

enum {
    MESSAGES_PER_TURN = 64, /* then the other connections get their turn */
    LAST_READS = 16,        /* what a stopping server still takes in, in reads */
};

/* ---- Beginning and end --------------------------------------------------------------------- */

/* A peer that has reset is known no more, so it is asked for at once. */
static struct short_endpoint peer_of(int fd)
{
    struct endpoint peer;
    endpoint_of_peer(&peer, fd);
    return endpoint_shorten(&peer);
}

static void begin(struct connection *connection, const struct connection_home *home, int fd,
                  struct input_handler *handler)
{
    struct server *server = home->server;
    *connection = (struct connection){
        .facade.verbs = &connection_facade_verbs, .handler = handler, .reads_left = LAST_READS};
    atomic_init(&connection->asked, ASK_READ);
    input_queue_init(&connection->input, &server->buffers,
                     line_framing_input_limit(server->settings.max_line));
    output_chain_init(&connection->output, &home->output, fd);
    deadlines_start(&connection->deadlines, clock_ms());
}

void connection_open(struct connection *connection, const struct connection_home *home, int fd,
                     struct input_handler *handler)
{
    begin(connection, home, fd, handler);
    connection->peer = peer_of(fd);
    connection_count(connection, COUNTER_ACCEPTED, 1);
    if (home->server->settings.proxies.count > 0)
        connection_expect_header(connection);
}

void connection_open_outgoing(struct connection *connection, const struct connection_home *home,
                              int fd, const struct endpoint *to, struct input_handler *handler)
{
    begin(connection, home, fd, handler);
    connection->peer = endpoint_shorten(to);
    connection->phase = CONNECTION_CONNECTING;
    connection->outgoing = true;
    connection_count(connection, COUNTER_CONNECTS, 1);
}

void connection_share(struct connection *connection, const struct channel_facade_verbs *verbs,
                      struct mutex *output_lock)
{
    connection->facade.verbs = verbs;
    connection->output_lock = output_lock;
}

static void call_handler(struct connection *connection, enum connection_life life) NO_LOCK_HELD
{
    struct input_handler *handler = connection->handler;
    struct channel_facade *facade = &connection->facade;
    switch (life) {
    case LIFE_NONE: break;
    case LIFE_STARTING: input_handler_starting(handler, facade); break;
    case LIFE_STARTED: input_handler_started(handler, facade); break;
    case LIFE_END_OF_INPUT: input_handler_end_of_input(handler, facade); break;
    case LIFE_STOPPING:
        connection_forget_timers(connection);
        connection_end_because(connection, connection_is_asked(connection, ASK_STOP | ASK_END)
                                               ? END_SERVER
                                               : END_RESOURCES);
        input_handler_stopping(handler, facade);
        break;
    case LIFE_STOPPED:
        input_handler_stopped(handler, facade);
        connection_give_up_tasks(connection);
        connection_close_posts(connection);
        break;
    }
}

void connection_live_to(struct connection *connection, enum connection_life goal)
{
    if (connection->life == LIFE_NONE && goal == LIFE_STOPPED) {
        connection->life = LIFE_STOPPED;
        input_handler_unused(connection->handler);
    }
    if (connection_is_coming(connection))
        return;
    while (connection->life < goal)
        call_handler(connection, (enum connection_life)++ connection->life);
}

int connection_detach(struct connection *connection)
{
    connection_live_to(connection, LIFE_STOPPED);
    connection_close_output(connection);
    input_queue_clear(&connection->input);
    connection_forget_header(connection);
    trace_event(TRACE_CLOSE, connection->output.fd, 0);
    connection_count(connection, COUNTER_CLOSED, 1);
    return connection->output.fd;
}

/* ---- What is asked of it ------------------------------------------------------------------- */

bool connection_ask(struct connection *connection, unsigned set, unsigned reset)
{
    unsigned char before = atomic_load(&connection->asked);
    unsigned char after;
    do
        after = (unsigned char)((before | set) & ~reset);
    while (!atomic_compare_exchange_weak(&connection->asked, &before, after));
    return before != after;
}

/* Whether it still has to read what had arrived when the server was told to stop. */
static bool is_stopping(const struct connection *connection, unsigned asked)
{
    return (asked & ASK_STOP) != 0 && !connection->end_of_stream;
}

void connection_end_because(struct connection *connection, enum end_reason reason)
{
    unsigned char none = END_NONE;
    atomic_compare_exchange_strong(&connection->end_reason, &none, (unsigned char)reason);
}

/* ---- Input --------------------------------------------------------------------------------- */

void connection_fail(struct connection *connection, enum end_reason reason)
{
    connection_end_because(connection, reason);
    connection->broken = true;
}

void connection_out_of_memory(struct connection *connection)
{
    server_no_memory(connection_server(connection), connection_home(connection)->counters);
    connection_fail(connection, END_RESOURCES);
}

/* Bytes have come, or none: the end of the stream. */
static void count_received(struct connection *connection, size_t received)
{
    connection->end_of_stream = received == 0;
    connection->has_received = true;
    if (received == 0)
        connection_end_because(connection, END_PEER_CLOSED);
    connection_count(connection, COUNTER_BYTES_IN, received);
}

/* Reads once, as far as there is room. */
static void read_once(struct connection *connection)
{
    ssize_t received = input_queue_fill(&connection->input, connection->output.fd);
    if (received >= 0)
        count_received(connection, (size_t)received);
    else if (errno == ENOMEM)
        connection_out_of_memory(connection);
    else if (errno != EAGAIN)
        connection_fail(connection, END_PEER_LOST);
}

/* The server is stopping: reads what has arrived already, and nothing that comes later. */
static void read_the_rest(struct connection *connection)
{
    const struct input_queue *input = &connection->input;
    while (connection->reads_left > 0 && !connection->broken && !connection->end_of_stream) {
        size_t before = input_queue_length(input);
        if (before >= input->limit)
            return; /* goes on when there is room: ASK_STOP wants a run until end_of_stream */
        read_once(connection);
        connection->reads_left--;
        if (input_queue_length(input) == before)
            break;
    }
    connection_end_because(connection, END_SERVER);
    connection->end_of_stream = true;
}

void connection_receive(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN)
        read_once(connection);
    else if (connection->phase == CONNECTION_ARRIVING)
        connection_read_header(connection);
    else if (connection->phase == CONNECTION_LINGERING && !socket_drop(connection->output.fd))
        connection->phase = CONNECTION_ENDED;
}

bool connection_give(struct connection *connection, const unsigned char *bytes, size_t length)
{
    if (connection->phase == CONNECTION_ARRIVING) {
        size_t taken = connection_give_header(connection, bytes, length);
        bytes += taken;
        length -= taken;
        if (length == 0)
            return true;
    }
    if (connection->phase == CONNECTION_LINGERING && length == 0)
        connection->phase = CONNECTION_ENDED;
    if (connection->phase != CONNECTION_OPEN)
        return true; /* nobody wants them any more */
    if (!input_queue_append(&connection->input, bytes, length))
        return false;
    count_received(connection, length);
    return true;
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* Whether output leaves input its freedom: choked output mostly does not. */
static bool is_free(const struct connection *connection, enum output_result output)
{
    return output < OUTPUT_CHOKED ||
           (output == OUTPUT_CHOKED && input_handler_is_duplex(connection->handler));
}

/* Whether the handler is to get one more message in this run. */
static bool takes_message(const struct connection *connection)
{
    unsigned asked = atomic_load(&connection->asked);
    return !connection->broken && (asked & (ASK_CLOSE | ASK_END)) == 0 &&
           (asked & (ASK_READ | ASK_STOP)) != 0 && !connection_waits_for_task(connection) &&
           is_free(connection, output_chain_look(&connection->output));
}

/* Whether answers can be longer than one call of the handler. */
static bool has_long_answers(const struct connection *connection)
{
    return input_handler_continues_output(connection->handler);
}

/* Output is not choked any more, and the handler waits for that. */
static bool has_drained(const struct connection *connection)
{
    return output_chain_has_drained(&connection->output) &&
           input_handler_hears_drained(connection->handler);
}

/* Whether a call was posted, a timer is due, or output has drained. No event tells of that. */
static bool has_calls(const struct connection *connection)
{
    return connection->timer_due || atomic_load(&connection->posts) != NULL ||
           has_drained(connection);
}

/* Too long, or out of memory, is kept as well: asked again, the handler would say so again. */
bool connection_find(struct connection *connection, struct connection_message *found)
{
    *found = (struct connection_message){0};
    if (connection->phase != CONNECTION_OPEN || connection->late != DEADLINE_NONE ||
        connection->life < LIFE_STARTED)
        return false;
    if (has_calls(connection))
        return true;
    if (is_stopping(connection, atomic_load(&connection->asked)))
        read_the_rest(connection);
    if (!takes_message(connection))
        return false;
    if (connection->more_to_handle && has_long_answers(connection))
        return true;
    struct message message = {0};
    enum framing_result result =
        input_handler_next_message(connection->handler, &connection->facade, &message);
    *found = (struct connection_message){.data = message.data,
                                         .length = (uint32_t)message.length,
                                         .result = (uint8_t)result,
                                         .found = result != FRAMING_INCOMPLETE};
    return result == FRAMING_MESSAGE;
}

/* Whether bytes wait that are in no message yet: in its queue, or in that of an element. */
static bool has_input(const struct connection *connection) NO_LOCK_HELD
{
    return !input_queue_is_empty(&connection->input) ||
           input_handler_holds_input(connection->handler);
}

/*
 * A message that came alone, with an answer of one piece: no other reply will leave with it, so it
 * need not be copied to wait for one.
 */
static bool is_answered_alone(const struct connection *connection, bool first) NO_LOCK_HELD
{
    return first && !has_input(connection) &&
           input_handler_answers_in_one_piece(connection->handler);
}

static void treat(struct connection *connection, enum connection_messages how,
                  struct message message, bool first) NO_LOCK_HELD
{
    if (is_answered_alone(connection, first))
        output_chain_lift_cork(&connection->output);
    connection_count(connection, COUNTER_MESSAGES, 1);
    deadlines_message(&connection->deadlines);
    if (burst_own != NULL)
        burst_next(burst_own, has_input(connection));
    struct channel_facade *facade = &connection->facade;
    if (how == HANDLE_MESSAGES && !input_handler_handle_input(connection->handler, message, facade))
        connection_fail(connection, END_CLOSED);
    else if (how == REFUSE_MESSAGE)
        input_handler_refuse_input(connection->handler, message, facade);
}

/*
 * Has one message treated. False if no other one can follow it now. Mostly that can be told without
 * asking the handler: a client sends one message and waits for the answer.
 */
static bool treat_next(struct connection *connection, enum connection_messages how,
                       struct connection_message *found, bool first) NO_LOCK_HELD
{
    struct message message = {found->data, found->length};
    enum framing_result result = (enum framing_result)found->result;
    if (!found->found)
        result = input_handler_next_message(connection->handler, &connection->facade, &message);
    found->found = false;
    switch (result) {
    case FRAMING_MESSAGE:
        treat(connection, how, message, first);
        return !input_queue_retire(&connection->input) || has_long_answers(connection) ||
               input_handler_holds_input(connection->handler);
    case FRAMING_TOO_LONG:
        connection_count(connection, COUNTER_TOO_LONG, 1);
        connection_end_because(connection, END_TOO_LONG);
        connection_ask(connection, ASK_CLOSE, 0);
        return false;
    case FRAMING_NO_MEMORY: connection_out_of_memory(connection); return false;
    case FRAMING_INCOMPLETE: break;
    }
    return false;
}

/*
 * The connection's other calls: the timers that are due, `drained`, and what was posted. A timer
 * that is set is looked at in each run, because the run may have come for an event.
 */
static void make_calls(struct connection *connection) NO_LOCK_HELD
{
    if (connection->timers.first != NULL)
        connection_fire_timers(connection);
    if (!connection->broken && output_chain_take_drained(&connection->output))
        input_handler_drained(connection->handler, &connection->facade);
    if (!connection->broken && atomic_load(&connection->posts) != NULL)
        connection_run_posts(connection);
}

/*
 * A turn: messages, and pieces of long answers before the message that follows. What is left may be
 * bytes, or an answer that only the handler knows of.
 */
static void take_turn(struct connection *connection, enum connection_messages how,
                      struct connection_message *found) NO_LOCK_HELD
{
    int turns = how == HANDLE_MESSAGES ? MESSAGES_PER_TURN : 1;
    bool more = true;
    for (bool first = true; more && turns-- > 0 && takes_message(connection); first = false) {
        more = input_handler_continue_output(connection->handler, &connection->facade) ||
               treat_next(connection, how, found, first);
        if (how == HANDLE_MESSAGES && !connection->broken &&
            atomic_load(&connection->posts) != NULL)
            connection_run_posts(connection);
        if (burst_own != NULL && burst_own->work >= BURST_WORK)
            break;
    }
    connection->more_to_handle = more && (has_long_answers(connection) || has_input(connection));
}

/* A deadline has passed: the handler says so, and gets no further message. */
static void say_late(struct connection *connection) NO_LOCK_HELD
{
    if (connection->late == DEADLINE_IDLE)
        input_handler_idle(connection->handler, &connection->facade);
    else
        input_handler_timed_out(connection->handler, &connection->facade);
    connection_ask(connection, ASK_CLOSE, 0);
}

/* The peer has ended its half of the connection, and the handler keeps the other one open. */
static bool stays_half_open(const struct connection *connection)
{
    return input_handler_is_duplex(connection->handler) &&
           !connection_is_asked(connection, ASK_CLOSE | ASK_FINISH);
}

/*
 * After the last message, and its result: the handler may say goodbye, and then only output is
 * left. A client that has taken too long waits for no result.
 */
static void end_input(struct connection *connection) NO_LOCK_HELD
{
    if (connection->begun != NULL && connection->late == DEADLINE_NONE)
        return;
    if (!connection_is_asked(connection, ASK_CLOSE) &&
        (!connection->end_of_stream || connection->more_to_handle))
        return;
    if (stays_half_open(connection)) {
        connection_live_to(connection, LIFE_END_OF_INPUT);
        return;
    }
    connection_live_to(connection, LIFE_STOPPING);
    input_queue_clear(&connection->input);
    connection->more_to_handle = false;
    connection->phase = CONNECTION_DRAINING;
}

/* ---- A run --------------------------------------------------------------------------------- */

/* It serves another connection, which stops; this one goes on until that has ended. */
static bool outlives_stop(const struct connection *connection)
{
    return connection->outgoing && connection->phase == CONNECTION_OPEN &&
           input_handler_is_duplex(connection->handler);
}

static void look_whether_it_comes(struct connection *connection, unsigned asked) NO_LOCK_HELD
{
    if (connection->phase == CONNECTION_CONNECTING) {
        connection_finish_connecting(connection, asked);
    } else if ((asked & ASK_STOP) != 0) {
        connection_read_header(connection);
        connection->broken |= connection->phase == CONNECTION_ARRIVING;
    }
}

void connection_handle_found(struct connection *connection, enum connection_messages how,
                             struct connection_message *found)
{
    unsigned asked = atomic_load(&connection->asked);
    trace_event(TRACE_RUN, connection->output.fd, 0);
    if (connection_is_coming(connection))
        look_whether_it_comes(connection, asked);
    if ((asked & ASK_STOP) != 0 && outlives_stop(connection)) {
        connection_ask(connection, 0, ASK_STOP);
        asked &= ~(unsigned)ASK_STOP;
    }
    if (connection->phase != CONNECTION_OPEN || connection->broken || (asked & ASK_END) != 0)
        return;
    output_chain_cork(&connection->output);
    if (connection->life < LIFE_STARTED)
        connection_live_to(connection, LIFE_STARTED);
    if (how == HANDLE_MESSAGES) /* one is refused in a thread that must not wait */
        make_calls(connection);
    if (connection->late != DEADLINE_NONE)
        say_late(connection);
    else if (is_stopping(connection, asked))
        read_the_rest(connection);
    if (connection->life == LIFE_STARTED)
        take_turn(connection, how, found);
    if (!connection->broken)
        end_input(connection);
}

void connection_handle(struct connection *connection, enum connection_messages how)
{
    struct connection_message none = {0};
    connection_handle_found(connection, how, &none);
}

/*
 * All is sent. The peer may be sending still, and the system would answer its next bytes after a
 * close with a reset, which can overtake what we sent last. So the connection lingers: it drops
 * what comes until the peer has closed, too, or for at most SERVER_LINGER_MS.
 */
static void finish(struct connection *connection)
{
    bool more = socket_discard(connection->output.fd);
    if (connection->end_of_stream || !more) {
        connection->phase = CONNECTION_ENDED;
        return;
    }
    connection->phase = CONNECTION_LINGERING;
    shutdown(connection->output.fd, SHUT_WR);
    deadlines_received(&connection->deadlines, clock_ms());
}

/* All output has left, and there will be none any more. */
static void finish_output(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN && !connection->output_ended)
        shutdown(connection->output.fd, SHUT_WR);
    connection->output_ended = true;
}

static void end(struct connection *connection)
{
    connection_forget_header(connection);
    connection->phase = CONNECTION_ENDED;
}

/* Whether the run has output to send: before and after that there is none. */
static bool is_sending(const struct connection *connection)
{
    return connection->phase != CONNECTION_LINGERING && connection->phase != CONNECTION_CONNECTING;
}

void connection_send(struct connection *connection)
{
    int64_t now = clock_ms();
    bool partial = connection->phase == CONNECTION_ARRIVING ||
                   (connection->phase == CONNECTION_OPEN && !connection->more_to_handle &&
                    has_input(connection));
    if (connection->has_received)
        deadlines_received(&connection->deadlines, now);
    connection->has_received = false;
    deadlines_framed(&connection->deadlines, now, partial);
    enum output_result output =
        is_sending(connection) ? connection_send_output(connection, now) : OUTPUT_FLOWING;
    connection_look_at_age(connection, now);
    if (output == OUTPUT_BROKEN || connection->broken || connection_is_asked(connection, ASK_END))
        end(connection);
    else if (connection->phase == CONNECTION_DRAINING && output == OUTPUT_FLOWING)
        finish(connection);
    else if (connection_is_asked(connection, ASK_FINISH) && output == OUTPUT_FLOWING)
        finish_output(connection);
    if (connection->phase == CONNECTION_ENDED)
        connection_live_to(connection, LIFE_STOPPED);
    trace_event(TRACE_RUN_DONE, connection->output.fd, 0);
}

/* ---- Between runs -------------------------------------------------------------------------- */

bool connection_is_urgent(struct connection *connection)
{
    return connection->phase == CONNECTION_OPEN && connection->life == LIFE_STARTED &&
           has_input(connection) &&
           input_handler_is_urgent(connection->handler, &connection->facade);
}

bool connection_must_run(const struct connection *connection)
{
    return connection->life < LIFE_STARTED || connection->phase != CONNECTION_OPEN ||
           connection->late != DEADLINE_NONE || has_calls(connection) ||
           connection_is_asked(connection, ASK_CLOSE | ASK_STOP | ASK_END);
}

/*
 * Whether to end the output, which has left; or the connection, of which the other half has ended
 * before.
 */
static bool ends_a_half(const struct connection *connection, enum output_result output,
                        unsigned asked)
{
    if (connection->life == LIFE_END_OF_INPUT)
        return (asked & ASK_FINISH) != 0;
    return (asked & ASK_FINISH) != 0 && output == OUTPUT_FLOWING && !connection->output_ended;
}

/* Whether there is something to do that no event will ask for. */
static bool wants_run(const struct connection *connection, enum output_result output,
                      unsigned asked)
{
    if (connection_is_coming(connection))
        return connection->broken || connection->late != DEADLINE_NONE ||
               (asked & (ASK_CLOSE | ASK_STOP | ASK_END)) != 0;
    if (connection->life < LIFE_STARTED || (asked & ASK_END) != 0)
        return true;
    if (connection->phase == CONNECTION_LINGERING)
        return false;
    if (output == OUTPUT_BROKEN)
        return true;
    if (connection->phase != CONNECTION_OPEN)
        return false;
    bool waits = connection_waits_for_task(connection);
    bool goes_on = connection->more_to_handle && is_free(connection, output) &&
                   (asked & (ASK_READ | ASK_STOP)) != 0 && !waits;
    bool stops = is_stopping(connection, asked) && !waits;
    bool closes = (asked & ASK_CLOSE) != 0 && connection->begun == NULL;
    return goes_on || stops || closes || connection->late != DEADLINE_NONE ||
           has_calls(connection) || ends_a_half(connection, output, asked);
}

/* Whether to read: not while messages wait that were read before, nor while output is choked. */
static bool wants_read(const struct connection *connection, enum output_result output,
                       unsigned asked)
{
    if (connection->phase == CONNECTION_LINGERING || connection->phase == CONNECTION_ARRIVING)
        return true;
    return connection->phase == CONNECTION_OPEN && !connection->end_of_stream &&
           !connection->more_to_handle && is_free(connection, output) && (asked & ASK_READ) != 0;
}

unsigned connection_wants(struct connection *connection)
{
    if (connection->phase == CONNECTION_ENDED)
        return CONNECTION_OVER;
    enum output_result output = output_chain_look(&connection->output);
    connection->held_back = false;
    if (output != OUTPUT_FLOWING)
        connection_count_output(connection, output, clock_ms());
    unsigned asked = atomic_load(&connection->asked);
    if (wants_run(connection, output, asked))
        return CONNECTION_RUN;
    bool writes = connection->phase == CONNECTION_CONNECTING ||
                  (output != OUTPUT_FLOWING && !connection->held_back &&
                   connection->phase != CONNECTION_LINGERING);
    return (wants_read(connection, output, asked) ? SELECT_READ : SELECT_NOTHING) |
           (writes ? SELECT_WRITE : SELECT_NOTHING);
}
