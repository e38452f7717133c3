#include "status_change_queue.h"

#include "common/trace.h"
#include "handler_adapter.h"

void status_change_queue_init(struct status_change_queue *queue)
{
    *queue = (struct status_change_queue){0};
    mutex_init(&queue->lock);
}

void status_change_queue_destroy(struct status_change_queue *queue)
{
    mutex_destroy(&queue->lock);
}

bool status_change_queue_put(struct status_change_queue *queue, struct handler_adapter *adapter)
{
    trace_event(TRACE_CHANGE_QUEUED, adapter->key.fd, 0);
    adapter->next_changed = NULL;
    mutex_lock(&queue->lock);
    bool first = queue->first == NULL;
    if (first)
        queue->first = adapter;
    else
        queue->last->next_changed = adapter;
    queue->last = adapter;
    mutex_unlock(&queue->lock);
    return first;
}

bool status_change_queue_is_empty(struct status_change_queue *queue)
{
    mutex_lock(&queue->lock);
    bool empty = queue->first == NULL;
    mutex_unlock(&queue->lock);
    return empty;
}

struct handler_adapter *status_change_queue_take_all(struct status_change_queue *queue)
{
    mutex_lock(&queue->lock);
    struct handler_adapter *all = queue->first;
    queue->first = queue->last = NULL;
    mutex_unlock(&queue->lock);
    return all;
}
