/*
 * What a stage asks of a connection for which one thread finds messages and another one handles
 * them: stages 3 to 5.
 *
 * Interface:
 * - As connection.h: the runner's.
 */
#ifndef COMMON_CONNECTION_FIND_H
#define COMMON_CONNECTION_FIND_H

#include "common/server/connection.h"

/**
 * Whether there is something for the handler. A message that was found is kept in *found, for the
 * run that must follow, which has it as its `found`.
 */
bool connection_find(struct connection *connection, struct connection_message *found) NO_LOCK_HELD;

/**
 * Whether the message that the next run is for goes before those of other connections: what a stage
 * with a priority queue asks when it has received, and before it looks for a worker.
 */
bool connection_is_urgent(struct connection *connection) NO_LOCK_HELD;

/**
 * Whether the next run must not be dropped, nor its message refused: because it does more than
 * handle messages, or because they are no client's requests but come by a connection that we have
 * asked for.
 */
bool connection_must_run(const struct connection *connection);

#endif
