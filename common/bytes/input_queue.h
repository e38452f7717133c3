/*
 * Bytes that a connection has received and its handler has not handled yet (Hitchens, "Basic Queue
 * Interfaces").
 *
 * TCP is a stream: a read returns a piece of a message, or several and a half. The input queue
 * collects the pieces in one block of memory and gives them back as messages: bytes come in behind
 * the last one and leave at the front. The block is a segment of the factory; when more than that
 * has to wait, it is a larger one of the heap, which doubles. Hitchens' own queue was one fixed
 * buffer of 1024 bytes, and a longer line stopped his server forever (erratum 1); this one grows to
 * a limit, and says so when the limit is reached.
 *
 * Interface:
 * - One thread at a time, without a lock: a connection's input has one reader.
 * - A message handed out is a view into the queue. It is valid until the next call on the queue;
 *   calls with a const queue do not count.
 * - A message is handed out where it lies.
 * - What lines do not need is in input_queue_more.h: messages that end elsewhere, bytes that no
 *   socket has read, and secrets.
 * - An empty queue holds no memory, once its last message has been retired (input_queue_retire()).
 */
#ifndef COMMON_INPUT_QUEUE_H
#define COMMON_INPUT_QUEUE_H

#include "common/bytes/buffer_factory.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Contiguous bytes that the struct does not own. */
struct message {
    const unsigned char *data;
    size_t length;
};

struct input_queue {
    struct buffer_factory *factory;
    struct segment *block; /* where the bytes are; NULL: there are none */
    uint32_t limit;        /* bytes it may hold; never changes */
    uint8_t searched_for;  /* the byte of the last search */
    bool filled;           /* the last fill took all the room there was: the next one offers more */
    bool secret;           /* what leaves the queue is wiped: input_queue_more.h */
};

/** An empty queue that holds at most limit bytes. The factory has to outlive it. */
void input_queue_init(struct input_queue *queue, struct buffer_factory *factory, uint32_t limit);

/** Gives all memory back. The queue is empty and may be used again. */
void input_queue_clear(struct input_queue *queue);

/**
 * Reads what the socket has, by one socket_receive() into the room behind the last byte, which it
 * makes first. Returns the bytes read; 0 at end of stream; -1 with errno on error, among them
 * EAGAIN (nothing to read now), ENOMEM (the block cannot grow), ENOBUFS (the queue is at its
 * limit). An error leaves the bytes as they were.
 */
ssize_t input_queue_fill(struct input_queue *queue, int fd);

/**
 * Makes room for that many bytes behind the last one; the limit has to allow them. For who puts
 * them there. False without memory; the bytes are as they were then.
 */
bool input_queue_make_room(struct input_queue *queue, size_t wanted);

/**
 * Finds the first wanted byte; *index is its distance from the front. A search goes on where the
 * last one for the same byte gave up, so a long line costs one pass, however many pieces it comes
 * in.
 */
bool input_queue_index_of(struct input_queue *queue, unsigned char wanted, size_t *index);

/** Takes count bytes, which must be there, from the front and hands them out as one message. */
struct message input_queue_dequeue(struct input_queue *queue, size_t count);

/** The byte at a distance from the front, which must be there. */
unsigned char input_queue_at(const struct input_queue *queue, size_t index);

/**
 * Frees the memory that only the message handed out last still needed; call it when that message
 * has been used. True if the queue is empty; it holds no memory then. (Each call that fills the
 * queue or takes the next message out retires the last one, too.)
 */
bool input_queue_retire(struct input_queue *queue);

/** Bytes in the queue. */
static inline size_t input_queue_length(const struct input_queue *queue)
{
    return queue->block != NULL ? segment_length(queue->block) : 0;
}

/** Whether it holds as much as it may. */
static inline bool input_queue_is_full(const struct input_queue *queue)
{
    return input_queue_length(queue) >= queue->limit;
}

static inline bool input_queue_is_empty(const struct input_queue *queue)
{
    return queue->block == NULL || queue->block->start == queue->block->end;
}

#endif
