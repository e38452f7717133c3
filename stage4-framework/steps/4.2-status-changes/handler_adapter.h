/*
 * The handler adapter: what the framework keeps of a connection, wrapped around the application's
 * handler.
 *
 * Interface:
 * - While it is processing, a worker alone touches the connection, and nobody closes it: a client
 *   that dies meanwhile is found out when it is back. Otherwise it is the dispatcher's thread;
 *   until it is registered, the acceptor's.
 * - The key and the timer are the dispatcher's, whoever has the connection.
 */
#ifndef HANDLER_ADAPTER_H
#define HANDLER_ADAPTER_H

#include "common/events/selector.h"
#include "common/events/timer_heap.h"
#include "common/server/connection_find.h"
#include "common/workers/task_queue.h"

struct dispatcher;

struct handler_adapter {
    struct connection connection;
    struct dispatcher *dispatcher;
    struct handler_adapter *next_changed; /* the status-change queue's */
    struct connection_message found;      /* what a worker is to begin with */
    struct task task;                     /* what a worker runs */

    /* The dispatcher's. */
    bool processing; /* a worker has it, or the acceptor, until it is through the queue */
    struct selection_key key;
    struct timer timer; /* fires at the earliest deadline */

    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** An adapter that is not registered yet; it owns fd. NULL without memory; fd stays the caller's.
 */
struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd,
                                               struct input_handler_factory *factory) NO_LOCK_HELD;

/**
 * Has a worker handle a whole request, at the end of this round, and returns true; the connection
 * is the worker's then. Less than a request is handled before this returns false, and so is one for
 * which there is no worker at all. The dispatcher's thread.
 */
bool handler_adapter_process(struct handler_adapter *adapter) NO_LOCK_HELD;

/** No worker takes its request, which is refused. The dispatcher's thread. */
void handler_adapter_refuse(struct handler_adapter *adapter) NO_LOCK_HELD;

/** A worker is through with it, or it is new: the dispatcher's turn. The caller's last call. */
void handler_adapter_done(struct handler_adapter *adapter);

/** The adapter that a timer belongs to. */
struct handler_adapter *handler_adapter_of_timer(struct timer *timer);

/** Adds the bytes that it holds, if no worker has it. The dispatcher's thread. */
void handler_adapter_count_held(const struct handler_adapter *adapter, uint64_t *output,
                                uint64_t *input);

/** Frees it. */
void handler_adapter_release(struct handler_adapter *adapter);

#endif
