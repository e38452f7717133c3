/*
 * The proactor: one thread that waits until something is done and tells whoever has asked for it
 * (POSA2, "Proactor"). Stage 2's reactor waits until something can be done.
 *
 * Interface:
 * - Everything happens in the one thread that calls proactor_run(). There is no lock, and nothing
 *   may block: while a handler runs, every other client waits.
 */
#ifndef PROACTOR_H
#define PROACTOR_H

#include "acceptor.h"
#include "common/events/timer_heap.h"
#include "common/server/admission.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"
#include "ring.h"

struct proactor {
    struct server *server;
    struct input_handler_factory *factory;
    struct ring ring;
    struct admission admission;
    struct acceptor acceptor;
    struct operation signals;
    struct timer_heap timers;  /* one of each handler, so this also lists all of them */
    struct timer accept_timer; /* when to accept again, after the system was out of something */
    struct timer end_timer;    /* when the last handlers are cut off; set while it is stopping */
    int64_t now;               /* when the last wait returned, ms */
    bool stopping;             /* each handler is to finish what it has begun */
};

/** Opens the ring, and asks for clients and signals. 0, or -1 with errno. */
int proactor_open(struct proactor *proactor, struct server *server,
                  struct input_handler_factory *factory);

/** Waits and dispatches until a signal asks the server to stop and all handlers have ended. */
void proactor_run(struct proactor *proactor) NO_LOCK_HELD;

/** Closes what proactor_open() opened. */
void proactor_close(struct proactor *proactor);

/** Nobody is accepted any more: has every handler finish what it has begun. */
void proactor_stop(struct proactor *proactor);

/** Has the acceptor decide anew at a moment; INT64_MAX: not because time passes. */
void proactor_accept_at(struct proactor *proactor, int64_t moment);

#endif
