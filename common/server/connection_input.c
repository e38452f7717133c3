/*
 * A connection's input: bytes that have come, the messages in them, and the handler's calls for
 * these, a turn's worth in one run.
 */
#include "common/server/burst.h"
#include "common/server/connection_parts.h"

#include <errno.h>

enum {
    MESSAGES_PER_TURN = 64, /* then the other connections get their turn */
};

/* ---- Bytes --------------------------------------------------------------------------------- */

/* Bytes have come, or none: the end of the stream. */
static void count_received(struct connection *connection, size_t received)
{
    connection->has_received = true;
    if (received == 0) {
        connection->end_of_stream = connection->input_over = true;
        connection_end_because(connection, END_PEER_CLOSED);
    }
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

/*
 * The server is stopping: reads what has arrived already, and nothing that comes later, unless the
 * client has only just come. A blocking socket is not read before something is there.
 */
void connection_read_the_rest(struct connection *connection)
{
    while (connection->reads_left > 0 && !connection->broken && !connection->input_over &&
           socket_is_readable(connection->output.fd)) {
        if (input_queue_is_full(&connection->input))
            return; /* goes on when there is room: ASK_STOP wants a run until input_over */
        read_once(connection);
        connection->reads_left--;
    }
    connection->in_grace = connection->reads_left > 0 && connection_is_new(connection);
    if (connection->in_grace || connection->broken || connection->input_over)
        return;
    connection_end_because(connection, END_SERVER);
    connection->input_over = true;
}

void connection_receive(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN)
        read_once(connection);
    else if (connection->phase == CONNECTION_ARRIVING)
        connection_read_header(connection);
    else if (connection_drops_input(connection) && !socket_drop(connection->output.fd))
        connection_end_dropping(connection);
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

/* Whether the handler is to get one more message in this run. */
static bool takes_message(const struct connection *connection)
{
    unsigned asked = atomic_load(&connection->asked);
    return !connection->broken && (asked & (ASK_CLOSE | ASK_END)) == 0 &&
           (asked & (ASK_READ | ASK_STOP)) != 0 && !connection_waits_for_task(connection) &&
           connection_is_free(connection, output_chain_look(&connection->output));
}

/* Too long, or out of memory, is kept as well: asked again, the handler would say so again. */
bool connection_find(struct connection *connection, struct connection_message *found)
{
    *found = (struct connection_message){0};
    if (connection->phase != CONNECTION_OPEN || connection->late != DEADLINE_NONE ||
        connection->life < LIFE_STARTED)
        return false;
    if (connection_has_calls(connection))
        return true;
    if (connection_is_stopping(connection, atomic_load(&connection->asked)))
        connection_read_the_rest(connection);
    if (!takes_message(connection))
        return false;
    if (connection->more_to_handle && input_handler_continues_output(connection->handler))
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

/*
 * A message that came alone, with an answer of one piece: no other reply will leave with it, so it
 * need not be copied to wait for one.
 */
static bool is_answered_alone(const struct connection *connection, bool first) NO_LOCK_HELD
{
    return first && !connection_has_input(connection) &&
           input_handler_answers_in_one_piece(connection->handler);
}

/* What is queued still leaves, and what has been read is dropped: as channel_close(). */
static void close_because(struct connection *connection, enum end_reason reason)
{
    connection_end_because(connection, reason);
    connection_ask(connection, ASK_CLOSE, 0);
}

static void treat(struct connection *connection, enum connection_messages how,
                  struct message message, bool first) NO_LOCK_HELD
{
    if (is_answered_alone(connection, first))
        output_chain_lift_cork(&connection->output);
    connection_count(connection, COUNTER_MESSAGES, 1);
    connection->has_spoken = true;
    connection->in_grace = false;
    deadlines_message(&connection->deadlines);
    if (burst_own != NULL)
        burst_next(burst_own, connection_has_input(connection));
    struct channel_facade *facade = &connection->facade;
    if (how == HANDLE_MESSAGES && !input_handler_handle_input(connection->handler, message, facade))
        close_because(connection, END_CLOSED);
    else if (how == REFUSE_MESSAGE)
        input_handler_refuse_input(connection->handler, message, facade);
}

/* No further message can be found, now or later. */
static void end_too_long(struct connection *connection)
{
    connection_count(connection, COUNTER_TOO_LONG, 1);
    connection_log_close(connection, end_reason_text(END_TOO_LONG));
    close_because(connection, END_TOO_LONG);
}

/* There is no whole message. If there is no room for the rest of one either, none will ever come.
 */
static void look_for_room(struct connection *connection)
{
    if (input_queue_is_full(&connection->input))
        end_too_long(connection);
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
        return !input_queue_retire(&connection->input) ||
               input_handler_continues_output(connection->handler) ||
               input_handler_holds_input(connection->handler);
    case FRAMING_TOO_LONG: end_too_long(connection); break;
    case FRAMING_NO_MEMORY: connection_out_of_memory(connection); break;
    case FRAMING_INCOMPLETE: look_for_room(connection); break;
    }
    return false;
}

/*
 * The connection's other calls: the timers that are due, `drained`, and what was posted. A timer
 * that is set is looked at in each run, because the run may have come for an event.
 */
void connection_make_calls(struct connection *connection) NO_LOCK_HELD
{
    if (connection->timers.first != NULL)
        connection_fire_timers(connection);
    if (!connection->broken && output_chain_take_drained(&connection->output))
        input_handler_drained(connection->handler, &connection->facade);
    if (!connection->broken && atomic_load(&connection->posts) != NULL)
        connection_run_posts(connection);
}

/*
 * A turn: messages, up to a limit. A long answer goes on before the next message. What is left may
 * be bytes, or such an answer.
 */
void connection_take_turn(struct connection *connection, enum connection_messages how,
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
    connection->more_to_handle = more && (input_handler_continues_output(connection->handler) ||
                                          connection_has_input(connection));
}
