/*
 * The reactor: one thread that waits for events and gives each to whoever is attached to its key
 * (Lea, "Reactor 1: Setup" and "Reactor 2: Dispatch Loop"; Schmidt's pattern of 1995).
 *
 * Interface:
 * - All but handler_wake() happens in the one thread that calls reactor_run(). So no handler needs
 *   a lock, and nothing may block: while a handler runs, every other client waits.
 * - What is attached to a key is a struct runnable, or, in the list `again`, the next key.
 */
#ifndef REACTOR_H
#define REACTOR_H

#include "acceptor.h"
#include "common/events/loop.h"
#include "common/events/selector.h"
#include "common/events/timer_heap.h"
#include "common/events/turns.h"
#include "common/server/admission.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "common/server/told_list.h"
#include "runnable.h"

struct handler;

struct reactor {
    struct server *server;
    struct selector selector;
    struct loop loop; /* how late it is, for others to read */
    struct admission admission;
    struct acceptor acceptor;
    struct selection_key signals_key;
    struct timer_heap timers;  /* one of each handler, so this also lists all of them */
    struct turns again;        /* handlers that have more to do, and wait for no event */
    struct told_list told;     /* handlers that other threads have told to go on */
    struct timer accept_timer; /* when to accept again, after the system was out of something */
    struct timer look_timer;   /* when to look round again (server_look) */
    struct timer end_timer;    /* when the last handlers are cut off; set while it is stopping */
    int64_t now;               /* when the last select returned, ms */
    bool stopping;             /* each handler is to finish what it has begun */
};

/** Opens the selector and registers the listener and the signals. 0, or -1 with errno. */
int reactor_open(struct reactor *reactor, struct server *server,
                 struct input_handler_factory *factory, const struct selector_provider *provider);

/** The reactor that a key is registered with. Any thread that may use the key. */
struct reactor *reactor_of(const struct selection_key *key);

/** Waits and dispatches until a signal asks the server to stop and all handlers have ended. */
void reactor_run(struct reactor *reactor) NO_LOCK_HELD;

/** Closes what reactor_open() opened. */
void reactor_close(struct reactor *reactor);

/** Has the acceptor decide anew at a moment; INT64_MAX: not because time passes. */
void reactor_accept_at(struct reactor *reactor, int64_t moment);

#endif
