/*
 * A connection that comes through a proxy. Its first bytes are the proxy's, and say whose
 * connection it is (proxy_protocol.h). Until they have come the handler does not know of the
 * connection; then it begins like any other, and connection_peer() names the client.
 */
#include "common/base/clock.h"
#include "common/server/connection_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The proxy, and what has come of its header. */
struct arrival {
    struct short_endpoint proxy;
    struct proxy_header header;
};

void connection_peer(const struct connection *connection, struct endpoint *endpoint)
{
    endpoint_of_short(endpoint, &connection->peer);
}

void connection_peer_so_far(const struct connection *connection, struct endpoint *endpoint)
{
    if (connection->phase == CONNECTION_ARRIVING)
        endpoint_of_short(endpoint, &connection->arrival->proxy);
    else
        connection_peer(connection, endpoint);
}

void connection_expect_header(struct connection *connection)
{
    struct arrival *arrival = calloc(1, sizeof(*arrival));
    if (arrival == NULL)
        connection_out_of_memory(connection);
    else
        arrival->proxy = connection->peer;
    connection->arrival = arrival;
    connection->phase = CONNECTION_ARRIVING;
    deadlines_framed(&connection->deadlines, clock_ms(), true);
}

/* The proxy is to blame, and whoever runs it wants to know why nobody is served. */
static void refuse(struct connection *connection, const char *fault)
{
    struct server *server = connection_server(connection);
    struct endpoint proxy;
    char place[ENDPOINT_TEXT_SIZE];
    connection->broken = true;
    endpoint_of_short(&proxy, &connection->arrival->proxy);
    endpoint_format(&proxy, place);
    log_limited(&server->log, &server->proxy_limit, LOG_LEVEL_WARN,
                "closed a connection of %s: PROXY header: %s", place, fault);
}

/* The header is whole: from now on the connection is its client's. */
static void begin(struct connection *connection)
{
    struct arrival *arrival = connection->arrival;
    connection->peer =
        arrival->header.is_local ? arrival->proxy : endpoint_shorten(&arrival->header.client);
    connection->phase = CONNECTION_OPEN;
    free(arrival);
    deadlines_message(&connection->deadlines);
}

void connection_forget_header(struct connection *connection)
{
    if (connection->phase != CONNECTION_ARRIVING)
        return;
    free(connection->arrival);
    connection->peer = (struct short_endpoint){.family = AF_UNSPEC};
}

size_t connection_give_header(struct connection *connection, const unsigned char *bytes,
                              size_t length)
{
    size_t taken;
    connection->broken |= length == 0;
    if (connection->broken)
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
void connection_read_header(struct connection *connection)
{
    unsigned char bytes[PROXY_HEADER_MAX];
    while (connection->phase == CONNECTION_ARRIVING && !connection->broken) {
        ssize_t received = recv(connection->output.fd, bytes,
                                proxy_header_lacks(&connection->arrival->header), MSG_DONTWAIT);
        if (received < 0) {
            connection->broken = errno != EAGAIN && errno != EINTR;
            return;
        }
        connection_give_header(connection, bytes, (size_t)received);
    }
}
