/*
 * A handler serves one connection, an event at a time (Lea, "Reactor 4: Handler setup" and "Reactor
 * 5: Request handling").
 *
 * Receiving, and sending what has to wait, are the reactor's. A whole request is a worker's (Lea,
 * "Handler with Thread Pool"): the handler is submitted as a task, and comes back when its requests
 * are answered and the replies have been tried on the socket.
 *
 * Interface:
 * - While it is processing, a worker alone touches it, and nobody closes it: a client that dies
 *   meanwhile is found out when it is back (case 34). Otherwise it is the reactor's thread.
 * - handler_close() frees it. What may close, or submits, must be the last that a function does.
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
    struct connection_message found; /* what a worker is to begin with */
    struct task task;                /* what a worker runs, and hands back */
    bool processing GUARDED_BY(&reactor_of(&key)->guard.lock);
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

/** No worker takes a handler's task: its request is refused. */
void handler_refuse(struct task *task) NO_LOCK_HELD;

/** A worker has handed a handler's task back, because the reactor has to see to what is next. */
void handler_go_on(struct task *task) NO_LOCK_HELD;

/** Gives each handler in the reactor's list `again` another turn. */
void handler_take_turns(struct turns *list) NO_LOCK_HELD;

/** Whose timer that is. */
struct handler *handler_of_timer(struct timer *timer);

#endif
