/*
 * A connection's bytes: what comes in is queued, or dropped once nobody wants it any more.
 */
#include "common/server/connection_parts.h"

#include <errno.h>

void connection_received(struct connection *connection, size_t received)
{
    connection->marks |= MARK_RECEIVED;
    if (received == 0) {
        connection->marks |= MARK_PEER_ENDED | MARK_INPUT_OVER;
        connection_end_because(connection, END_PEER_CLOSED);
    }
    counters_add(connection_home(connection)->counters, COUNTER_BYTES_IN, received);
}

/*
 * Reads once. False if there was nothing to read. There is room (no ENOBUFS): a connection whose
 * queue is full does not want to read (connection_wants()).
 */
static bool read_once(struct connection *connection)
{
    ssize_t received = input_queue_fill(&connection->input, connection->output.fd);
    if (received >= 0)
        connection_received(connection, (size_t)received);
    else if (errno == EAGAIN)
        return false;
    else if (errno == ENOMEM)
        connection_out_of_memory(connection);
    else
        connection_fail(connection, END_PEER_LOST);
    return true;
}

/*
 * Nobody wants what comes any more. It is read all the same, because a peer whose own output we
 * leave unread may never read what it is to get from us.
 */
bool connection_drops_input(const struct connection *connection)
{
    return connection->phase >= CONNECTION_DRAINING && connection->phase <= CONNECTION_RESETTING &&
           !connection_is(connection, MARK_PEER_ENDED);
}

void connection_dropped(struct connection *connection, enum socket_dropped dropped)
{
    if (dropped == DROPPED_BYTES)
        connection->marks |= MARK_SENDS;
    if (dropped != DROPPED_END)
        return;
    connection->marks |= MARK_PEER_ENDED;
    if (connection->phase == CONNECTION_LINGERING)
        connection->phase = CONNECTION_ENDED;
}

bool connection_receive(struct connection *connection)
{
    if (connection->phase == CONNECTION_OPEN)
        return read_once(connection);
    if (connection->phase == CONNECTION_ARRIVING)
        connection_part(connection, PART_ARRIVING)->receive(connection);
    else if (connection_drops_input(connection))
        connection_dropped(connection, socket_drop(connection->output.fd));
    return true;
}

/*
 * Reads what has arrived and ends input, unless the client has only just come. It asks whether
 * there is something, because stage 1's socket blocks.
 */
void connection_read_the_rest(struct connection *connection)
{
    while (connection->reads_left > 0 &&
           !connection_is(connection, MARK_BROKEN | MARK_INPUT_OVER) &&
           socket_is_readable(connection->output.fd)) {
        if (input_queue_is_full(&connection->input))
            return; /* goes on when there is room: ASK_STOP wants a run until MARK_INPUT_OVER */
        read_once(connection);
        connection->reads_left--;
    }
    connection_mark(connection, MARK_GRACE,
                    connection->reads_left > 0 && connection_is_new(connection));
    if (connection_is(connection, MARK_GRACE | MARK_BROKEN | MARK_INPUT_OVER))
        return;
    connection_end_because(connection, END_SERVER);
    connection->marks |= MARK_INPUT_OVER;
}
