#include "common/server/endpoint.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

static bool parse_path(struct endpoint *endpoint, const char *path)
{
    struct sockaddr_un *local = (struct sockaddr_un *)&endpoint->address;
    size_t size = strlen(path) + 1;
    if (size > sizeof(local->sun_path))
        return false;
    local->sun_family = AF_UNIX;
    memcpy(local->sun_path, path, size);
    endpoint->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    return true;
}

bool endpoint_parse(struct endpoint *endpoint, const char *address, unsigned port)
{
    memset(endpoint, 0, sizeof(*endpoint));
    if (address[0] == '/')
        return parse_path(endpoint, address);
    struct sockaddr_in *ipv4 = (struct sockaddr_in *)&endpoint->address;
    if (inet_pton(AF_INET, address, &ipv4->sin_addr) == 1) {
        ipv4->sin_family = AF_INET;
        ipv4->sin_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv4);
        return true;
    }
    struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&endpoint->address;
    if (inet_pton(AF_INET6, address, &ipv6->sin6_addr) == 1) {
        ipv6->sin6_family = AF_INET6;
        ipv6->sin6_port = htons((uint16_t)port);
        endpoint->length = sizeof(*ipv6);
        return true;
    }
    return false;
}

void endpoint_format(const struct endpoint *endpoint, char text[ENDPOINT_TEXT_SIZE])
{
    char address[INET6_ADDRSTRLEN] = "?";
    if (endpoint->address.ss_family == AF_UNIX) {
        snprintf(text, ENDPOINT_TEXT_SIZE, "local");
    } else if (endpoint->address.ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&endpoint->address;
        inet_ntop(AF_INET, &ipv4->sin_addr, address, sizeof(address));
        snprintf(text, ENDPOINT_TEXT_SIZE, "%s:%u", address, (unsigned)ntohs(ipv4->sin_port));
    } else {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&endpoint->address;
        inet_ntop(AF_INET6, &ipv6->sin6_addr, address, sizeof(address));
        snprintf(text, ENDPOINT_TEXT_SIZE, "[%s]:%u", address, (unsigned)ntohs(ipv6->sin6_port));
    }
}

const char *endpoint_path(const struct endpoint *endpoint)
{
    const struct sockaddr_un *local = (const struct sockaddr_un *)&endpoint->address;
    return local->sun_family == AF_UNIX && local->sun_path[0] == '/' ? local->sun_path : NULL;
}

void endpoint_of_peer(struct endpoint *endpoint, int fd)
{
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->length = sizeof(endpoint->address);
    if (getpeername(fd, (struct sockaddr *)&endpoint->address, &endpoint->length) != 0)
        memset(endpoint, 0, sizeof(*endpoint));
}

struct short_endpoint endpoint_shorten(const struct endpoint *endpoint)
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&endpoint->address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&endpoint->address;
    sa_family_t family = endpoint->address.ss_family;
    if (family == AF_INET && endpoint->length == sizeof(*v4))
        return (struct short_endpoint){
            .address.v4 = v4->sin_addr, .port = v4->sin_port, .family = family};
    if (family == AF_INET6 && endpoint->length == sizeof(*v6))
        return (struct short_endpoint){.address.v6 = v6->sin6_addr,
                                       .scope = v6->sin6_scope_id,
                                       .port = v6->sin6_port,
                                       .family = family};
    return (struct short_endpoint){.family = family == AF_UNIX ? AF_UNIX : AF_UNSPEC};
}

void endpoint_of_short(struct endpoint *endpoint, const struct short_endpoint *from)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)&endpoint->address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&endpoint->address;
    memset(endpoint, 0, sizeof(*endpoint));
    if (from->family == AF_INET) {
        *v4 = (struct sockaddr_in){
            .sin_family = AF_INET, .sin_addr = from->address.v4, .sin_port = from->port};
        endpoint->length = sizeof(*v4);
    } else if (from->family == AF_INET6) {
        *v6 = (struct sockaddr_in6){.sin6_family = AF_INET6,
                                    .sin6_addr = from->address.v6,
                                    .sin6_scope_id = from->scope,
                                    .sin6_port = from->port};
        endpoint->length = sizeof(*v6);
    } else if (from->family == AF_UNIX) {
        endpoint->address.ss_family = AF_UNIX;
        endpoint->length = sizeof(endpoint->address.ss_family);
    }
}
