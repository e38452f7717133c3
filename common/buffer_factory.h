/*
 * Where the queues get their room: segments of one fixed size.
 *
 * Hitchens' advice ("Tuning": use buffer factories to obtain space for queues; "Danger": do not
 * allocate statically per channel). A connection that has nothing in flight holds no segment at
 * all, so ten thousand idle connections cost no buffer memory. Segments that come back are kept for
 * the next taker up to a limit; past it they go back to the heap.
 *
 * Interface:
 * - All calls are safe from any thread.
 * - A segment belongs to whoever took it until it is given back, exactly once, to the same factory.
 * - buffer_factory_destroy() wants every segment back first: what is out then is a leak of ours.
 */
#ifndef COMMON_BUFFER_FACTORY_H
#define COMMON_BUFFER_FACTORY_H

#include "lock.h"

#include <stdbool.h>
#include <stddef.h>

struct shared_file;
struct shared_message;

/**
 * A link of a queue's chain. Readable bytes are data[start] up to, not including, data[end];
 * what lies behind end, up to SEGMENT_SIZE, is free room. An output queue also has links without
 * room of their own, whose bytes lie in a message that several queues share, or in a file from
 * start to end.
 */
struct segment {
    struct segment *next;
    size_t start;
    size_t end;
    struct shared_message *shared; /* the bytes are there */
    struct shared_file *file;      /* the bytes are there; neither: they are in data */
    unsigned char data[];
};

enum {
    /** One segment with its header fills a page. */
    SEGMENT_SIZE = 4096 - (int)sizeof(struct segment),
};

struct buffer_factory {
    size_t pool_limit; /* segments kept for reuse at the most; never changes */
    struct mutex lock;
    struct segment *pool GUARDED_BY(&lock); /* given back, ready for the next taker */
    size_t pooled GUARDED_BY(&lock);
    size_t out GUARDED_BY(&lock); /* taken and not yet given back */
};

/** Starts with an empty pool that will keep at most pool_limit segments. */
void buffer_factory_init(struct buffer_factory *factory, size_t pool_limit);

/** Frees the pool. Every segment must have been given back. */
void buffer_factory_destroy(struct buffer_factory *factory);

/**
 * Takes count empty segments, linked through next. The caller owns them.
 * NULL if there is no memory for all of them; nothing is taken then.
 */
struct segment *buffer_factory_take(struct buffer_factory *factory, size_t count);

/**
 * Puts count new segments into the pool, as far as it takes them, for somebody who will take one
 * soon. False if there is no memory for them.
 */
bool buffer_factory_stock(struct buffer_factory *factory, size_t count);

/** Gives back a whole chain, linked through next and ended by NULL; NULL is an empty chain. */
void buffer_factory_give_back(struct buffer_factory *factory, struct segment *chain);

/** Segments that are taken at this moment. */
size_t buffer_factory_out(struct buffer_factory *factory);

/** Segments that wait in the pool at this moment. */
size_t buffer_factory_pooled(struct buffer_factory *factory);

/** The readable bytes of a segment. */
static inline size_t segment_length(const struct segment *segment)
{
    return segment->end - segment->start;
}

/** The free room behind the readable bytes of a segment. */
static inline size_t segment_room(const struct segment *segment)
{
    return (size_t)SEGMENT_SIZE - segment->end;
}

#endif
