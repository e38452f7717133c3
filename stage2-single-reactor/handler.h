/*
 * A handler serves one connection, an event at a time (Lea, "Reactor 4: Handler setup" and "Reactor
 * 5: Request handling"). No call may block: how far the connection is, a thread of stage 1 kept on
 * its stack, and here the connection keeps it (connection.h).
 *
 * Interface: handler_close() frees it. What may close must be the last that a function does.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/events/selector.h"
#include "common/server/connection.h"
#include "reactor.h"

struct handler {
    struct selection_key key;
    struct timer timer; /* when to look at its clocks if no event comes before */
    struct connection connection;
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

/** Gives each handler in the reactor's list `again` another turn. */
void handler_take_turns(struct turns *list) NO_LOCK_HELD;

/** Another thread has told a connection's handler to go on: wakes its reactor. Any thread. */
void handler_wake(struct connection *connection, struct channel_hold *hold);

/** Puts those that other threads have told to go on into the reactor's list `again`. */
void handler_take_told(struct reactor *reactor);

/** Whose timer that is. */
struct handler *handler_of_timer(struct timer *timer);

/** Adds the bytes that it holds: those that wait to be sent, and those that wait to be handled. */
void handler_count_held(const struct handler *handler, uint64_t *output, uint64_t *input);

#endif
