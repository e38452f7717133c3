/*
 * A strand: a context without a connection, in which calls are made one after the other (the word
 * is Boost.Asio's).
 *
 * Two users move the same piece on a board; two calls of two handlers, perhaps in two threads. With
 * a lock each handler waits while the other one has it, and must not call a facade meanwhile. With
 * a strand the handlers post what is to be done, and the strand does it: never twice at once, in
 * the order of the posts. So what only a strand touches needs no lock, and what it sends to several
 * connections comes to all of them in one order.
 *
 * Nobody waits for a strand, and it has no thread. Whoever posts to one in which nobody is runs it,
 * at the end of its own run and before its output leaves. Whoever finds somebody inside leaves the
 * call to that thread and goes on. So the cost of a post is one atomic step: no lock, no wakeup.
 *
 * Interface:
 * - A strand has a facade, strand_facade(), with the verbs that a connection's has where they make
 *   sense without a client: channel_post() in any thread, and in the strand's own calls
 *   channel_set_timer(), channel_cancel_timer(), channel_begin() and channel_connect(). The others
 *   do what they do on a connection that has ended; it has no input (NULL), and
 *   nothing that channel_hold() could hold.
 * - Its own calls are its three verbs, its posts, timers and tasks. They come where handlers run,
 *   but `opened`, and what is left at the end: these are made by the thread of main(). They obey
 *   the rules for handlers: they should not block, since others' runs make them, and they hold no
 *   lock when they call a facade.
 * - What a thread has posted runs in that order. What a strand posts to connections, and sends to
 *   them, arrives in its order. It needs a reference for each facade that it keeps
 *   (channel_retain()), and after that connection's end OUTPUT_BROKEN is all that comes of it.
 * - A post is dropped only after `closed`, or if the server never served.
 * - Tasks of a strand come back in the order of their beginning. It has no messages that could
 *   wait, so CHANNEL_WAITS is the same as CHANNEL_GOES_ON, and there may be any number.
 * - Timers go on while the server stops. They are forgotten at the end.
 * - A connection that a strand opens has no elements before it (stage 5's chains).
 * - Only stages 4 and 5 run strands (OFFERS_STRANDS in application.h).
 */
#ifndef COMMON_STRAND_H
#define COMMON_STRAND_H

#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/run.h"
#include "common/server/strand_host.h"

struct server;

enum {
    /** So many calls are a turn; then the host goes on, because a client's run waits. */
    STRAND_TURN = 256,
};

/** What a strand hears. Each may be NULL. */
struct strand_verbs {
    /** Its first call: the server is about to serve, and no client has come yet. */
    void (*opened)(struct strand *self, struct channel_facade *facade);
    /**
     * The server stops: no client comes any more, and those that there are begin to end. Their
     * posts still come, and what this sends to them leaves first.
     */
    void (*stopping)(struct strand *self, struct channel_facade *facade);
    /** Its last call: every connection has ended, and every task is done or dropped. */
    void (*closed)(struct strand *self);
};

/** Lives in what the application keeps, all zero before it is opened. */
struct strand {
    struct channel_facade facade;
    const struct strand_verbs *verbs;
    struct server *server;
    struct strand_host *host;
    struct strand *next; /* the host's */

    /*
     * Any thread's. The newest post, which knows the one before it; or NULL: nobody is inside; or
     * one of two marks: somebody is inside and there is no post, or it is closed.
     */
    _Atomic(struct channel_post *) newest;
    atomic_bool is_left;      /* to the host, which is inside now */
    atomic_int_least64_t due; /* the host looks then; ms of clock_ms() */

    /* Of the thread that is inside. */
    const struct run *inside;   /* its run, for asserts; NULL: none, or nobody is inside */
    struct channel_post *taken; /* posts, the oldest first */
    struct timer_tree timers;
    struct channel_task *begun; /* tasks under way, the oldest first */
    struct channel_task **last; /* where the next one goes */
    struct run_call call;       /* its turn in a run */
    struct channel_post tick;   /* a timer is due */
    struct channel_post stop;   /* the server stops */
    struct task task;           /* its turn, for the host's executor */
    bool is_open;
};

/**
 * Opens a strand. In the application's `open` or `start`, by the thread of main(). The verbs may be
 * NULL. Posts wait for `opened`. False, and the reason stands on standard error: the stage offers
 * none.
 */
bool strand_open(struct strand *strand, struct server *server, const struct strand_verbs *verbs);

/** What posts, timers, tasks and connections of a strand go through. Any thread. */
static inline struct channel_facade *strand_facade(struct strand *strand)
{
    return &strand->facade;
}

/**
 * Enters a strand if nobody is inside: then what the caller does is a call of the strand, as a post
 * would be that it had posted, and comes before strand_leave(). So what only a strand touches can
 * be asked for without a post. False if somebody is inside, or the thread is in no run: post then.
 * It never waits. In a handler's call, or in one of another strand. It costs an atomic step.
 */
bool strand_enter(struct strand *strand) NO_LOCK_HELD;

/** Leaves it, before the call in which it was entered returns. */
void strand_leave(struct strand *strand) NO_LOCK_HELD;

/** The strand of a call, which got its facade. */
static inline struct strand *strand_of(struct channel_facade *facade)
{
    return container_of(facade, struct strand, facade);
}

#endif
