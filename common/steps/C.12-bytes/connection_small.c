/*
 * Stands in for common/server/connection*.c until steps C.12 to C.16: what was in server.c until
 * now, and no more. A handler hears nothing of its life.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"

#include <sys/socket.h>

enum { MESSAGES_PER_TURN = 64 };

/* ---- Beginning and end ----------------------------------------------------------------------- */

void connection_open(struct connection *connection, const struct connection_home *home, int fd,
                     struct input_handler *handler)
{
    *connection = (struct connection){.facade.verbs = &connection_facade_verbs,
                                      .handler = handler,
                                      .traits = (uint8_t)input_handler_traits(handler),
                                      .phase = CONNECTION_OPEN};
    input_queue_init(&connection->input, NULL,
                     line_framing_input_limit(home->server->settings.max_line));
    output_chain_init(&connection->output, &home->output, fd);
    deadlines_start(&connection->deadlines, clock_ms());
}

int connection_detach(struct connection *connection)
{
    output_chain_close(&connection->output);
    input_queue_clear(&connection->input);
    return connection->output.fd;
}

/* ---- What is asked of it, and why it ends ---------------------------------------------------- */

void connection_set_handler(struct connection *connection, struct input_handler *handler)
{
    connection->handler = handler;
    connection->traits = (uint8_t)input_handler_traits(handler);
}

bool connection_ask(struct connection *connection, unsigned set, unsigned reset)
{
    unsigned char before = connection->asked;
    connection->asked = (unsigned char)((before | set) & ~reset);
    return connection->asked != before;
}

void connection_end_because(struct connection *connection, enum end_reason reason)
{
    if (connection->end_reason == END_NONE)
        connection->end_reason = (unsigned char)reason;
}

void connection_fail(struct connection *connection, enum end_reason reason)
{
    connection_end_because(connection, reason);
    connection->marks |= MARK_BROKEN;
}

void connection_out_of_memory(struct connection *connection)
{
    connection_fail(connection, END_RESOURCES);
}

bool connection_is_new(const struct connection *connection)
{
    return connection_is(connection, MARK_SILENT);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Holds the answers back until the end of the run, unless a message came alone. */
static void hand_over(struct connection *connection, struct run *run,
                      struct message message) NO_LOCK_HELD
{
    bool alone = input_queue_is_empty(&connection->input);
    deadlines_message(&connection->deadlines);
    if (!run->corks && !(alone && (connection->traits & TRAIT_ONE_PIECE) != 0)) {
        run->corks = true;
        output_chain_cork(&connection->output);
    }
    if (!input_handler_handle_input(connection->handler, message, &connection->facade))
        channel_close(&connection->facade);
}

void connection_handle(struct connection *connection, struct run *run, enum connection_messages how)
{
    struct message message;
    int messages = MESSAGES_PER_TURN;
    enum framing_result found;
    if (connection->phase != CONNECTION_OPEN || how != HANDLE_MESSAGES ||
        output_chain_look(&connection->output) >= OUTPUT_CHOKED)
        return;
    do {
        found = input_handler_next_message(connection->handler, &connection->facade, &message);
        if (found == FRAMING_MESSAGE)
            hand_over(connection, run, message);
    } while (found == FRAMING_MESSAGE && !connection_is_asked(connection, ASK_CLOSE) &&
             --messages > 0);
    input_queue_retire(&connection->input);
    connection->marks &= ~(unsigned)(MARK_MORE | MARK_PART);
    if (!input_queue_is_empty(&connection->input))
        connection->marks |= found == FRAMING_MESSAGE ? MARK_MORE : MARK_PART;
    if (found == FRAMING_TOO_LONG || connection_is_asked(connection, ASK_CLOSE) ||
        (connection->marks & (MARK_INPUT_OVER | MARK_MORE)) == MARK_INPUT_OVER)
        connection->phase = CONNECTION_DRAINING;
}

/* How it goes on: it ends, or it has sent all and waits for the peer's end. */
static void decide(struct connection *connection, enum output_result output, int64_t now)
{
    if (output == OUTPUT_BROKEN || connection_is(connection, MARK_BROKEN) ||
        connection_is_asked(connection, ASK_END))
        connection->phase = CONNECTION_ENDED;
    if (connection->phase < CONNECTION_DRAINING || output != OUTPUT_FLOWING)
        return;
    if (connection->phase == CONNECTION_DRAINING) {
        shutdown(connection->output.fd, SHUT_WR);
        deadlines_received(&connection->deadlines, now);
        connection->phase = CONNECTION_LINGERING;
    }
    if (connection_is(connection, MARK_PEER_ENDED))
        connection->phase = CONNECTION_ENDED;
}

void connection_send(struct connection *connection, struct run *run)
{
    enum output_result output = output_chain_uncork(&connection->output);
    run->now = clock_ms();
    deadlines_ran(&connection->deadlines, run->now, connection_is(connection, MARK_RECEIVED),
                  connection_is(connection, MARK_PART),
                  output_chain_newly_sent(&connection->output));
    deadlines_output(&connection->deadlines, run->now, output != OUTPUT_FLOWING);
    connection->marks &= ~(unsigned)MARK_RECEIVED;
    decide(connection, output, run->now);
}

/* ---- Between runs ---------------------------------------------------------------------------- */

unsigned connection_wants(struct connection *connection)
{
    enum output_result output = output_chain_look(&connection->output);
    bool open = connection->phase == CONNECTION_OPEN;
    bool more = open && connection_is(connection, MARK_MORE | MARK_INPUT_OVER);
    if (connection_is_over(connection))
        return CONNECTION_OVER;
    if (more && output < OUTPUT_CHOKED)
        return CONNECTION_RUN;
    bool reads =
        !connection_is(connection, MARK_PEER_ENDED) && (!open || (!more && output < OUTPUT_CHOKED));
    return (reads ? SELECT_READ : 0u) | (output != OUTPUT_FLOWING ? SELECT_WRITE : 0u);
}

int64_t connection_deadline(struct connection *connection, int64_t now)
{
    return connection->phase == CONNECTION_LINGERING
               ? deadlines_active(&connection->deadlines, now) + SERVER_LINGER_MS
               : deadlines_next(&connection->deadlines,
                                &connection_server(connection)->settings.deadlines, now);
}

/* A client that reads is not idle, even if the socket has been full for it all the time. */
bool connection_expire(struct connection *connection, int64_t now)
{
    int fd = connection->output.fd;
    if (deadlines_acknowledged(&connection->deadlines, now, socket_unacknowledged(fd)))
        deadlines_moved(&connection->deadlines, now - socket_send_age(fd));
    bool is_late = connection_deadline(connection, now) <= now;
    if (is_late)
        atomic_fetch_or(&connection->asked, ASK_END);
    return is_late;
}
