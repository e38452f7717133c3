/*
 * Stands in for common/server/endpoint_peer.c until step C.16: nobody asks who a client is.
 */
#include "common/server/endpoint.h"

void endpoint_of_peer(struct endpoint *endpoint, int fd)
{
    (void)fd;
    *endpoint = (struct endpoint){0};
}

struct short_endpoint endpoint_shorten(const struct endpoint *endpoint)
{
    (void)endpoint;
    return (struct short_endpoint){0};
}

void endpoint_of_short(struct endpoint *endpoint, const struct short_endpoint *from)
{
    (void)from;
    *endpoint = (struct endpoint){0};
}
