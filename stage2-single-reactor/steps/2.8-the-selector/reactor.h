/*
 * The reactor: one thread that waits for events and gives each to whoever is attached to its key
 * (Lea, "Reactor 1: Setup" and "Reactor 2: Dispatch Loop"; Schmidt's pattern of 1995).
 *
 * Interface:
 * - Everything in this step happens in the one thread that calls reactor_run(). There is no lock,
 *   and nothing may block: while a handler runs, every other client waits.
 * - What is attached to a key is a struct runnable.
 */
#ifndef REACTOR_H
#define REACTOR_H

#include "acceptor.h"
#include "common/base/list.h"
#include "common/events/selector.h"
#include "common/server/admission.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "runnable.h"

struct reactor {
    struct server *server;
    struct selector selector;
    struct admission admission;
    struct acceptor acceptor;
    struct selection_key signals_key;
    struct list_link again; /* handlers that have more to do, and wait for no event */
    int64_t accept_at;      /* when to accept again, after the system was out of something */
    bool stopping;
};

/** Opens the selector and registers the listener and the signals. 0, or -1 with errno. */
int reactor_open(struct reactor *reactor, struct server *server,
                 struct input_handler_factory *factory, const struct selector_provider *provider);

/** The reactor that a key is registered with. Any thread that may use the key. */
struct reactor *reactor_of(const struct selection_key *key);

/** Waits and dispatches until a signal asks the server to stop. */
void reactor_run(struct reactor *reactor) NO_LOCK_HELD;

/** Closes what reactor_open() opened. */
void reactor_close(struct reactor *reactor);

/** Has the acceptor decide anew at a moment; INT64_MAX: not because time passes. */
void reactor_accept_at(struct reactor *reactor, int64_t moment);

#endif
