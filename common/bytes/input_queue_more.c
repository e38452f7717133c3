#include "common/bytes/input_queue_more.h"

#include <string.h>

bool input_queue_index_from(const struct input_queue *queue, unsigned char wanted, size_t from,
                            size_t *index)
{
    if (from >= input_queue_length(queue))
        return false;
    const unsigned char *front = queue->block->data + queue->block->start;
    const unsigned char *found = memchr(front + from, wanted, input_queue_length(queue) - from);
    if (found != NULL)
        *index = (size_t)(found - front);
    return found != NULL;
}

struct message input_queue_peek(const struct input_queue *queue, size_t count)
{
    assert(count > 0 && count <= input_queue_length(queue));
    return (struct message){queue->block->data + queue->block->start, count};
}

void input_queue_discard(struct input_queue *queue, size_t count)
{
    if (count > 0)
        input_queue_dequeue(queue, count);
    input_queue_retire(queue);
}

bool input_queue_append(struct input_queue *queue, const unsigned char *bytes, size_t length)
{
    input_queue_retire(queue);
    if (length > queue->limit - input_queue_length(queue))
        return false;
    if (length == 0)
        return true;
    if (!input_queue_make_room(queue, length))
        return false;
    memcpy(queue->block->data + queue->block->end, bytes, length);
    queue->block->end += length;
    return true;
}

/* The message that is out is retired first: whether it is wiped was settled when it was taken. */
void input_queue_set_secret(struct input_queue *queue, bool secret)
{
    if (secret != queue->secret)
        input_queue_retire(queue);
    queue->secret = secret;
}
