#include "common/server/connection.h"

#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/bytes/output_parts.h"
#include "common/server/connection_parts.h"

#include <errno.h>

enum {
    LAST_READS = 16, /* what a stopping server still takes in, in reads */
};

/* ---- Beginning and end --------------------------------------------------------------------- */

void connection_set_handler(struct connection *connection, struct input_handler *handler)
{
    unsigned outgoing = connection->traits & TRAIT_OUTGOING;
    connection->traits = (uint8_t)(outgoing | input_handler_traits(handler));
    connection->handler = handler;
}

void connection_begin(struct connection *connection, const struct connection_home *home, int fd,
                      struct input_handler *handler)
{
    struct server *server = home->server;
    const struct connection_sharing *sharing = home->sharing;
    *connection = (struct connection){
        .facade.verbs = sharing != NULL ? sharing->verbs : &connection_facade_verbs,
        .marks = MARK_NEW | MARK_SILENT | MARK_CLOCK,
        .phase = CONNECTION_OPEN,
        .reads_left = LAST_READS,
    };
    connection_set_handler(connection, handler);
    input_queue_init(&connection->input, &server->buffers,
                     server->settings.max_message > 0
                         ? server->settings.max_message
                         : line_framing_input_limit(server->settings.max_line));
    output_chain_init(&connection->output, &home->output, fd);
    deadlines_start(&connection->deadlines, clock_ms());
}

/* The peer's address is asked for at once: once the peer has reset, only Linux still knows it. */
void connection_open(struct connection *connection, const struct connection_home *home, int fd,
                     struct input_handler *handler)
{
    struct endpoint peer;
    connection_begin(connection, home, fd, handler);
    endpoint_of_peer(&peer, fd);
    connection->peer = endpoint_shorten(&peer);
    connection_count(connection, COUNTER_ACCEPTED, 1);
    if (home->server->settings.proxies.count > 0)
        home->server->settings.arrive(connection);
}

/* What was begun or posted and is not done is dropped after `stopped`, tasks first. */
static void end_parts(struct connection *connection) NO_LOCK_HELD
{
    for (unsigned part = PART_TASKS; part <= PART_POSTS; part++)
        if (connection_part(connection, part) != NULL)
            connection_part(connection, part)->end(connection);
}

/* Before `stopped`: nobody can say anything any more, whoever has a reference. */
static void break_output(struct connection *connection)
{
    connection_lock_output(connection);
    output_chain_break(&connection->output, EPIPE);
    connection_unlock_output(connection);
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
    case LIFE_STOPPING: /* nobody has said why: a registration or a thread was not to be had */
        connection->timers = (struct timer_tree){0};
        connection_end_because(connection, connection_is_asked(connection, ASK_STOP | ASK_END)
                                               ? END_SERVER
                                               : END_RESOURCES);
        input_handler_stopping(handler, facade);
        break;
    case LIFE_STOPPED:
        break_output(connection);
        input_handler_stopped(handler, facade);
        end_parts(connection);
        break;
    }
}

void connection_advance(struct connection *connection, enum connection_life goal)
{
    if (connection->life == LIFE_NONE && goal == LIFE_STOPPED) {
        connection->life = LIFE_STOPPED;
        input_handler_unused(connection->handler);
    }
    if (connection_is_coming(connection))
        return;
    if (goal >= LIFE_STARTED)
        connection_mark(connection, MARK_NEW, false);
    while (connection->life < goal) {
        connection->life++;
        call_handler(connection, (enum connection_life)connection->life);
    }
}

void connection_forget_coming(struct connection *connection)
{
    if (connection_is_coming(connection) &&
        connection_part(connection, connection->phase)->forget != NULL)
        connection_part(connection, connection->phase)->forget(connection);
}

int connection_detach(struct connection *connection)
{
    struct output_chain *output = &connection->output;
    connection_advance(connection, LIFE_STOPPED);
    connection_lock_output(connection);
    connection_count(connection, COUNTER_WRITES, output_chain_new_calls(output));
    output_chain_close(output);
    connection_unlock_output(connection);
    input_queue_clear(&connection->input);
    connection_forget_coming(connection);
    trace_event(TRACE_CLOSE, output->fd, 0);
    connection_count(connection, COUNTER_CLOSED, 1);
    return output->fd;
}

/* ---- What is asked of it, and why it ends --------------------------------------------------- */

bool connection_ask(struct connection *connection, unsigned set, unsigned reset)
{
    unsigned char before = atomic_load(&connection->asked);
    unsigned char after;
    do
        after = (unsigned char)((before | set) & ~reset);
    while (!atomic_compare_exchange_weak(&connection->asked, &before, after));
    return before != after;
}

void connection_end_because(struct connection *connection, enum end_reason reason)
{
    unsigned char none = END_NONE;
    atomic_compare_exchange_strong(&connection->end_reason, &none, (unsigned char)reason);
}

/* A peer that has ended its stream, and is lost before we have ended ours, did not end in order. */
void connection_lose(struct connection *connection)
{
    unsigned char closed = END_PEER_CLOSED;
    if (connection->phase == CONNECTION_OPEN)
        atomic_compare_exchange_strong(&connection->end_reason, &closed,
                                       (unsigned char)END_PEER_LOST);
    connection_end_because(connection, END_PEER_LOST);
}

void connection_fail(struct connection *connection, enum end_reason reason)
{
    if (reason == END_PEER_LOST)
        connection_lose(connection);
    connection_end_because(connection, reason);
    connection->marks |= MARK_BROKEN;
}

void connection_log_close(const struct connection *connection, const char *why)
{
    struct endpoint peer;
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_of_short(&peer, &connection->peer);
    endpoint_format(&peer, place);
    log_write(&connection_server(connection)->log, LOG_LEVEL_INFO,
              "event=closed peer=%s fd=%d reason=\"%s\"", place, connection->output.fd, why);
}

void connection_out_of_memory(struct connection *connection)
{
    struct endpoint peer;
    endpoint_of_short(&peer, &connection->peer);
    server_no_memory(connection_server(connection), connection_home(connection)->counters, &peer,
                     connection->output.fd);
    connection_fail(connection, END_RESOURCES);
}

/* ---- Between runs -------------------------------------------------------------------------- */

/*
 * With ASK_FINISH: whether a run would end something now: the output, which has left, or all,
 * because input has ended.
 */
static bool ends_a_half(const struct connection *connection, enum output_result output)
{
    return (connection->life == LIFE_END_OF_INPUT && !connection_is(connection, MARK_BEGUN)) ||
           (output == OUTPUT_FLOWING && !connection_is(connection, MARK_FINISHED));
}

/*
 * Whether a run would handle what waits, or, once the server stops, read some of what had arrived
 * by then.
 */
static bool goes_on(const struct connection *connection, enum output_result output, unsigned asked)
{
    bool allows_input = output_allows_input(connection, output);
    if (connection_is(connection, MARK_WAITS | MARK_HELD))
        return false;
    if (connection_is(connection, MARK_MORE) && allows_input &&
        (asked & (ASK_SUSPEND | ASK_STOP)) != ASK_SUSPEND)
        return true;
    return connection_is_stopping(connection, asked) && !connection_is(connection, MARK_GRACE) &&
           (allows_input || !input_queue_is_full(&connection->input));
}

/* Whether a connection that is still coming has something to do. */
static bool coming_wants_run(const struct connection *connection, unsigned asked)
{
    return connection_is(connection, MARK_BROKEN | MARK_LATE) ||
           (asked & (ASK_CLOSE | ASK_END)) != 0 ||
           ((asked & ASK_STOP) != 0 && !connection_is(connection, MARK_GRACE));
}

/* Whether there is something to do that no event will ask for. */
static bool wants_run(const struct connection *connection, enum output_result output,
                      unsigned asked)
{
    if (connection_is_coming(connection))
        return coming_wants_run(connection, asked);
    if (connection_is(connection, MARK_NEW) || (asked & ASK_END) != 0)
        return true;
    if (connection->phase == CONNECTION_LINGERING)
        return false;
    if (output == OUTPUT_BROKEN && !connection_reads_on(connection, asked))
        return true;
    if (connection->phase != CONNECTION_OPEN)
        return false;
    bool closes = (asked & ASK_CLOSE) != 0;
    return (closes ? !connection_is(connection, MARK_BEGUN) : goes_on(connection, output, asked)) ||
           connection_is(connection, MARK_LATE) || connection_has_calls(connection, asked) ||
           ((asked & ASK_FINISH) != 0 && ends_a_half(connection, output));
}

/*
 * Whether to read: not while messages wait that were read before, nor while output is choked. While
 * the handler holds messages they are read as far as there is room, because so we hear that the
 * peer has ended its stream.
 */
static bool wants_read(const struct connection *connection, enum output_result output,
                       unsigned asked)
{
    if (connection_is_coming(connection))
        return connection_part(connection, connection->phase)->wants == SELECT_READ;
    if (connection_drops_input(connection))
        return true;
    bool has_room =
        connection_is(connection, MARK_HELD) && !input_queue_is_full(&connection->input);
    return connection->phase == CONNECTION_OPEN &&
           !connection_is(connection, MARK_INPUT_OVER | (has_room ? 0u : MARK_MORE)) &&
           output_allows_input(connection, output) && (asked & ASK_CLOSE) == 0 &&
           ((asked & ASK_SUSPEND) == 0 || connection_is(connection, MARK_GRACE));
}

/* Whether output waits for the socket, or the socket for its other end. */
static bool wants_write(const struct connection *connection, enum output_result output)
{
    if (connection_is_coming(connection))
        return connection_part(connection, connection->phase)->wants == SELECT_WRITE;
    return output != OUTPUT_FLOWING && output != OUTPUT_BROKEN &&
           !connection_is(connection, MARK_HELD_BACK) && connection->phase != CONNECTION_LINGERING;
}

/* Whether the handler holds messages, and has not heard yet that no more of them come. */
static bool hears_end(const struct connection *connection)
{
    return (connection->marks & (MARK_HELD | MARK_LEFT | MARK_INPUT_OVER)) == MARK_HELD;
}

static_assert((int)CONNECTION_RUN > (int)SELECT_END, "an event cannot be mistaken for it");

/* One that is not as it mostly is. */
static unsigned look_closer(struct connection *connection, unsigned asked)
{
    enum output_result output = output_chain_look(&connection->output);
    if (connection->phase == CONNECTION_ENDED)
        return CONNECTION_OVER;
    connection->marks &= ~(unsigned)MARK_HELD_BACK;
    if (output != OUTPUT_FLOWING)
        connection_count_output(connection, output, clock_ms());
    if (wants_run(connection, output, asked))
        return CONNECTION_RUN;
    bool reads = wants_read(connection, output, asked);
    bool writes = wants_write(connection, output);
    if (reads && connection_is(connection, MARK_RESTS))
        connection_end_rest(connection);
    connection_mark(connection, MARK_RESTS, !reads && !writes);
    if (!reads && !writes && connection_is(connection, MARK_HUNG_UP))
        return SELECT_NOTHING;
    if (!reads && !writes)
        return SELECT_LOSS | (hears_end(connection) ? SELECT_END : SELECT_NOTHING);
    return (reads ? SELECT_READ : SELECT_NOTHING) | (writes ? SELECT_WRITE : SELECT_NOTHING);
}

/* Mostly nothing is asked, nothing is marked, and no output waits or has waited. */
unsigned connection_wants(struct connection *connection)
{
    unsigned asked = atomic_load(&connection->asked);
    if ((asked | connection->marks) == 0 && connection->phase == CONNECTION_OPEN &&
        output_chain_is_calm(&connection->output))
        return SELECT_READ;
    return look_closer(connection, asked);
}
