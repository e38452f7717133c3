/*
 * Stands in for common/server/socket_local.c until step C.13: there are no sockets in the file
 * system.
 */
#include "common/server/socket_local.h"

int socket_bind(int fd, const struct endpoint *endpoint)
{
    return bind(fd, (const struct sockaddr *)&endpoint->address, endpoint->length);
}

void socket_remove(const struct endpoint *endpoint)
{
    (void)endpoint;
}
