/*
 * A connection that we have asked for. The system asks the other side and answers later, so
 * connect(2) returns EINPROGRESS at once, the connection waits until the socket can be written, and
 * SO_ERROR then says what became of it. Java's selector has OP_CONNECT and finishConnect() for
 * these two steps. From then on it is a connection like any other.
 */
#include "common/server/connection_parts.h"
#include "common/server/connection_shared.h"

#include <errno.h>

static int64_t until(const struct connection *connection, int64_t now)
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
    if ((asked & (ASK_CLOSE | ASK_END)) == 0 && socket_has_connected(connection->output.fd, &error))
        return error;
    if ((asked & (ASK_CLOSE | ASK_STOP | ASK_END)) != 0)
        return ECANCELED;
    return connection_is(connection, MARK_LATE) ? ETIMEDOUT : EINPROGRESS;
}

/*
 * Looks whether it has connected, or will not: then the handler hears that it never will. A server
 * that stops waits for the answer as it waits for a new client's first message.
 */
static void come(struct connection *connection, unsigned asked) NO_LOCK_HELD
{
    bool has_grace = connection_is(connection, MARK_GRACE);
    int error = outcome(connection, has_grace ? asked & ~(unsigned)ASK_STOP : asked);
    if (error == EINPROGRESS)
        return; /* a run that came for something else */
    connection->marks &= ~(unsigned)MARK_LATE;
    if (error != 0) {
        give_up(connection, error);
    } else {
        connection->begun = NULL; /* the timeout was in its place */
        connection->phase = CONNECTION_OPEN;
        connection->marks |= MARK_RECEIVED; /* the peer's answer: its idle time begins now */
    }
}

static const struct connection_part connecting = {
    .come = come, .until = until, .wants = SELECT_WRITE};

void connection_open_outgoing(struct connection *connection, const struct connection_home *home,
                              int fd, const struct endpoint *to, int64_t timeout,
                              struct input_handler *handler)
{
    connection_begin(connection, home, fd, handler);
    connection_use_part(connection, PART_CONNECTING, &connecting);
    connection->connect_timeout = (uint32_t)timeout;
    connection->peer = endpoint_shorten(to);
    connection->phase = CONNECTION_CONNECTING;
    connection->traits |= TRAIT_OUTGOING;
    connection_count(connection, COUNTER_CONNECTS, 1);
}
