#include "input_queue.h"

#include "sockets.h"
#include "trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void input_queue_init(struct input_queue *queue, struct buffer_factory *factory, uint32_t limit)
{
    *queue = (struct input_queue){.factory = factory, .limit = limit, .fresh_segments = 1};
}

void input_queue_clear(struct input_queue *queue)
{
    free(queue->joined);
    buffer_factory_give_back(queue->factory, queue->head);
    input_queue_init(queue, queue->factory, queue->limit);
}

/* Gives back the segments in front of last, which stays. */
static void drop_segments_before(struct input_queue *queue, struct segment *last)
{
    struct segment *dropped = queue->head;
    if (dropped == last)
        return;
    while (queue->head->next != last)
        queue->head = queue->head->next;
    queue->head->next = NULL;
    queue->head = last;
    buffer_factory_give_back(queue->factory, dropped);
}

/* The last message handed out has been used: what only it still needed goes back. */
static void retire_message(struct input_queue *queue)
{
    free(queue->joined);
    queue->joined = NULL;
    if (queue->length == 0) {
        buffer_factory_give_back(queue->factory, queue->head);
        queue->head = queue->tail = NULL;
        return;
    }
    struct segment *first = queue->head;
    while (segment_length(first) == 0)
        first = first->next;
    drop_segments_before(queue, first);
}

/* Points iov at the free room of the tail and of fresh segments, room bytes at the most. */
static int offer_room(const struct input_queue *queue, struct segment *fresh, size_t room,
                      struct iovec *iov)
{
    int count = 0;
    struct segment *segment = queue->tail != NULL ? queue->tail : fresh;
    while (segment != NULL && room > 0) {
        size_t offered = segment_room(segment) < room ? segment_room(segment) : room;
        iov[count++] = (struct iovec){segment->data + segment->end, offered};
        room -= offered;
        segment = segment == queue->tail ? fresh : segment->next;
    }
    return count;
}

/* Puts those segments of fresh that took some of the received bytes behind the tail; the rest. */
static struct segment *append_used(struct input_queue *queue, struct segment *fresh,
                                   size_t received)
{
    if (queue->tail != NULL) {
        size_t here = segment_room(queue->tail) < received ? segment_room(queue->tail) : received;
        queue->tail->end += here;
        received -= here;
    }
    while (received > 0) {
        struct segment *segment = fresh;
        fresh = fresh->next;
        segment->next = NULL;
        segment->end = received < (size_t)SEGMENT_SIZE ? received : (size_t)SEGMENT_SIZE;
        received -= segment->end;
        if (queue->tail == NULL)
            queue->head = segment;
        else
            queue->tail->next = segment;
        queue->tail = segment;
    }
    return fresh;
}

/* A socket that filled all that was offered has more: offer twice as much next time. */
static void adapt_offer(struct input_queue *queue, bool filled)
{
    if (!filled)
        queue->fresh_segments = 1;
    else if (queue->fresh_segments < INPUT_QUEUE_MOST_FRESH)
        queue->fresh_segments = (uint8_t)(queue->fresh_segments * 2);
}

ssize_t input_queue_fill(struct input_queue *queue, int fd)
{
    retire_message(queue);
    if (queue->length == queue->limit) {
        errno = ENOBUFS;
        return -1;
    }
    struct segment *fresh = buffer_factory_take(queue->factory, queue->fresh_segments);
    if (fresh == NULL) {
        errno = ENOMEM;
        return -1;
    }
    struct iovec iov[1 + INPUT_QUEUE_MOST_FRESH];
    int count = offer_room(queue, fresh, queue->limit - queue->length, iov);
    ssize_t received = socket_receive(fd, iov, count);
    int error = errno;
    if (received >= 0)
        trace_event(TRACE_RECEIVE, fd, received);
    if (received > 0) {
        fresh = append_used(queue, fresh, (size_t)received);
        queue->length += (uint32_t)received;
        adapt_offer(queue, fresh == NULL && segment_room(queue->tail) == 0);
    }
    buffer_factory_give_back(queue->factory, fresh);
    errno = error;
    return received;
}

bool input_queue_index_from(struct input_queue *queue, unsigned char wanted, size_t from,
                            size_t *index)
{
    size_t passed = 0;
    retire_message(queue);
    for (const struct segment *segment = queue->head; segment != NULL; segment = segment->next) {
        size_t length = segment_length(segment);
        size_t skip = from > passed ? from - passed : 0;
        if (skip < length) {
            const unsigned char *start = segment->data + segment->start;
            const unsigned char *found = memchr(start + skip, wanted, length - skip);
            if (found != NULL) {
                *index = passed + (size_t)(found - start);
                return true;
            }
        }
        passed += length;
    }
    return false;
}

bool input_queue_index_of(struct input_queue *queue, unsigned char wanted, size_t *index)
{
    if (queue->searched_for != wanted)
        queue->searched = 0;
    queue->searched_for = wanted;
    bool found = input_queue_index_from(queue, wanted, queue->searched, index);
    queue->searched = found ? (uint32_t)*index : queue->length;
    return found;
}

/* Moves the front of the queue count bytes on. The segments stay for the message handed out. */
static void advance(struct input_queue *queue, size_t count)
{
    assert(count <= queue->length);
    queue->length -= (uint32_t)count;
    queue->searched = queue->searched > count ? queue->searched - (uint32_t)count : 0;
    for (struct segment *segment = queue->head; count > 0; segment = segment->next) {
        size_t here = segment_length(segment) < count ? segment_length(segment) : count;
        segment->start += here;
        count -= here;
    }
}

/* Copies the first count bytes into one block; false if there is no memory. */
static bool join(struct input_queue *queue, size_t count)
{
    queue->joined = malloc(count);
    if (queue->joined == NULL)
        return false;
    size_t copied = 0;
    for (const struct segment *segment = queue->head; copied < count; segment = segment->next) {
        size_t rest = count - copied;
        size_t here = segment_length(segment) < rest ? segment_length(segment) : rest;
        memcpy(queue->joined + copied, segment->data + segment->start, here);
        copied += here;
    }
    return true;
}

bool input_queue_peek(struct input_queue *queue, size_t count, struct message *message)
{
    assert(count > 0 && count <= queue->length);
    retire_message(queue);
    if (count <= segment_length(queue->head))
        message->data = queue->head->data + queue->head->start;
    else if (join(queue, count))
        message->data = queue->joined;
    else
        return false;
    message->length = count;
    return true;
}

bool input_queue_dequeue(struct input_queue *queue, size_t count, struct message *message)
{
    if (!input_queue_peek(queue, count, message))
        return false;
    advance(queue, count);
    return true;
}

void input_queue_discard(struct input_queue *queue, size_t count)
{
    retire_message(queue);
    advance(queue, count);
    retire_message(queue);
}

unsigned char input_queue_at(const struct input_queue *queue, size_t index)
{
    assert(index < queue->length);
    const struct segment *segment = queue->head;
    while (index >= segment_length(segment)) {
        index -= segment_length(segment);
        segment = segment->next;
    }
    return segment->data[segment->start + index];
}
