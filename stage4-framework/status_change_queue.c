#include "status_change_queue.h"

#include "common/base/trace.h"
#include "handler_adapter.h"

void status_change_queue_init(struct status_change_queue *queue)
{
    atomic_init(&queue->newest, NULL);
}

/* If another thread puts one in between the two steps, `newest` becomes that, and we try again. */
bool status_change_queue_put(struct status_change_queue *queue, struct handler_adapter *adapter)
{
    struct handler_adapter *newest = atomic_load(&queue->newest);
    trace_event(TRACE_CHANGE_QUEUED, adapter->key.fd, 0);
    do
        adapter->next_changed = newest;
    while (!atomic_compare_exchange_weak(&queue->newest, &newest, adapter));
    return newest == NULL;
}

bool status_change_queue_is_empty(struct status_change_queue *queue)
{
    return atomic_load(&queue->newest) == NULL;
}

struct handler_adapter *status_change_queue_take_all(struct status_change_queue *queue)
{
    struct handler_adapter *newest = atomic_exchange(&queue->newest, NULL);
    struct handler_adapter *all = NULL;
    while (newest != NULL) {
        struct handler_adapter *older = newest->next_changed;
        newest->next_changed = all;
        all = newest;
        newest = older;
    }
    return all;
}
