/*
 * The reactor: one thread that waits for events and gives each to whoever is attached to its key
 * (Lea, "Reactor 1: Setup" and "Reactor 2: Dispatch Loop"; Schmidt's pattern of 1995).
 *
 * Interface:
 * - Everything in this stage happens in the one thread that calls reactor_run(). There is no lock,
 *   and nothing may block: while a handler runs, every other client waits.
 * - What is attached to a key is a struct runnable.
 */
#ifndef REACTOR_H
#define REACTOR_H

#include "acceptor.h"
#include "common/selector.h"
#include "common/server.h"
#include "runnable.h"

struct handler;

struct reactor {
    struct server *server;
    struct selector selector;
    struct acceptor acceptor;
    struct runnable on_signal;
    struct selection_key signals_key;
    struct handler *handlers; /* all of them, doubly linked */
    size_t handler_count;
    size_t lingering;    /* those that wait for their peer's end of stream */
    int64_t now;         /* when the last select returned, ms */
    int64_t next_sweep;  /* when to look at the deadlines again */
    int64_t drain_until; /* when the last handlers are cut off; 0: the server is not stopping */
};

enum {
    /** How often deadlines are looked at, if there are any; ms. */
    REACTOR_TICK_MS = 250,
};

/** Opens the selector and registers the listener and the signals. 0, or -1 with errno. */
int reactor_open(struct reactor *reactor, struct server *server,
                 const struct selector_provider *provider);

/** Waits and dispatches until a signal asks the server to stop and all handlers have ended. */
void reactor_run(struct reactor *reactor);

/** Closes what reactor_open() opened. */
void reactor_close(struct reactor *reactor);

/** A handler comes, and goes. */
void reactor_add(struct reactor *reactor, struct handler *handler);
void reactor_remove(struct reactor *reactor, struct handler *handler);

#endif
