/*
 * Where strands run (strand.h): what a stage that offers them brings, and what it calls. Authors of
 * applications need none of this.
 *
 * One thread of the stage, an event loop, is the host. It runs a strand only when nobody else does:
 * a timer of it is due, something was posted in a thread that is in no run, or a turn was too long.
 * All else a strand does in the runs that post to it.
 *
 * Interface:
 * - server->strands is the host, set before the application opens; NULL: the stage offers none. The
 *   stage sets `verbs`, and before the loop begins `executor` and `registered`; all else is zero.
 * - What a stage calls does nothing if the application has no strand. Then no code of a strand is
 *   linked either: `calls` is what brings it, and only strand_open() sets that.
 * - strand_host_begin(), strand_host_stop() and strand_host_end() are main's, in that order.
 *   strand_host_sleep() and strand_host_look() are the loop's, which begins before the first of
 *   these and ends before the last. Then no thread runs handlers, and none runs a task.
 */
#ifndef COMMON_STRAND_HOST_H
#define COMMON_STRAND_HOST_H

#include "common/base/clock.h"
#include "common/base/lock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint;
struct executor;
struct input_handler_factory;
struct strand;
struct strand_host;

/** The stage's. */
struct strand_host_verbs {
    /** The loop is to call strand_host_look() soon. Any thread. */
    void (*wake)(struct strand_host *host);
    /** As channel_connect(), while the loop has not ended: in a run, or from begin to stop. */
    int (*connect)(struct strand_host *host, const struct endpoint *to, int64_t timeout,
                   struct input_handler_factory *factory);
};

/** The strands'. */
struct strand_calls {
    void (*begin)(struct strand_host *host);
    void (*stop)(struct strand_host *host);
    void (*end)(struct strand_host *host);
    void (*look)(struct strand_host *host, int64_t now);
};

struct strand_host {
    const struct strand_host_verbs *verbs;
    struct executor *executor;        /* runs strands; NULL: the loop does, as it runs handlers */
    atomic_size_t *registered;        /* what keeps the loop from its end */
    const struct strand_calls *calls; /* NULL: there is no strand */
    struct strand *first;             /* of the application's, in the order of their opening */
    atomic_bool asked;                /* the loop is to look */
    int64_t next;                     /* the loop's: when it looks unasked; ms of clock_ms() */
    bool is_over;                     /* main's, at the end: no connection can be opened any more */

    /* At the stop main waits here. */
    struct mutex lock;
    struct condition told;
    size_t untold GUARDED_BY(&lock); /* strands that have not heard of it */
};

/** The strands hear `opened`. When the loop runs, and before the first client. */
static inline void strand_host_begin(struct strand_host *host) NO_LOCK_HELD
{
    if (host->calls != NULL)
        host->calls->begin(host);
}

/** The strands hear `stopping`. Before the connections do; waits for it to server_drain_end(). */
static inline void strand_host_stop(struct strand_host *host) NO_LOCK_HELD
{
    if (host->calls != NULL)
        host->calls->stop(host);
}

/** What still waits is run, and the strands hear `closed`; without a begin, only drops it. */
static inline void strand_host_end(struct strand_host *host) NO_LOCK_HELD
{
    if (host->calls != NULL)
        host->calls->end(host);
}

/** How long the loop may sleep, which could sleep so long without strands. ms; -1: for ever. */
static inline int strand_host_sleep(const struct strand_host *host, int timeout)
{
    if (host == NULL)
        return timeout;
    if (atomic_load(&host->asked))
        return 0;
    int64_t left = host->next - clock_ms();
    if (left > INT32_MAX || (timeout >= 0 && timeout < left))
        return timeout;
    return left > 0 ? (int)left : 0;
}

/** Has those run that wait for the host. In each round; NULL: the loop is no host. */
static inline void strand_host_look(struct strand_host *host, int64_t now) NO_LOCK_HELD
{
    if (host != NULL && (atomic_load(&host->asked) || host->next <= now))
        host->calls->look(host, now);
}

#endif
