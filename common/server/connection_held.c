/*
 * What a connection holds, for the gauges (watch.h).
 */
#include "common/server/connection_parts.h"
#include "common/server/connection_shared.h"

uint64_t connection_output_held(const struct connection *connection)
{
    connection_lock_output(connection);
    uint64_t length = output_chain_length(&connection->output);
    connection_unlock_output(connection);
    return length;
}
