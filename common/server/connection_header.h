/*
 * A connection that comes through a proxy, whose handler does not know of it yet.
 *
 * Interface:
 * - As connection.h: the runner's, where nothing else is said.
 */
#ifndef COMMON_CONNECTION_HEADER_H
#define COMMON_CONNECTION_HEADER_H

#include "common/server/connection.h"

/** Its first bytes are a proxy's header, whose time begins. */
void connection_expect_header(struct connection *connection);

/** From now on connection_client_behind() knows clients. Before the first connection comes. */
void connection_keep_clients(void);

/**
 * If a proxy's header has named the client of this descriptor's connection, peer becomes its
 * address. For who looks on, and knows the descriptor only. Any thread, or a signal handler.
 */
void connection_client_behind(struct endpoint *peer, int fd);

#endif
