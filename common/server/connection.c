#include "common/server/connection.h"

#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/server/connection_parts.h"

#include <sys/socket.h>

enum {
    LAST_READS = 16, /* what a stopping server still takes in, in reads */
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
                              int fd, const struct endpoint *to, int64_t timeout,
                              struct input_handler *handler)
{
    begin(connection, home, fd, handler);
    connection->connect_timeout = (uint32_t)timeout;
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
    connection->broken = true;
}

void connection_log_close(const struct connection *connection, const char *why)
{
    struct endpoint peer;
    char place[ENDPOINT_TEXT_SIZE];
    connection_peer_so_far(connection, &peer);
    endpoint_format(&peer, place);
    log_write(&connection_server(connection)->log, LOG_LEVEL_INFO, "closed %s: %s", place, why);
}

void connection_out_of_memory(struct connection *connection)
{
    struct endpoint peer;
    connection_peer_so_far(connection, &peer);
    server_no_memory(connection_server(connection), connection_home(connection)->counters, &peer);
    connection_fail(connection, END_RESOURCES);
}

/* ---- A run --------------------------------------------------------------------------------- */

void connection_look_for_loss(struct connection *connection)
{
    bool over;
    if (socket_is_lost(connection->output.fd, &over))
        connection_fail(connection, END_PEER_LOST);
    connection->hung_up |= over;
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
        (!connection->input_over || connection->more_to_handle))
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

/* It serves another connection, which stops; this one goes on until that has ended. */
static bool outlives_stop(const struct connection *connection)
{
    return connection->outgoing && connection->phase == CONNECTION_OPEN &&
           input_handler_is_duplex(connection->handler);
}

static void look_whether_it_comes(struct connection *connection, unsigned asked) NO_LOCK_HELD
{
    bool stops = (asked & ASK_STOP) != 0;
    connection->in_grace = stops && connection_is_new(connection);
    if (connection->phase == CONNECTION_CONNECTING) {
        connection_finish_connecting(connection,
                                     connection->in_grace ? asked & ~(unsigned)ASK_STOP : asked);
    } else if (stops) {
        connection_read_header(connection);
        connection->broken |= connection->phase == CONNECTION_ARRIVING && !connection->in_grace;
    }
}

void connection_handle_found(struct connection *connection, enum connection_messages how,
                             struct connection_message *found)
{
    unsigned asked = atomic_load(&connection->asked);
    trace_event(TRACE_RUN, connection->output.fd, 0);
    if (connection->rests)
        connection_look_for_loss(connection);
    if (connection_is_coming(connection))
        look_whether_it_comes(connection, asked);
    if ((asked & ASK_STOP) != 0 && outlives_stop(connection)) {
        connection_ask(connection, 0, ASK_STOP);
        connection->in_grace = false;
        asked &= ~(unsigned)ASK_STOP;
    }
    if (connection->phase != CONNECTION_OPEN || connection->broken || (asked & ASK_END) != 0)
        return;
    output_chain_cork(&connection->output);
    if (connection->life < LIFE_STARTED)
        connection_live_to(connection, LIFE_STARTED);
    if (how == HANDLE_MESSAGES) /* one is refused in a thread that must not wait */
        connection_make_calls(connection);
    if (connection->late != DEADLINE_NONE)
        say_late(connection);
    else if (connection_is_stopping(connection, asked))
        connection_read_the_rest(connection);
    if (connection->life == LIFE_STARTED)
        connection_take_turn(connection, how, found);
    if (!connection->broken)
        end_input(connection);
}

void connection_handle(struct connection *connection, enum connection_messages how)
{
    struct connection_message none = {0};
    connection_handle_found(connection, how, &none);
}

/* Whether a server that stops closes without lingering: the peer has all, and sends nothing. */
static bool need_not_linger(struct connection *connection, int64_t now)
{
    return connection_is_asked(connection, ASK_STOP) && connection_is_quiet(connection, now);
}

static void end(struct connection *connection)
{
    connection_forget_header(connection);
    if (connection_is_asked(connection, ASK_RESET))
        socket_reset_on_close(connection->output.fd);
    connection->phase = CONNECTION_ENDED;
}

/*
 * Nobody wants what comes any more. Before a reset it is read all the same, because a peer whose
 * own output we leave unread may never read what it is to get from us.
 */
bool connection_drops_input(const struct connection *connection)
{
    bool resets =
        (connection->phase == CONNECTION_DRAINING || connection->phase == CONNECTION_RESETTING) &&
        connection_is_asked(connection, ASK_RESET) && !connection->end_of_stream;
    return connection->phase == CONNECTION_LINGERING || resets;
}

void connection_end_dropping(struct connection *connection)
{
    connection->end_of_stream = true;
    if (connection->phase == CONNECTION_LINGERING)
        connection->phase = CONNECTION_ENDED;
}

/* All is sent. A reset would destroy what the peer's system does not have yet. */
static void finish_by_reset(struct connection *connection)
{
    connection->phase = CONNECTION_RESETTING;
    if (socket_unacknowledged(connection->output.fd) == 0)
        end(connection);
}

/*
 * All is sent. The peer may be sending still, and the system would answer its next bytes after a
 * close with a reset, which destroys what is still in our send buffer. So the connection lingers:
 * it drops what comes until the peer has closed, too, or for SERVER_LINGER_MS after the peer's
 * system has got all.
 */
static void finish(struct connection *connection)
{
    int64_t now = clock_ms();
    if (connection_is_asked(connection, ASK_RESET)) {
        finish_by_reset(connection);
        return;
    }
    bool more = socket_discard(connection->output.fd);
    if (connection->end_of_stream || !more || need_not_linger(connection, now)) {
        connection->phase = CONNECTION_ENDED;
        return;
    }
    connection->phase = CONNECTION_LINGERING;
    shutdown(connection->output.fd, SHUT_WR);
    deadlines_received(&connection->deadlines, now);
    connection_output_waits(connection, now, true);
}

/* All output has left, and there will be none any more. */
static void finish_output(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN && !connection->output_ended)
        shutdown(connection->output.fd, SHUT_WR);
    connection->output_ended = true;
}

/*
 * Nothing can be sent any more, but what the peer has sent before may still be there. If a handler
 * keeps the two directions apart, it gets that, too, unless it does not read at the moment.
 */
static bool reads_on(const struct connection *connection, unsigned asked)
{
    return connection->phase == CONNECTION_OPEN && !connection->broken && !connection->input_over &&
           (asked & ASK_READ) != 0 && (asked & (ASK_CLOSE | ASK_END)) == 0 &&
           input_handler_is_duplex(connection->handler) &&
           socket_is_readable(connection->output.fd);
}

void connection_send(struct connection *connection)
{
    int64_t now = clock_ms();
    bool partial = connection->phase == CONNECTION_ARRIVING ||
                   (connection->phase == CONNECTION_OPEN && !connection->more_to_handle &&
                    connection_has_input(connection));
    if (connection->has_received)
        deadlines_received(&connection->deadlines, now);
    connection->has_received = false;
    deadlines_framed(&connection->deadlines, now, partial);
    bool sends =
        connection->phase != CONNECTION_LINGERING && connection->phase != CONNECTION_CONNECTING;
    enum output_result output = sends ? connection_send_output(connection, now) : OUTPUT_FLOWING;
    connection_look_at_age(connection, now);
    unsigned asked = atomic_load(&connection->asked);
    bool lost = output == OUTPUT_BROKEN && !reads_on(connection, asked);
    if (lost || connection->broken || (asked & ASK_END) != 0)
        end(connection);
    else if (connection->phase == CONNECTION_DRAINING && output == OUTPUT_FLOWING)
        finish(connection);
    else if ((asked & ASK_FINISH) != 0 && output == OUTPUT_FLOWING)
        finish_output(connection);
    if (connection->phase == CONNECTION_ENDED)
        connection_live_to(connection, LIFE_STOPPED);
    trace_event(TRACE_RUN_DONE, connection->output.fd, 0);
}

/* ---- Between runs -------------------------------------------------------------------------- */

bool connection_is_urgent(struct connection *connection)
{
    return connection->phase == CONNECTION_OPEN && connection->life == LIFE_STARTED &&
           connection_has_input(connection) &&
           input_handler_is_urgent(connection->handler, &connection->facade);
}

bool connection_must_run(const struct connection *connection)
{
    return connection->outgoing || connection->life < LIFE_STARTED ||
           connection->phase != CONNECTION_OPEN || connection->late != DEADLINE_NONE ||
           connection_has_calls(connection) ||
           connection_is_asked(connection, ASK_CLOSE | ASK_STOP | ASK_END);
}

/*
 * Once the output is to end: whether to end it now, because it has left; or the connection, of
 * which the other half has ended before.
 */
static bool ends_a_half(const struct connection *connection, enum output_result output)
{
    return (connection->life == LIFE_END_OF_INPUT && connection->begun == NULL) ||
           (output == OUTPUT_FLOWING && !connection->output_ended);
}

/* Whether a run would read, or handle, some of what had arrived when the server was to stop. */
static bool goes_on_stopping(const struct connection *connection, enum output_result output,
                             unsigned asked)
{
    return connection_is_stopping(connection, asked) && !connection->in_grace &&
           !connection_waits_for_task(connection) &&
           (connection_is_free(connection, output) || !input_queue_is_full(&connection->input));
}

/* Whether there is something to do that no event will ask for. */
static bool wants_run(const struct connection *connection, enum output_result output,
                      unsigned asked)
{
    if (connection_is_coming(connection))
        return connection->broken || connection->late != DEADLINE_NONE ||
               (asked & (ASK_CLOSE | ASK_END)) != 0 ||
               ((asked & ASK_STOP) != 0 && !connection->in_grace);
    if (connection->life < LIFE_STARTED || (asked & ASK_END) != 0)
        return true;
    if (connection->phase == CONNECTION_LINGERING)
        return false;
    if (output == OUTPUT_BROKEN && !reads_on(connection, asked))
        return true;
    if (connection->phase != CONNECTION_OPEN)
        return false;
    bool closes = (asked & ASK_CLOSE) != 0;
    bool goes_on = !closes && connection->more_to_handle &&
                   connection_is_free(connection, output) && (asked & (ASK_READ | ASK_STOP)) != 0 &&
                   !connection_waits_for_task(connection);
    return goes_on || (closes && connection->begun == NULL) ||
           (!closes && goes_on_stopping(connection, output, asked)) ||
           connection->late != DEADLINE_NONE || connection_has_calls(connection) ||
           ((asked & ASK_FINISH) != 0 && ends_a_half(connection, output));
}

/* Whether to read: not while messages wait that were read before, nor while output is choked. */
static bool wants_read(const struct connection *connection, enum output_result output,
                       unsigned asked)
{
    if (connection->phase == CONNECTION_ARRIVING || connection_drops_input(connection))
        return true;
    return connection->phase == CONNECTION_OPEN && !connection->input_over &&
           !connection->more_to_handle && connection_is_free(connection, output) &&
           (asked & ASK_CLOSE) == 0 && ((asked & ASK_READ) != 0 || connection->in_grace);
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
    bool reads = wants_read(connection, output, asked);
    bool writes = connection->phase == CONNECTION_CONNECTING ||
                  (output != OUTPUT_FLOWING && output != OUTPUT_BROKEN && !connection->held_back &&
                   connection->phase != CONNECTION_LINGERING);
    if (connection->rests && reads)
        connection_end_rest(connection);
    connection->rests = !reads && !writes;
    if (connection->rests)
        return connection->hung_up ? SELECT_NOTHING : SELECT_LOSS;
    return (reads ? SELECT_READ : SELECT_NOTHING) | (writes ? SELECT_WRITE : SELECT_NOTHING);
}
