/*
 * The handler adapter: what the framework keeps of a connection, wrapped around the application's
 * handler (it was the handler of stage 3, and is as that was).
 *
 * Interface:
 * - While it is processing, a worker alone touches it, and nobody closes it: a client that dies
 *   meanwhile is found out when it is back. Otherwise it is the dispatcher's thread; until it is
 *   registered, the acceptor's.
 * - handler_adapter_close() frees it. What may close, or submits, must be the last that a function
 *   does.
 */
#ifndef HANDLER_ADAPTER_H
#define HANDLER_ADAPTER_H

#include "common/server/connection_find.h"
#include "dispatcher.h"

struct handler_adapter {
    struct dispatcher *dispatcher;
    struct selection_key key;
    struct timer timer; /* fires at the earliest deadline */
    struct connection connection;
    struct connection_message found; /* what a worker is to begin with */
    struct task task;                /* what a worker runs, and hands back */
    bool processing GUARDED_BY(&dispatcher->guard.lock);

    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** An adapter that is not registered yet; it owns fd. NULL without memory; fd stays the caller's.
 */
struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd,
                                               struct input_handler_factory *factory) NO_LOCK_HELD;

/** Ends the connection at once: what waits is dropped. */
void handler_adapter_close(struct handler_adapter *adapter) NO_LOCK_HELD;

/** Its key is ready. */
void handler_adapter_run(struct handler_adapter *adapter) NO_LOCK_HELD;

/** Its timer has fired: a clock may have run out, or the server stops. */
void handler_adapter_expire(struct handler_adapter *adapter) NO_LOCK_HELD;

/** Gives each adapter in the dispatcher's list `again` another turn. */
void handler_adapter_take_turns(struct turns *list) NO_LOCK_HELD;

/** It is new, or a worker has handed it back. */
void handler_adapter_go_on(struct task *task) NO_LOCK_HELD;

/** No worker takes an adapter's task: its request is refused. */
void handler_adapter_refuse(struct task *task) NO_LOCK_HELD;

/** The adapter that a timer belongs to. */
struct handler_adapter *handler_adapter_of_timer(struct timer *timer);

/** Adds the bytes that it holds, if no worker has it. */
void handler_adapter_count_held(const struct handler_adapter *adapter, uint64_t *output,
                                uint64_t *input);

#endif
