/*
 * Where strands run in this stage (common/server/strand_host.h): one dispatcher is the host of all.
 * It runs strands itself, or has workers run them, as it does with handlers.
 */
#ifndef STRANDS_H
#define STRANDS_H

#include "common/server/strand_host.h"
#include "dispatcher.h"

struct strands {
    struct strand_host host;
    struct dispatcher *dispatcher;
    atomic_bool is_kept; /* the host does not end before it is let go */
};

/** Before the application opens: from now on it may open strands. */
void strands_init(struct strands *strands, struct server *server);

/** Has a dispatcher be the host, if there is a strand. Before its thread begins. */
void strands_host(struct strands *strands, struct dispatcher *dispatcher);

/** The host, if there is one, does not end before it is let go. Before its thread begins. */
void strands_keep(struct strand_host *host);

/** The other dispatchers have ended, and with them all runs that may post: so may the host. */
void strands_let_go(struct strand_host *host);

#endif
