/*
 * The reactor: one thread that waits for events and gives each to whoever is attached to its key
 * (Lea, "Reactor 1: Setup" and "Reactor 2: Dispatch Loop"; Schmidt's pattern of 1995).
 *
 * Interface:
 * - Accepting, reading, and sending what has to wait happen in the thread of reactor_run().
 *   Nothing may block there; processing is done by workers (handler.h).
 * - Functions are the reactor's thread's, unless they say who else may call them.
 * - What is attached to a key is a struct runnable.
 */
#ifndef REACTOR_H
#define REACTOR_H

#include "acceptor.h"
#include "common/executor.h"
#include "common/selector.h"
#include "common/server.h"
#include "runnable.h"
#include "selector_guard.h"

struct handler;

struct reactor {
    struct server *server;
    struct selector selector;
    struct executor *executor;
    struct selector_guard guard;
    struct acceptor acceptor;
    struct acceptor urgent_acceptor;
    struct runnable on_signal;
    struct selection_key signals_key;
    struct handler *handlers; /* all of them, doubly linked */
    size_t handler_count;
    size_t lingering;    /* those that wait for their peer's end of stream */
    int64_t now;         /* when the last select returned, ms */
    int64_t next_sweep;  /* when to look at the deadlines again */
    int64_t drain_until; /* when the last handlers are cut off; 0: the server is not stopping */
    bool stopping GUARDED_BY(&guard.lock);            /* the same, for workers to see */
    struct task *handed_back GUARDED_BY(&guard.lock); /* by workers; linked by next */
};

enum {
    /** How often deadlines are looked at, if there are any; ms. */
    REACTOR_TICK_MS = 250,
};

/** Opens the selector and registers the listener and the signals. 0, or -1 with errno. */
int reactor_open(struct reactor *reactor, struct server *server,
                 const struct selector_provider *provider, struct executor *executor,
                 bool guard_wakes);

/** Waits and dispatches until a signal asks the server to stop and all handlers have ended. */
void reactor_run(struct reactor *reactor);

/** Closes what reactor_open() opened. */
void reactor_close(struct reactor *reactor);

/** A handler comes, and goes. */
void reactor_add(struct reactor *reactor, struct handler *handler);
void reactor_remove(struct reactor *reactor, struct handler *handler);

/** A worker gives a handler's task back that waits for no event, so no select would find it. */
void reactor_hand_back(struct reactor *reactor, struct task *task) REQUIRES(&reactor->guard.lock);

#endif
