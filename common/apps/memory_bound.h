/*
 * The most memory that a server's clients can make it need, from the limits that its settings are
 * (docs/withstands.md has the formula, and what it leaves out).
 *
 * Interface: main() asks once, behind server_announce(), which has settled --max-connections.
 */
#ifndef COMMON_MEMORY_BOUND_H
#define COMMON_MEMORY_BOUND_H

#include "common/apps/application.h"
#include "common/server/server.h"

enum {
    /** As much of its stack as a connection's own thread has ever used: tests/soak measures it. */
    MEMORY_OF_A_STACK = 65536,
};

/** What neither the settings nor the application say, because it depends on the stage. */
struct memory_shape {
    size_t threads;  /* that serve many connections, at most */
    size_t stack;    /* MEMORY_OF_A_STACK if each connection has a thread of its own; or 0 */
    size_t elements; /* of each connection's chain: each may have an input queue */
};

/** Logs it, in all and for each client: `event=memory_bound bytes=... clients=... each=...`, info.
 */
void memory_bound_log(const struct server *server, const struct application *application,
                      struct memory_shape shape);

#endif
