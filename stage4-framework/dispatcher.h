/*
 * The dispatcher: one thread that waits for events and has each handler run by a worker (Hitchens,
 * "Core Dispatcher Loop" and "Dispatcher Interface").
 *
 * Interface:
 * - dispatcher_dispatch() is the dispatcher's thread. It never dies: no handler, no peer and no
 *   failing system call ends it; only dispatcher_stop() does (Hitchens, "Danger! Danger, Will
 *   Robinson!").
 * - dispatcher_register_channel() and dispatcher_stop() may be called by any other thread.
 * - Application code runs in this thread in four cases only: (1) under the policy caller-runs; (2)
 *   when a run is refused because the executor is saturated, as under abort, the default: then
 *   refuse_input and the life-cycle calls (input_handler_calls.h); (3) when no worker can be
 *   started; (4) is_urgent, with a priority queue.
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

struct dispatcher {
    struct server *server;
    struct executor *executor;
    struct admission *admission;
    struct selector selector;
    struct loop loop; /* how late it is, for others to read */
    struct selector_guard guard;
    struct status_change_queue changes;
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

/** Makes the dispatcher go through its status-change queue. Any thread. */
void dispatcher_wakeup(struct dispatcher *dispatcher);

/** Updates the server's counters of wakeups and tasks. Any thread. */
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
