/*
 * A connection that comes through a proxy. Its first bytes are the proxy's, and say whose
 * connection it is (proxy_protocol.h). Until they have come the handler does not know of the
 * connection; then it begins like any other, and channel_peer() names the client.
 */
#include "common/server/connection_header.h"
#include "common/base/clock.h"
#include "common/server/connection_parts.h"
#include "common/server/proxy_protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* What has come of a header. */
struct arrival {
    struct proxy_header header;
};

static const struct connection_part arriving;

/* ---- Who is behind a proxy's connection ----------------------------------------------------- */

enum {
    MAX_DESCRIPTORS = 1 << 20, /* whose clients are kept */
    WORDS = sizeof(struct short_endpoint) / sizeof(uint64_t),
};

_Static_assert(sizeof(struct short_endpoint) == WORDS * sizeof(uint64_t),
               "an address is whole words");

/*
 * The proxy's address and port tell whether an entry is that of the connection which the descriptor
 * has now. Its words are zero while the client's are written.
 */
struct behind {
    _Atomic uint64_t proxy[WORDS];
    _Atomic uint64_t client[WORDS];
};

static struct behind *behind; /* for each descriptor */
static size_t behind_count;

void connection_keep_clients(void)
{
    struct rlimit limit = {.rlim_max = 256};
    if (behind != NULL)
        return;
    getrlimit(RLIMIT_NOFILE, &limit);
    behind_count = limit.rlim_max < MAX_DESCRIPTORS ? (size_t)limit.rlim_max : MAX_DESCRIPTORS;
    behind = calloc(behind_count, sizeof(*behind));
}

static void put_words(_Atomic uint64_t to[WORDS], const struct short_endpoint *from)
{
    uint64_t words[WORDS];
    memcpy(words, from, sizeof(words));
    for (size_t i = 0; i < WORDS; i++)
        atomic_store(&to[i], words[i]);
}

static void get_words(struct short_endpoint *to, const _Atomic uint64_t from[WORDS])
{
    uint64_t words[WORDS] = {0};
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load(&from[i]);
    memcpy(to, words, sizeof(words));
}

static struct behind *behind_of(int fd)
{
    return behind != NULL && (size_t)fd < behind_count ? &behind[fd] : NULL;
}

static void keep_client(int fd, const struct short_endpoint *proxy,
                        const struct short_endpoint *client)
{
    static const struct short_endpoint nobody;
    struct behind *entry = behind_of(fd);
    if (entry == NULL)
        return;
    put_words(entry->proxy, &nobody);
    put_words(entry->client, client);
    put_words(entry->proxy, proxy);
}

static bool is_same(const struct short_endpoint *a, const struct short_endpoint *b)
{
    return a->family == b->family && a->port == b->port &&
           (a->family == AF_INET
                ? a->address.v4.s_addr == b->address.v4.s_addr
                : memcmp(&a->address.v6, &b->address.v6, sizeof(a->address.v6)) == 0);
}

void connection_client_behind(struct endpoint *peer, int fd)
{
    struct short_endpoint now = endpoint_shorten(peer);
    struct short_endpoint proxy, client, still;
    struct behind *entry = behind_of(fd);
    if (entry == NULL)
        return;
    get_words(&proxy, entry->proxy);
    get_words(&client, entry->client);
    get_words(&still, entry->proxy);
    if (is_same(&proxy, &now) && is_same(&still, &now))
        endpoint_of_short(peer, &client);
}

/* ---- The header ------------------------------------------------------------------------------ */

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
                "event=closed peer=%s fd=%d reason=\"PROXY header: %s\"", place,
                connection->output.fd, fault);
}

/* The header is whole: from now on the connection is its client's. */
static void begin(struct connection *connection)
{
    struct arrival *arrival = connection->arrival;
    struct short_endpoint proxy = connection->peer;
    if (!arrival->header.is_local)
        connection->peer = endpoint_shorten(&arrival->header.client);
    keep_client(connection->output.fd, &proxy, &connection->peer);
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
