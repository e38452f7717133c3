/*
 * Stands in for common/server/connection_times.c until step C.16: one look at the limits, and a
 * connection that is late ends.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"

bool connection_is_new(const struct connection *connection)
{
    return connection_is(connection, MARK_SILENT);
}

bool connection_is_quiet(struct connection *connection, int64_t now)
{
    return now >= deadlines_active(&connection->deadlines, now) + SERVER_QUIET_MS;
}

void connection_end_rest(struct connection *connection)
{
    deadlines_restart_input(&connection->deadlines, clock_ms());
}

void connection_output_waits(struct connection *connection, int64_t now, bool waits)
{
    deadlines_output(&connection->deadlines, now, waits);
}

void connection_look_at_age(struct connection *connection, int64_t now)
{
    connection_expire(connection, now);
}

int64_t connection_deadline(struct connection *connection, int64_t now)
{
    connection->marks &= ~(unsigned)MARK_CLOCK;
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
        connection_ask(connection, ASK_END, 0);
    return is_late;
}
