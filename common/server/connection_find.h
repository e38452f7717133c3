/*
 * What a stage asks of a connection whose runs another thread may get: stages 3 to 5. Only stage 3,
 * and 4.1 and 4.2, find the message before they look for a worker.
 *
 * Interface:
 * - As connection.h: the runner's. The first two call the handler.
 */
#ifndef COMMON_CONNECTION_FIND_H
#define COMMON_CONNECTION_FIND_H

#include "common/server/connection.h"

/**
 * Whether the next run is worth a worker: a whole message, calls, or an answer that goes on. If
 * not, the caller runs it itself. Either way what was found, also that a line is too long, is kept
 * in *found, to which run->found of the run that must follow points (run.h): it is a view into the
 * input queue, so until then nobody receives, feeds or finds.
 */
bool connection_find(struct connection *connection, struct connection_message *found) NO_LOCK_HELD;

/**
 * Whether the message that the next run is for goes before those of other connections: what a stage
 * with a priority queue asks when it has received, and before it looks for a worker.
 */
bool connection_is_urgent(struct connection *connection) NO_LOCK_HELD;

/**
 * Whether the next run must take place, and its message must not be refused (executor_insist()):
 * because it does more than handle messages, or because the connection is one that we have asked
 * for, whose messages are no client's requests.
 */
bool connection_must_run(const struct connection *connection);

#endif
