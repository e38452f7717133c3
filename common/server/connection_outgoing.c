/*
 * A connection that we have asked for. The system asks the other side and answers later, so
 * connect(2) returns EINPROGRESS at once, the connection waits until the socket can be written, and
 * SO_ERROR then says what became of it. Java's selector has OP_CONNECT and finishConnect() for
 * these two steps. From then on it is a connection like any other.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"

#include <errno.h>

int64_t connection_connect_until(const struct connection *connection, int64_t now)
{
    int64_t timeout = connection->connect_timeout;
    return timeout != 0 ? deadlines_born(&connection->deadlines, now) + timeout : INT64_MAX;
}

static void give_up(struct connection *connection, int error) NO_LOCK_HELD

{
    connection_count(connection, COUNTER_CONNECTS_FAILED, 1);
    connection_fail(connection, error == ECANCELED ? END_SERVER : END_PEER_LOST);
    connection->life = LIFE_STOPPED;
    input_handler_not_connected(connection->handler, error);
}

/* What became of it: 0, an errno, or EINPROGRESS. */
static int outcome(const struct connection *connection, unsigned asked)
{
    int error;
    if ((asked & (ASK_CLOSE | ASK_STOP | ASK_END)) != 0)
        return ECANCELED;
    if (socket_has_connected(connection->output.fd, &error))
        return error;
    return connection->late != DEADLINE_NONE ? ETIMEDOUT : EINPROGRESS;
}

void connection_finish_connecting(struct connection *connection, unsigned asked)
{
    int error = outcome(connection, asked);
    if (error == EINPROGRESS)
        return; /* a run that came for something else */
    connection->late = DEADLINE_NONE;
    if (error != 0) {
        give_up(connection, error);
    } else {
        connection->phase = CONNECTION_OPEN;
        connection->has_received = true; /* the peer's answer: its idle time begins now */
    }
}
