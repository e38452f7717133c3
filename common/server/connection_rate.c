/*
 * How fast a connection's output leaves at most, which is the gate of its chain (output_rate.c).
 * Step C.32 and stage 5 offer that, so only they link it.
 */
#include "common/bytes/output_parts.h"
#include "common/server/connection_parts.h"
#include "common/server/connection_shared.h"

bool connection_set_write_rate(struct connection *connection, uint64_t rate)
{
    connection_lock_output(connection);
    bool set = output_chain_set_rate(&connection->output, rate);
    connection_unlock_output(connection);
    return set;
}
