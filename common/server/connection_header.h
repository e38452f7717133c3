/*
 * A connection that comes through a proxy: until its header is here, the handler does not know of
 * it; then others may ask who is behind it.
 *
 * Interface:
 * - As connection.h: the runner's, where nothing else is said.
 */
#ifndef COMMON_CONNECTION_HEADER_H
#define COMMON_CONNECTION_HEADER_H

#include "common/server/connection.h"

/** Its first bytes are a proxy's header, whose time begins. connection_open() calls it. */
void connection_expect_header(struct connection *connection);

/**
 * From now on connection_client_behind() knows clients; without memory it knows none. While options
 * are parsed, before the first connection comes.
 */
void connection_keep_clients(void);

/**
 * *peer is the address of this descriptor's peer. If that is a proxy whose header has named a
 * client, it becomes the client's; else it stays. For who looks on, and knows the descriptor only.
 * Any thread, or a signal handler.
 */
void connection_client_behind(struct endpoint *peer, int fd);

#endif
