/*
 * Who is at the other end of a connection, and the short form in which each connection keeps that:
 * apart from what addresses look like as text.
 */
#include "common/server/endpoint.h"

#include <string.h>

/*
 * getpeername(2) knows nobody once the peer has reset, but that peer is just the one that the log
 * has to name. Linux still has its address; the length has to be that of the address's kind.
 */
static bool find_reset_peer(struct endpoint *endpoint, int fd)
{
#ifdef SO_PEERNAME
    static const socklen_t lengths[] = {sizeof(struct sockaddr_in6), sizeof(struct sockaddr_in)};
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        endpoint->length = lengths[i];
        if (getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &endpoint->address, &endpoint->length) == 0)
            return true;
    }
#else
    (void)endpoint;
    (void)fd;
#endif
    return false;
}

void endpoint_of_peer(struct endpoint *endpoint, int fd)
{
    memset(endpoint, 0, sizeof(*endpoint));
    endpoint->length = sizeof(endpoint->address);
    if (getpeername(fd, (struct sockaddr *)&endpoint->address, &endpoint->length) != 0 &&
        !find_reset_peer(endpoint, fd))
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
