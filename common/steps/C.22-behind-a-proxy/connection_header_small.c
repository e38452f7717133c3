/*
 * Stands in for common/server/connection_header.c until step C.23: a header that does not come in
 * one piece is taken for a wrong one, and nobody can ask later who is behind a descriptor.
 */
#include "common/server/connection_parts.h"
#include "common/server/proxy_protocol.h"
#include "common/server/connection_header.h"

#include <errno.h>
#include <sys/socket.h>

/* The header is whole: from now on the connection is its client's. */
static void begin(struct connection *connection, const struct proxy_header *header)
{
    if (!header->is_local)
        connection->peer = endpoint_shorten(&header->client);
    connection->phase = CONNECTION_OPEN;
    connection->marks &= ~(unsigned)MARK_PART;
    deadlines_message(&connection->deadlines);
}

/* Looks at what is there, and takes no byte of the client's. */
static void read_header(struct connection *connection)
{
    struct proxy_header header = {0};
    unsigned char bytes[PROXY_HEADER_MAX];
    size_t taken = 0;
    ssize_t length =
        recv(connection->output.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
    if (length < 0 && errno == EAGAIN)
        return;
    if (length > 0 &&
        proxy_header_take(&header, bytes, (size_t)length, &taken) == PROXY_HEADER_DONE &&
        recv(connection->output.fd, bytes, taken, 0) == (ssize_t)taken)
        begin(connection, &header);
    else
        connection->marks |= MARK_BROKEN;
}

static void come(struct connection *connection, unsigned asked)
{
    connection->marks |= (asked & ASK_STOP) != 0 ? MARK_BROKEN : 0u;
}

static const struct connection_part arriving = {
    .receive = read_header, .come = come, .wants = SELECT_READ};

void connection_expect_header(struct connection *connection)
{
    connection_use_part(connection, PART_ARRIVING, &arriving);
    connection->phase = CONNECTION_ARRIVING;
    connection->marks |= MARK_PART;
    deadlines_framed(&connection->deadlines, clock_ms(), true);
}

void connection_keep_clients(void)
{
}

void connection_client_behind(struct endpoint *peer, int fd)
{
    (void)peer;
    (void)fd;
}
