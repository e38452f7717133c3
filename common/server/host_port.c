#include "common/server/host_port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

/* ---- Taking it apart ------------------------------------------------------------------------ */

struct parts {
    char host[HOST_PORT_SIZE]; /* without brackets */
    char port[sizeof("65535")];
};

/* A name, or an IPv4 address. Whether a name like this exists only a name server can say. */
static bool is_name(const char *host)
{
    static const char bytes[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    return *host != '\0' && host[strspn(host, bytes)] == '\0';
}

/* An address of this machine's network may have the name of an interface behind it: fe80::1%eth0 */
static bool is_ipv6(const char *host)
{
    char address[INET6_ADDRSTRLEN];
    struct in6_addr bits;
    size_t length = strcspn(host, "%");
    if (length >= sizeof(address))
        return false;
    memcpy(address, host, length);
    address[length] = '\0';
    return inet_pton(AF_INET6, address, &bits) == 1 &&
           (host[length] == '\0' || is_name(host + length + 1));
}

static bool is_port(const char *text)
{
    size_t port;
    const struct option option = {.target = &port, .min = 1, .max = 65535};
    return option_parse_number(&option, text);
}

/* Copies a part that fits. */
static bool copy(char *to, size_t size, const char *from, size_t length)
{
    if (length >= size)
        return false;
    memcpy(to, from, length);
    to[length] = '\0';
    return true;
}

/* False: it is no HOST:PORT. */
static bool take_apart(struct parts *parts, const char *text, size_t length)
{
    const char *colon = memrchr(text, ':', length);
    if (colon == NULL || length >= HOST_PORT_SIZE)
        return false;
    size_t host_length = (size_t)(colon - text);
    bool in_brackets = host_length >= 2 && text[0] == '[' && colon[-1] == ']';
    size_t brackets = in_brackets ? 1 : 0;
    return copy(parts->host, sizeof(parts->host), text + brackets, host_length - 2 * brackets) &&
           (in_brackets ? is_ipv6(parts->host) : is_name(parts->host)) &&
           copy(parts->port, sizeof(parts->port), colon + 1, length - host_length - 1) &&
           is_port(parts->port);
}

bool host_port_is_one(const char *text, size_t length)
{
    struct parts parts;
    return take_apart(&parts, text, length);
}

bool host_port_parse(const struct option *option, const char *text)
{
    const char **target = option->target;
    bool is_none = strcmp(text, "none") == 0;
    *target = is_none ? NULL : text;
    return is_none || host_port_is_one(text, strlen(text));
}

/* ---- Its addresses -------------------------------------------------------------------------- */

static int find(const char *text, int flags, struct host_port_addresses *addresses)
{
    const struct addrinfo wanted = {.ai_flags = flags, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    struct parts parts;
    addresses->count = 0;
    if (!take_apart(&parts, text, strlen(text)))
        return EAI_NONAME;
    int error = getaddrinfo(parts.host, parts.port, &wanted, &found);
    if (error != 0)
        return error;
    for (const struct addrinfo *next = found;
         next != NULL && addresses->count < HOST_PORT_ADDRESSES_MAX; next = next->ai_next) {
        struct endpoint *address = &addresses->all[addresses->count++];
        memset(address, 0, sizeof(*address));
        memcpy(&address->address, next->ai_addr, next->ai_addrlen);
        address->length = next->ai_addrlen;
    }
    freeaddrinfo(found);
    return 0;
}

bool host_port_read(const char *text, struct endpoint *address)
{
    struct host_port_addresses found;
    bool is_read = find(text, AI_NUMERICHOST | AI_NUMERICSERV, &found) == 0;
    if (is_read)
        *address = found.all[0];
    return is_read;
}

int host_port_look_up(const char *text, struct host_port_addresses *found)
{
    return find(text, 0, found);
}
