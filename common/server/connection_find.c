/*
 * What a stage asks of a connection for which one thread looks for messages and another one handles
 * them.
 */
#include "common/server/connection_find.h"
#include "common/server/connection_parts.h"

/*
 * Too long, or out of memory, is kept as well: asked again, the handler would say so again. Of an
 * ordinary connection we know that it takes a message.
 */
bool connection_find(struct connection *connection, struct connection_message *found)
{
    *found = (struct connection_message){0};
    if (!connection_is_ordinary(connection)) {
        unsigned asked = atomic_load(&connection->asked);
        if (connection->phase != CONNECTION_OPEN || connection_is(connection, MARK_LATE | MARK_NEW))
            return false;
        if (connection_has_calls(connection, asked))
            return true;
        if (connection_is_stopping(connection, asked))
            connection_read_the_rest(connection);
        if (!connection_takes_message(connection))
            return false;
    }
    if ((connection->traits & TRAIT_CONTINUES) != 0 && connection_is(connection, MARK_MORE))
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

bool connection_is_urgent(struct connection *connection)
{
    return connection->phase == CONNECTION_OPEN && connection->life == LIFE_STARTED &&
           connection_has_input(connection) &&
           input_handler_is_urgent(connection->handler, &connection->facade);
}

bool connection_must_run(const struct connection *connection)
{
    if ((connection->traits & TRAIT_OUTGOING) != 0)
        return true;
    if (connection_is_ordinary(connection))
        return false;
    unsigned asked = atomic_load(&connection->asked);
    return connection->phase != CONNECTION_OPEN ||
           connection_is(connection, MARK_NEW | MARK_LATE) ||
           (asked & (ASK_CLOSE | ASK_STOP | ASK_END)) != 0 ||
           connection_has_calls(connection, asked);
}
