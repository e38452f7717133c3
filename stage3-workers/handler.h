/*
 * A handler serves one connection, an event at a time (Lea, "Reactor 4: Handler setup" and "Reactor
 * 5: Request handling").
 *
 * No call may block, so what a thread of stage 1 kept on its stack is kept here: how far the
 * connection is. Each state is a function, and the one that is attached to the key is the state
 * (Lea, "Per-State Handlers", after the GoF State pattern):
 *
 *   handler_read    waits for input; output may be waiting too, but not much
 *   (processing)    a worker has it, and the reactor waits for nothing from it
 *   handler_send    waits for room to send; nothing is read meanwhile
 *   handler_finish  has sent all, and waits for nothing
 *   handler_linger  waits for the peer's end of stream, so that the peer can read what was sent
 *   handler_end     is of no use any more, and waits for nothing
 *
 * Reading, and sending what has to wait, are the reactor's. A whole request is a worker's (Lea,
 * "Handler with Thread Pool"): the handler is submitted as a task, and comes back when its requests
 * are answered and the replies have been tried on the socket.
 *
 * Interface:
 * - A handler owns its socket, its key and its queues.
 * - While it is processing, a worker alone touches it, and nobody closes it: a client that dies
 *   meanwhile is found out when it is back (case 34). Otherwise it is the reactor's thread.
 * - handler_close() frees it. What may close, or submits, must be the last that a function does.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "reactor.h"

struct handler {
    struct runnable runnable; /* attached to the key: the state */
    struct reactor *reactor;
    struct selection_key key;
    struct input_queue input;
    struct output_chain output;
    struct deadlines deadlines;
    bool ended;    /* nothing will be read any more */
    bool too_long; /* because a line was longer than allowed */
    bool processing GUARDED_BY(&reactor->guard.lock);
    struct task task;         /* what a worker runs, and hands back */
    struct handler *previous; /* all handlers of the reactor */
    struct handler *next;
};

/**
 * Makes a handler, which owns fd from now on, and registers it. NULL without memory; fd stays the
 * caller's then, and nothing is registered. Tasks of an urgent one go first in a priority queue.
 */
struct handler *handler_create(struct reactor *reactor, int fd, bool urgent);

/** Ends the connection at once: what waits is dropped. */
void handler_close(struct handler *handler);

/** Ends the connection if one of its deadlines has passed. */
void handler_expire(struct handler *handler);

/** A worker has handed a handler's task back, and it waits for no event: goes on. */
void handler_go_on(struct task *task);

/** Has it answer what has arrived, send that, and close. */
void handler_stop(struct handler *handler);

#endif
