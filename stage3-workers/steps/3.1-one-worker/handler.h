/*
 * A handler serves one connection, an event at a time (Lea, "Reactor 4: Handler setup" and "Reactor
 * 5: Request handling"). Receiving is the reactor's. A whole request is a worker's, if one
 * takes it.
 *
 * Interface:
 * - While it is processing, a worker alone touches it, and nobody closes it.
 * - handler_close() frees it. What may close must be the last that a function does.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/events/selector.h"
#include "common/server/connection_find.h"
#include "reactor.h"

struct handler {
    struct selection_key key;
    struct timer timer; /* when to look at its clocks if no event comes before */
    struct connection connection;
    struct connection_message found;         /* what a worker is to begin with */
    struct handler *next;                    /* in the list of those that are handed back */
    bool processing;                         /* a worker has it; only the reactor asks */
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** Makes and registers a handler, which owns fd. False without memory: fd stays the caller's. */
bool handler_create(struct reactor *reactor, int fd) NO_LOCK_HELD;

/**
 * Ends the connection at once: what waits is dropped. It must not be in the list `again`, which
 * would name freed memory, unless no turns are taken any more (reactor_cut_off()).
 */
void handler_close(struct handler *handler) NO_LOCK_HELD;

/** Its timer has fired: a clock may have run out, or the server stops. */
void handler_expire(struct handler *handler) NO_LOCK_HELD;

/** A worker has handed it back. */
void handler_go_on(struct handler *handler) NO_LOCK_HELD;

/** Answers what was found, and sends the answers. A worker, or the reactor if none takes it. */
void handler_call(struct handler *handler) NO_LOCK_HELD;

/** The worker is through with it, and touches it no more. */
void handler_hand_back(struct handler *handler);

/** Gives each handler in the reactor's list `again` another turn. */
void handler_take_turns(struct turns *list) NO_LOCK_HELD;

/** Whose timer that is. */
struct handler *handler_of_timer(struct timer *timer);

#endif
