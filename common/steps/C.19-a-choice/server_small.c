/*
 * Stands in for common/server/server.c until step C.19.
 */
#include "common/server/server.h"

const struct message server_busy_text = {(const unsigned char *)"ERR server busy\n", 16};

void server_no_memory(struct server *server, struct counters *counters,
                      const struct endpoint *client, int fd)
{
    (void)client;
    counters_add(counters, COUNTER_NO_MEMORY, 1);
    log_limited(&server->log, &server->memory_limit, LOG_LEVEL_WARN,
                "event=closed fd=%d reason=\"no memory\"", fd);
}
