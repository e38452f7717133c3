/*
 * Stands in for common/server/server.c until step C.20.
 */
#include "common/server/server.h"

void server_no_memory(struct server *server, struct counters *counters,
                      const struct endpoint *client, int fd)
{
    (void)client;
    counters_add(counters, COUNTER_NO_MEMORY, 1);
    log_limited(&server->log, &server->memory_limit, LOG_LEVEL_WARN,
                "event=closed fd=%d reason=\"no memory\"", fd);
}
