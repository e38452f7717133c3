/*
 * Input that no socket has read: tests, and the proactor of docs/proactor.md.
 *
 * Interface:
 * - As connection.h: the runner's.
 */
#ifndef COMMON_CONNECTION_FEED_H
#define COMMON_CONNECTION_FEED_H

#include "common/server/connection.h"

/**
 * Takes bytes that came from elsewhere, as if they had been read from the socket. No bytes are the
 * end of the stream. False if there is no room for all of them now: none is taken then.
 */
bool connection_feed(struct connection *connection, const unsigned char *bytes, size_t length);

#endif
