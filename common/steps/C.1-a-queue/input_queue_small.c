/*
 * Stands in for common/bytes/input_queue.c until step C.2: a block as large as the limit, which a
 * client has from its first byte to its last.
 */
#include "common/bytes/input_queue.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void input_queue_init(struct input_queue *queue, struct buffer_factory *factory, uint32_t limit)
{
    *queue = (struct input_queue){.factory = factory, .limit = limit};
}

void input_queue_clear(struct input_queue *queue)
{
    free(queue->block);
    queue->block = NULL;
}

ssize_t input_queue_fill(struct input_queue *queue, int fd)
{
    struct segment *block = queue->block;
    if (block == NULL)
        queue->block = block = calloc(1, sizeof(*block) + queue->limit);
    if (block == NULL)
        return -1;
    ssize_t received = recv(fd, block->data + block->end, queue->limit - block->end, 0);
    if (received > 0)
        block->end += (size_t)received;
    return received;
}

bool input_queue_index_of(struct input_queue *queue, unsigned char wanted, size_t *index)
{
    if (input_queue_is_empty(queue))
        return false;
    const unsigned char *front = queue->block->data + queue->block->start;
    const unsigned char *found = memchr(front, wanted, input_queue_length(queue));
    if (found != NULL)
        *index = (size_t)(found - front);
    return found != NULL;
}

struct message input_queue_dequeue(struct input_queue *queue, size_t count)
{
    struct segment *block = queue->block;
    block->start += count;
    return (struct message){block->data + block->start - count, count};
}

bool input_queue_retire(struct input_queue *queue)
{
    struct segment *block = queue->block;
    if (block != NULL) {
        memmove(block->data, block->data + block->start, segment_length(block));
        block->end -= block->start;
        block->start = 0;
    }
    return input_queue_is_empty(queue);
}

unsigned char input_queue_at(const struct input_queue *queue, size_t index)
{
    return queue->block->data[queue->block->start + index];
}
