/*
 * Stands in for connection_shared.c, until step 4.5: others may send to a connection, and what they
 * send leaves at once.
 */
#include "common/server/connection_parts.h"
#include "common/server/connection_shared.h"

void connection_share(struct connection_home *home, const struct connection_sharing *sharing)
{
    home->sharing = sharing;
}

enum output_result connection_enqueue(struct connection *connection, struct piece piece)
{
    connection_lock_output(connection);
    enum output_result result = output_chain_enqueue(&connection->output, piece);
    connection_unlock_output(connection);
    return result;
}

enum output_result connection_shared_flush(struct channel_facade *facade)
{
    struct connection *connection = connection_of(facade);
    connection_lock_output(connection);
    enum output_result result = output_chain_flush(&connection->output);
    connection_unlock_output(connection);
    return result;
}
