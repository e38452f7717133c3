/*
 * What stages 4 and 5 call of a connection beside the rest: others send to it as well, and we may
 * have asked for it. (C.32 sets a rate only, and shares nothing.)
 *
 * Interface:
 * - As connection.h, the runner's, where nothing else is said.
 * - Any thread: it has retained the facade, and does not hold the output lock.
 */
#ifndef COMMON_CONNECTION_SHARED_H
#define COMMON_CONNECTION_SHARED_H

#include "common/server/connection.h"

/**
 * Lets other threads send to all connections of that home. Main, once, before the first connection,
 * and before the home is copied (stage 5's dispatchers have one each). `sharing` outlives them.
 */
void connection_share(struct connection_home *home, const struct connection_sharing *sharing);

/**
 * The facade's verb `enqueue`, of a connection of such a home. If the result is not OUTPUT_FLOWING
 * the caller sees to it that a run follows. Any thread.
 */
enum output_result connection_enqueue(struct connection *connection, struct piece piece);

/**
 * Drains what a burst (burst.h) holds back here: burst.c tells the stage of the result. Any thread.
 */
enum output_result connection_release_output(struct connection *connection);

/** The verb `flush` (channel_flush()): in the handler's own call only. */
enum output_result connection_shared_flush(struct channel_facade *facade);

/** Bytes that wait to be sent. Any thread, if the connection is shared. */
uint64_t connection_output_held(const struct connection *connection);

/**
 * Limits how fast output leaves, in bytes per second; 0: no limit. False without memory, or if the
 * output is over. Any thread, if the connection is shared. (connection_rate.c)
 */
bool connection_set_write_rate(struct connection *connection, uint64_t rate);

/**
 * Begins with a socket that is connecting (socket_connect()), which the connection owns from now
 * on. If it is not connected within timeout ms (below 2^32; 0: when the system says so), or is
 * closed or stopped before, the handler hears not_connected() and nothing else. `to` is copied.
 * (connection_outgoing.c)
 */
void connection_open_outgoing(struct connection *connection, const struct connection_home *home,
                              int fd, const struct endpoint *to, int64_t timeout,
                              struct input_handler *handler);

#endif
