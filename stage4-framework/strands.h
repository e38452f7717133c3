/*
 * Where strands run in this stage (common/server/strand_host.h): its dispatcher is the host, and
 * its workers run what the host runs.
 */
#ifndef STRANDS_H
#define STRANDS_H

#include "common/server/strand_host.h"
#include "dispatcher.h"

struct strands {
    struct strand_host host;
    struct dispatcher *dispatcher;
};

/** Before the application opens: from now on it may open strands. */
void strands_init(struct strands *strands, struct server *server);

/** Has a dispatcher be the host, if there is a strand. Before its thread begins. */
void strands_host(struct strands *strands, struct dispatcher *dispatcher);

#endif
