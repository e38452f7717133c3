/*
 * The dispatcher: one thread that waits for events and has each handler run (Hitchens, "Core
 * Dispatcher Loop" and "Dispatcher Interface"). Here it is one of several (Roth's dispatcher pool,
 * Lea's sub-reactors): its connections, timers and counters are its own, and nobody else's.
 *
 * Interface:
 * - dispatcher_dispatch() is the dispatcher's thread. It never dies: no handler, no peer and no
 *   failing system call ends it (Hitchens, "Danger"); only dispatcher_stop() does.
 * - dispatcher_register_channel() and dispatcher_stop() may be called by any other thread.
 * - Without an executor this thread runs the handlers itself: shared-nothing, without a change of
 *   threads, and a handler that blocks stops all connections of this dispatcher. With one, no
 *   application code runs here but what the saturation policy brings along (stage 4).
 */
#ifndef DISPATCHER_H
#define DISPATCHER_H

#include "common/admission.h"
#include "common/executor.h"
#include "common/input_handler.h"
#include "common/selector.h"
#include "common/server.h"
#include "common/timer_heap.h"
#include "handler_adapter.h"
#include "selector_guard.h"
#include "status_change_queue.h"

struct dispatcher {
    struct server *server;
    struct executor *executor; /* NULL: handlers run in the dispatcher's thread */
    struct admission *admission;
    struct counters counters; /* of its connections */
    struct selector selector;
    struct selector_guard guard;
    struct status_change_queue changes;
    struct future_monitor monitor; /* of the runs' futures */
    atomic_bool stop_asked;
    atomic_size_t registered; /* adapters, from registration to unregistration */
    struct mutex end_lock;
    struct condition end; /* of dispatcher_dispatch() */
    bool ended GUARDED_BY(&end_lock);

    /* The dispatcher's thread's own. */
    struct handler_adapter *adapters; /* those that have begun to run; doubly linked */
    struct timer_heap timers;         /* when to look at each of them again */
    struct timer cut_off_timer;       /* set while it is stopping */
    int64_t now;                      /* when the last select returned, ms */
    bool stopping;
    bool cut_off;
};

/** 0, or -1 with errno; nothing is held then. */
int dispatcher_open(struct dispatcher *dispatcher, struct server *server, struct executor *executor,
                    struct admission *admission, const struct selector_provider *provider,
                    bool guard_stands);

/** After dispatcher_dispatch() has returned. */
void dispatcher_close(struct dispatcher *dispatcher);

/** Waits and dispatches, until it is stopped and the last connection has ended. */
void dispatcher_dispatch(struct dispatcher *dispatcher);

/**
 * Begins to serve a connection with a handler. The dispatcher owns both from then on: `stopped` is
 * the last that the handler hears. False if that is not possible; fd stays the caller's, and the
 * handler has heard `stopped`, or `unused`.
 */
bool dispatcher_register_channel(struct dispatcher *dispatcher, int fd, bool urgent,
                                 struct input_handler *handler);

/** Ends a connection at once. Any thread that may use the facade. */
void dispatcher_unregister_channel(struct channel_facade *facade);

/** Has an adapter run that is prepared for it; it may be gone when this returns. */
void dispatcher_execute(struct dispatcher *dispatcher, struct handler_adapter *adapter);

/** Has the dispatcher look at its status changes. Any thread; its own need not wake it. */
void dispatcher_wakeup(struct dispatcher *dispatcher);

/** Brings those counters up to date that others keep. Any thread. */
void dispatcher_count(struct dispatcher *dispatcher);

/** Waits until dispatcher_dispatch() has returned. False if deadline_ms came first. Any thread. */
bool dispatcher_await(struct dispatcher *dispatcher, int64_t deadline_ms);

/** Has all connections finish what they have begun, cuts them off at the drain timeout, and ends.
 */
void dispatcher_stop(struct dispatcher *dispatcher);

#endif
