/*
 * The dispatcher pool: several dispatchers, each with a thread, a selector and connections of its
 * own (Roth, "Acceptor"; Lea, "Multiple Reactor Threads"). The acceptor gives each new
 * connection to the next dispatcher, where it stays to its end.
 *
 * Interface:
 * - The dispatchers share nothing but what the server has for all, such as buffers, the count of
 *   connections, and the executor if there is one.
 * - All calls are for the thread that opened the pool, which is the acceptor's, too.
 */
#ifndef DISPATCHER_POOL_H
#define DISPATCHER_POOL_H

#include "dispatcher.h"

struct dispatcher_pool {
    struct server *server;
    struct executor *executor; /* NULL: handlers run in the dispatchers' threads */
    struct dispatcher *dispatchers;
    size_t count;   /* dispatchers that are open */
    size_t running; /* those of them that have been started */
    size_t next;    /* which of them gets the next connection */
};

/** Opens `count` dispatchers. 0, or -1 with errno; nothing is held then. */
int dispatcher_pool_open(struct dispatcher_pool *pool, size_t count, struct server *server,
                         struct executor *executor, struct admission *admission,
                         const struct selector_provider *provider, bool guard_works);

/** Closes all of them. None runs any more. */
void dispatcher_pool_close(struct dispatcher_pool *pool);

/** Starts a thread for each. 0, or an error number; then those that were started are stopped. */
int dispatcher_pool_start(struct dispatcher_pool *pool);

/** The dispatcher for the next connection: each in turn. */
struct dispatcher *dispatcher_pool_next(struct dispatcher_pool *pool);

/** Stops them, as dispatcher_stop() says, and waits until all have ended. */
void dispatcher_pool_stop(struct dispatcher_pool *pool);

/** Sets the server's counters to the sums of the dispatchers' own. */
void dispatcher_pool_count(struct dispatcher_pool *pool);

/** Prints each dispatcher's counters in a line of its own. */
void dispatcher_pool_report(const struct dispatcher_pool *pool);

/** The option --dispatchers, which sets *count. */
struct option dispatcher_pool_option(size_t *count);

#endif
