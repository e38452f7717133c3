#include "common/bytes/input_queue.h"

#include "common/base/trace.h"
#include "common/bytes/socket_io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROOM_MIN = 1024, /* what a fill offers at least; mostly it is the rest of a segment */
    ROOM_OF_MANY = 4 * SEGMENT_SIZE, /* what it offers one that has filled all the room before */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void input_queue_init(struct input_queue *queue, struct buffer_factory *factory, uint32_t limit)
{
    *queue = (struct input_queue){.factory = factory, .limit = limit};
}

/* ---- The block ------------------------------------------------------------------------------ */

/* An empty block of the heap. NULL without memory. */
static struct segment *new_block(size_t capacity)
{
    struct segment *block = malloc(sizeof(*block) + capacity);
    if (block != NULL)
        *block = (struct segment){.capacity = (uint32_t)capacity};
    return block;
}

/* An empty block of that capacity or more. NULL without memory. */
static struct segment *take_block(struct input_queue *queue, size_t capacity)
{
    if (capacity > (size_t)SEGMENT_SIZE)
        return new_block(capacity);
    struct segment *block = buffer_factory_take(queue->factory);
    if (block != NULL)
        block->capacity = SEGMENT_SIZE;
    return block;
}

/* Gives a block back to where it came from. Its bytes are not needed any more. */
static void drop_block(const struct input_queue *queue, struct segment *block)
{
    if (queue->secret)
        explicit_bzero(block->data, block->end);
    if (block->capacity > (uint32_t)SEGMENT_SIZE)
        free(block);
    else
        buffer_factory_give_back(queue->factory, block);
}

void input_queue_clear(struct input_queue *queue)
{
    if (queue->block != NULL)
        drop_block(queue, queue->block);
    queue->block = NULL;
    queue->filled = false;
}

bool input_queue_retire(struct input_queue *queue)
{
    struct segment *block = queue->block;
    if (block == NULL)
        return true;
    if (block->start < block->end) {
        if (queue->secret)
            explicit_bzero(block->data, block->start);
        return false;
    }
    drop_block(queue, block);
    queue->block = NULL;
    return true;
}

/* Moves the bytes to where the block begins. */
static void close_up(const struct input_queue *queue)
{
    struct segment *block = queue->block;
    size_t length = segment_length(block);
    memmove(block->data, block->data + block->start, length);
    if (queue->secret)
        explicit_bzero(block->data + length, block->end - length);
    block->start = 0;
    block->end = length;
}

/*
 * A block with that capacity for the bytes, whose front is at the beginning of it. The heap can
 * mostly extend a large block where it is; a secret moves with us, because realloc() leaves the
 * bytes behind where they were. False without memory.
 */
static bool grow(struct input_queue *queue, size_t capacity)
{
    struct segment *old = queue->block;
    bool in_place = old->capacity > (uint32_t)SEGMENT_SIZE && old->start == 0 && !queue->secret;
    struct segment *block = in_place ? realloc(old, sizeof(*old) + capacity) : new_block(capacity);
    if (block == NULL)
        return false;
    block->capacity = (uint32_t)capacity;
    queue->block = block;
    if (in_place)
        return true;
    block->end = segment_length(old);
    block->searched = old->searched;
    memcpy(block->data, old->data + old->start, block->end);
    drop_block(queue, old);
    return true;
}

bool input_queue_make_room(struct input_queue *queue, size_t wanted)
{
    if (queue->block == NULL) {
        queue->block = take_block(queue, wanted);
        return queue->block != NULL;
    }
    const struct segment *block = queue->block;
    size_t needed = segment_length(block) + wanted;
    if (block->capacity - block->end >= wanted)
        return true;
    if (needed > block->capacity) {
        size_t doubled = smaller(2 * (size_t)block->capacity, queue->limit);
        return grow(queue, needed > doubled ? needed : doubled);
    }
    close_up(queue);
    return true;
}

/* ---- Bytes that come ------------------------------------------------------------------------ */

/* Nothing has come; if the queue is empty, it needs no block. Keeps errno. */
static void retire_unfilled(struct input_queue *queue)
{
    int error = errno;
    input_queue_retire(queue);
    errno = error;
}

ssize_t input_queue_fill(struct input_queue *queue, int fd)
{
    size_t room = queue->limit;
    if (queue->block != NULL && !input_queue_retire(queue))
        room -= segment_length(queue->block);
    if (room == 0) {
        errno = ENOBUFS;
        return -1;
    }
    if (!input_queue_make_room(queue, smaller(room, queue->filled ? ROOM_OF_MANY : ROOM_MIN))) {
        errno = ENOMEM;
        return -1;
    }
    struct segment *block = queue->block;
    struct iovec iov = {block->data + block->end, smaller(room, block->capacity - block->end)};
    ssize_t received = socket_receive(fd, &iov, 1);
    if (received >= 0)
        trace_event(TRACE_RECEIVE, fd, received);
    queue->filled = received == (ssize_t)iov.iov_len;
    if (received > 0)
        block->end += (size_t)received;
    else
        retire_unfilled(queue);
    return received;
}

/* ---- Bytes that are there ------------------------------------------------------------------- */

bool input_queue_index_of(struct input_queue *queue, unsigned char wanted, size_t *index)
{
    struct segment *block = queue->block;
    if (block == NULL)
        return false;
    size_t from = queue->searched_for == wanted ? block->searched : 0;
    const unsigned char *front = block->data + block->start;
    const unsigned char *found = memchr(front + from, wanted, segment_length(block) - from);
    if (found != NULL) {
        *index = (size_t)(found - front);
        return true;
    }
    queue->searched_for = wanted;
    block->searched = (uint32_t)segment_length(block);
    return false;
}

/* The block stays for the message. The one before has been used, so a secret is wiped. */
struct message input_queue_dequeue(struct input_queue *queue, size_t count)
{
    struct segment *block = queue->block;
    assert(block != NULL && count > 0 && count <= segment_length(block));
    if (queue->secret)
        explicit_bzero(block->data, block->start);
    block->start += count;
    block->searched = block->searched > count ? block->searched - (uint32_t)count : 0;
    return (struct message){block->data + block->start - count, count};
}

unsigned char input_queue_at(const struct input_queue *queue, size_t index)
{
    assert(index < input_queue_length(queue));
    return queue->block->data[queue->block->start + index];
}
