/*
 * A connection that comes through a proxy. Its first bytes are the proxy's, and say whose
 * connection it is (proxy_protocol.h). Until they have come the handler does not know of the
 * connection; then it begins like any other, and channel_peer() names the client.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"
#include "common/server/proxy_protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* What has come of a header. */
struct arrival {
    struct proxy_header header;
};

static const struct connection_part arriving;

void connection_expect_header(struct connection *connection)
{
    connection->arrival = calloc(1, sizeof(*connection->arrival));
    if (connection->arrival == NULL)
        connection_out_of_memory(connection);
    connection_use_part(connection, PART_ARRIVING, &arriving);
    connection->phase = CONNECTION_ARRIVING;
    connection->marks |= MARK_PART;
    deadlines_framed(&connection->deadlines, clock_ms(), true);
}

/* The proxy is to blame, and whoever runs it wants to know why nobody is served. */
static void refuse(struct connection *connection, const char *fault)
{
    struct server *server = connection_server(connection);
    struct endpoint proxy;
    char place[ENDPOINT_TEXT_SIZE];
    connection->marks |= MARK_BROKEN;
    endpoint_of_short(&proxy, &connection->peer);
    endpoint_format(&proxy, place);
    log_limited(&server->log, &server->proxy_limit, LOG_LEVEL_WARN,
                "closed a connection of %s: PROXY header: %s", place, fault);
}

/* The header is whole: from now on the connection is its client's. */
static void begin(struct connection *connection)
{
    struct arrival *arrival = connection->arrival;
    if (!arrival->header.is_local)
        connection->peer = endpoint_shorten(&arrival->header.client);
    connection->begun = NULL; /* the header was in its place */
    connection->phase = CONNECTION_OPEN;
    connection->marks &= ~(unsigned)MARK_PART;
    free(arrival);
    deadlines_message(&connection->deadlines);
}

static void forget(struct connection *connection)
{
    free(connection->arrival);
    connection->arrival = NULL;
}

static size_t take(struct connection *connection, const unsigned char *bytes, size_t length)
{
    size_t taken;
    connection->marks |= length == 0 ? MARK_BROKEN : 0u;
    if (connection_is(connection, MARK_BROKEN))
        return length;
    struct proxy_header *header = &connection->arrival->header;
    deadlines_received(&connection->deadlines, clock_ms());
    switch (proxy_header_take(header, bytes, length, &taken)) {
    case PROXY_HEADER_MORE: break;
    case PROXY_HEADER_DONE: begin(connection); break;
    case PROXY_HEADER_BAD: refuse(connection, header->fault); break;
    }
    return taken;
}

/* One read for the fixed part, which says how long the rest is, and one for the rest. */
static void read_header(struct connection *connection)
{
    unsigned char bytes[PROXY_HEADER_MAX];
    while (connection->phase == CONNECTION_ARRIVING && !connection_is(connection, MARK_BROKEN)) {
        ssize_t received = recv(connection->output.fd, bytes,
                                proxy_header_lacks(&connection->arrival->header), MSG_DONTWAIT);
        if (received < 0) {
            connection->marks |= errno != EAGAIN && errno != EINTR ? MARK_BROKEN : 0u;
            return;
        }
        take(connection, bytes, (size_t)received);
    }
}

/* When the server stops, what has come has to do, unless the client has only just come. */
static void come(struct connection *connection, unsigned asked)
{
    if ((asked & ASK_STOP) == 0)
        return;
    read_header(connection);
    if (connection->phase == CONNECTION_ARRIVING && !connection_is(connection, MARK_GRACE))
        connection->marks |= MARK_BROKEN;
}

static const struct connection_part arriving = {
    .receive = read_header, .give = take, .come = come, .forget = forget, .wants = SELECT_READ};
