/*
 * The status-change queues of a server in slow motion, stages 4 and 5: what slow.c asks for.
 */
#include "handler_adapter.h"
#include "status_change_queue.h"

#include <stdio.h>

enum { QUEUES_MAX = 16 };

static struct status_change_queue *queues[QUEUES_MAX];
static size_t queue_count; /* main alone opens dispatchers */

void __real_status_change_queue_init(struct status_change_queue *queue);
void __wrap_status_change_queue_init(struct status_change_queue *queue);

void __wrap_status_change_queue_init(struct status_change_queue *queue)
{
    if (queue_count < QUEUES_MAX)
        queues[queue_count++] = queue;
    __real_status_change_queue_init(queue);
}

/** Writes the descriptors of the adapters that are in the queues. */
void slow_write_queue(FILE *out);

void slow_write_queue(FILE *out)
{
    fputs(",\"queue\":[", out);
    for (size_t i = 0; i < queue_count; i++) {
        struct handler_adapter *adapter = atomic_load(&queues[i]->newest);
        for (; adapter != NULL; adapter = adapter->next_changed)
            fprintf(out, "%d,", adapter->key.fd);
    }
    fputs("]", out);
}
