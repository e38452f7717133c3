/*
 * Sockets in the file system (unix(7)): a server for clients on its own machine, as a proxy or a
 * container is. What is different from TCP is the file, which outlives a server that was killed.
 */
#ifndef COMMON_SOCKET_LOCAL_H
#define COMMON_SOCKET_LOCAL_H

#include "common/server/endpoint.h"

/**
 * bind(2). The file of a server that has ended without removing it is replaced; where a server
 * listens, or where there is another kind of file, it is EADDRINUSE. 0, or -1 with errno.
 */
int socket_bind(int fd, const struct endpoint *endpoint);

/** Removes the file of a listener; of an IP address there is none. */
void socket_remove(const struct endpoint *endpoint);

#endif
