/*
 * The dispatcher: one thread that waits for events and has each handler run (Hitchens, "Core
 * Dispatcher Loop" and "Dispatcher Interface"). Here it is one of several (Roth's dispatcher pool,
 * Lea's sub-reactors): no other dispatcher touches its timers and counters, nor, but for a facade,
 * its connections.
 *
 * Interface:
 * - dispatcher_dispatch() is the dispatcher's thread. It never dies: no handler, no peer and no
 *   failing system call ends it; only dispatcher_stop() does (Hitchens, "Danger! Danger, Will
 *   Robinson!").
 * - dispatcher_register_channel() and dispatcher_stop() may be called by any other thread.
 * - Without an executor this thread runs the handlers itself, so no message changes threads. A
 *   handler that blocks then stops all connections of this dispatcher. With an executor,
 *   application code runs here only in the four cases of stage 4's dispatcher.h.
 */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "common/events/loop.h"
#include "common/events/selector.h"
#include "common/events/timer_heap.h"
#include "common/server/admission.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "common/workers/executor.h"
#include "handler_adapter.h"
#include "selector_guard.h"
#include "status_change_queue.h"

#include <stdalign.h>

enum {
    /** What processors exchange at a time, on those that we know; bytes. */
    CACHE_LINE_SIZE = 64,
};

struct dispatcher {
    /*
     * The dispatchers of a pool stand side by side. If two of them shared a cache line, each write
     * of one thread to its own fields would take the line from the other (false sharing).
     */
    alignas(CACHE_LINE_SIZE) struct server *server;
    struct executor *executor; /* NULL: handlers run in the dispatcher's thread */
    struct admission *admission;
    struct strand_host *strands; /* which run here; NULL: no strand does */
    struct counters counters;    /* of its connections */
    struct connection_home home;
    struct selector selector;
    struct loop loop; /* how late it is, for others to read */
    struct selector_guard guard;
    struct status_change_queue changes;
    size_t number;    /* among those of its pool, from 1 on; names its thread */
    pthread_t thread; /* dispatcher_start()'s */
    atomic_bool stop_asked;
    atomic_size_t registered;      /* adapters, from registration to unregistration */
    struct future_task life;       /* of its thread, from beginning to end */
    struct future_monitor monitor; /* where main waits for that end */

    /* The dispatcher's thread's own. */
    struct timer_heap timers; /* one for each adapter after its first status change */
    struct task_list round;   /* runs for the executor, at the end of this round */
    struct timer end_timer;   /* when connections are cut off; set while it is stopping */
    int64_t now;              /* when the last select returned, ms */
    bool stopping;            /* each connection finishes what it has begun */
    bool cut_off;             /* the drain timeout is over: each connection ends */
    /*
     * Without a guard the acceptor may be waiting for this dispatcher's selector when a signal
     * comes, and does not see it before select returns. So signals end the sleep then, like any
     * event.
     */
    struct selection_key signals_key;
};

/** 0, or -1 with errno; nothing is held then. */
int dispatcher_open(struct dispatcher *dispatcher, struct server *server, struct executor *executor,
                    struct admission *admission, const struct selector_provider *provider,
                    bool guard_works);

/** After dispatcher_dispatch() has returned. */
void dispatcher_close(struct dispatcher *dispatcher);

/** Waits and dispatches, until it is stopped and the last connection has ended. */
void dispatcher_dispatch(struct dispatcher *dispatcher) NO_LOCK_HELD;

/**
 * Begins to serve a connection with a handler that the factory makes. From then on the dispatcher
 * owns both, and `stopped` is the handler's last call. False if that is not possible: fd stays the
 * caller's, and if there was a handler, its `stopped` or `unused` has been called.
 */
bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd,
                                 struct input_handler_factory *factory) NO_LOCK_HELD;

/**
 * Begins to serve an adapter's connection. `starting` has been called, or will be when an outgoing
 * connection is established. `interest` is what it waits for first: SELECT_READ, or SELECT_WRITE if
 * it is connecting. Any thread, while this dispatcher has not ended.
 */
void dispatcher_register_adapter(struct dispatcher *dispatcher, struct handler_adapter *adapter,
                                 unsigned interest);

/** Makes the dispatcher go through its status-change queue. Any thread; in its own a no-op. */
void dispatcher_wakeup(struct dispatcher *dispatcher);

/** Updates this dispatcher's counters of wakeups. Any thread. */
void dispatcher_count(struct dispatcher *dispatcher);

/** Gives dispatcher_dispatch() a thread. 0, or an error number. */
int dispatcher_start(struct dispatcher *dispatcher);

/**
 * Lets all connections finish what they have begun, cuts them off at the drain timeout, and ends.
 * Does not wait. Any thread.
 */
void dispatcher_stop(struct dispatcher *dispatcher);

/** Waits until dispatcher_dispatch() has returned. False if deadline_ms came first. Any thread. */
bool dispatcher_await(struct dispatcher *dispatcher, int64_t deadline_ms);

/**
 * After dispatcher_start() and dispatcher_stop(): waits for the thread's end. Past deadline_ms it
 * cuts short what service_process() waits for there.
 */
void dispatcher_join(struct dispatcher *dispatcher, int64_t deadline_ms);

#endif
