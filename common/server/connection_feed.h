/*
 * Input that no socket has read: tests, and the proactor of docs/proactor.md.
 *
 * Interface:
 * - As connection.h: the runner's, in place of connection_receive(). connection_handle() follows.
 */
#ifndef COMMON_CONNECTION_FEED_H
#define COMMON_CONNECTION_FEED_H

#include "common/server/connection.h"

/**
 * Takes a copy of bytes that came from elsewhere, as if they had been read from the socket; length
 * 0: the end of the stream. True also if nobody wants them any more. False if there is no room or
 * memory for all of them: none is queued then, but a proxy's header before them is taken, so they
 * cannot be fed once more.
 */
bool connection_feed(struct connection *connection, const unsigned char *bytes, size_t length);

#endif
