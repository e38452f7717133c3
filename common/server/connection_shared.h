/*
 * What only stages 4 and 5, and C.32, call of a connection: others send to it as well, in any
 * thread, and we may have asked for it. But for what is said here it is as in connection.h.
 */
#ifndef COMMON_CONNECTION_SHARED_H
#define COMMON_CONNECTION_SHARED_H

#include "common/server/connection.h"

/** Lets other threads send to all connections of that home. Before the first one. */
void connection_share(struct connection_home *home, const struct connection_sharing *sharing);

/** Output, as the facade's verbs want it, of a connection of such a home. Any thread. */
enum output_result connection_enqueue(struct connection *connection, struct piece piece);

/** Drains what a burst (burst.h) holds back here. Any thread. */
enum output_result connection_release_output(struct connection *connection);

/** As channel_flush(). */
enum output_result connection_shared_flush(struct channel_facade *facade);

/** Bytes that wait to be sent. Any thread, if the connection is shared. */
uint64_t connection_output_held(const struct connection *connection);

/** Limits how fast output leaves, in bytes per second; 0: no limit. False without memory.
 * (connection_rate.c) */
bool connection_set_write_rate(struct connection *connection, uint64_t rate);

/**
 * Begins with a socket that is connecting (socket_connect()), which the connection owns from now
 * on. It calls the handler only when the socket has connected, or has failed to, which it also has
 * after so many milliseconds; 0: when the system says so. (connection_outgoing.c)
 */
void connection_open_outgoing(struct connection *connection, const struct connection_home *home,
                              int fd, const struct endpoint *to, int64_t timeout,
                              struct input_handler *handler);

#endif
