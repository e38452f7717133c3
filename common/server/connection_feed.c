/*
 * Input that no socket has read. A program that reads in another way gives a connection its bytes:
 * the exercise in docs/proactor.md, and tests.
 */
#include "common/server/connection_feed.h"
#include "common/bytes/input_queue_more.h"
#include "common/server/connection_parts.h"

bool connection_feed(struct connection *connection, const unsigned char *bytes, size_t length)
{
    if (connection->phase == CONNECTION_ARRIVING) {
        size_t taken = connection_part(connection, PART_ARRIVING)->give(connection, bytes, length);
        bytes += taken;
        length -= taken;
        if (length == 0)
            return true;
    }
    if (length == 0 && connection_drops_input(connection))
        connection_dropped(connection, DROPPED_END);
    if (connection->phase != CONNECTION_OPEN)
        return true; /* nobody wants them any more */
    if (!input_queue_append(&connection->input, bytes, length))
        return false;
    connection_received(connection, length);
    return true;
}
