/*
 * The status-change queue: adapters that have changed since the dispatcher's last round (Hitchens,
 * "Finally: Reap Completed Handlers").
 *
 * Workers put adapters in, the dispatcher takes them all out once in each round. Hitchens' queue
 * holds a hundred and put() blocks when it is full, which can stop the whole server (erratum 3).
 * This one is a list through the adapters themselves. An adapter is in it at most once, so it needs
 * no limit, and putting one in cannot block, cannot fail and allocates nothing.
 *
 * Interface:
 * - Any thread puts; the dispatcher's thread takes.
 * - An adapter knows itself whether it is in the queue (`queued`, under its state lock), so it is
 *   not put in twice.
 */
#ifndef STATUS_CHANGE_QUEUE_H
#define STATUS_CHANGE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>

struct handler_adapter;

struct status_change_queue {
    _Atomic(struct handler_adapter *) newest; /* each adapter points to the one put in before it */
};

void status_change_queue_init(struct status_change_queue *queue);

/** Puts an adapter in. True if the queue was empty: the dispatcher has to be woken. */
bool status_change_queue_put(struct status_change_queue *queue, struct handler_adapter *adapter);

/** Whether no adapter is in it at this moment. */
bool status_change_queue_is_empty(struct status_change_queue *queue);

/** Takes all adapters out, linked through next_changed, the one that waited longest first. */
struct handler_adapter *status_change_queue_take_all(struct status_change_queue *queue);

#endif
