/*
 * The dispatcher: one thread that waits for events and has each handler run (it was the reactor of
 * stage 3).
 *
 * Interface:
 * - dispatcher_dispatch() is the dispatcher's thread. Reading, and sending what has to wait, happen
 *   in it. Nothing may block there; processing is done by workers (handler_adapter.h).
 * - dispatcher_register_channel(), dispatcher_count() and dispatcher_stop() may
 *   be called by any other thread. The acceptor's does.
 */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "common/events/loop.h"
#include "common/events/selector.h"
#include "common/events/timer_heap.h"
#include "common/events/turns.h"
#include "common/server/admission.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "common/workers/executor.h"
#include "common/workers/future_task.h"
#include "handler_adapter.h"
#include "selector_guard.h"
#include "status_change_queue.h"

#include <stdatomic.h>

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
    struct future_task life;       /* of its thread, from beginning to end */
    struct future_monitor monitor; /* where main waits for that end */

    /* The dispatcher's thread's own. */
    struct timer_heap timers; /* one of each adapter, so this also lists all of them */
    struct turns again;       /* adapters that have more to do, and wait for no event */
    struct task_list round;   /* tasks for the executor, at the end of this round */
    struct timer end_timer;   /* when the last ones are cut off; set while it is stopping */
    int64_t now;              /* when the last select returned, ms */
    bool stopping;            /* each connection is to finish what it has begun */
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
 * Begins to serve a connection with a handler that the factory makes. The dispatcher owns both from
 * then on. False if that is not possible: fd stays the caller's.
 */
bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd,
                                 struct input_handler_factory *factory) NO_LOCK_HELD;

/** Has the dispatcher look at what has changed. Any thread. */
void dispatcher_wakeup(struct dispatcher *dispatcher);

/** Brings those counters up to date that others keep. Any thread. */
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
