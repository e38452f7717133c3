#include "common/server/host_port.h"

#include <netdb.h>
#include <string.h>

/* The colon between host and port; the host may be an IPv6 address in brackets. NULL: none. */
static const char *colon_of(const char *text, size_t length)
{
    const char *colon = memrchr(text, ':', length);
    bool has_host = colon != NULL && colon > text;
    bool is_bare_ipv6 = has_host && *text != '[' && memchr(text, ':', length) != colon;
    return has_host && !is_bare_ipv6 ? colon : NULL;
}

bool host_port_is_one(const char *text, size_t length)
{
    char port[8] = "";
    size_t number;
    const struct option option = {.target = &number, .min = 1, .max = 65535};
    const char *colon = colon_of(text, length);
    if (colon == NULL || length >= HOST_PORT_SIZE)
        return false;
    size_t digits = (size_t)(text + length - colon) - 1;
    if (digits >= sizeof(port))
        return false;
    memcpy(port, colon + 1, digits);
    return option_parse_number(&option, port);
}

bool host_port_parse(const struct option *option, const char *text)
{
    const char **target = option->target;
    bool is_none = strcmp(text, "none") == 0;
    *target = is_none ? NULL : text;
    return is_none || host_port_is_one(text, strlen(text));
}

static int find(const char *text, int flags, struct endpoint *address)
{
    char host[HOST_PORT_SIZE];
    const struct addrinfo wanted = {.ai_flags = flags, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    const char *colon = strrchr(text, ':');
    bool in_brackets = text[0] == '[';
    size_t length = (size_t)(colon - text) - (in_brackets ? 2 : 0);
    memcpy(host, text + (in_brackets ? 1 : 0), length);
    host[length] = '\0';
    int error = getaddrinfo(host, colon + 1, &wanted, &found);
    if (error != 0)
        return error;
    memcpy(&address->address, found->ai_addr, found->ai_addrlen);
    address->length = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

bool host_port_read(const char *text, struct endpoint *address)
{
    return find(text, AI_NUMERICHOST | AI_NUMERICSERV, address) == 0;
}

int host_port_look_up(const char *text, struct endpoint *address)
{
    return find(text, 0, address);
}
