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
 * - A thread that takes and gives back all the time opens a segment_cache: nearly every take then
 *   finds a segment that this thread has given back, and no lock is taken. A thread without one
 *   shares the pool with all others.
 * - buffer_factory_destroy() wants every segment back first, and every cache closed: what is out
 *   then is a leak of ours.
 */
#ifndef COMMON_BUFFER_FACTORY_H
#define COMMON_BUFFER_FACTORY_H

#include "common/base/lock.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link_verbs;

/**
 * A block of memory for bytes. Readable are data[start] up to, not including, data[end]; what lies
 * behind end, up to SEGMENT_SIZE, is free room. The block of an input queue can also be a larger
 * one of the heap. An output queue is a chain of segments; it can have links without room of their
 * own, too, which the parts of the queue make (output_parts.h).
 */
struct segment {
    struct segment *next;
    size_t start;
    size_t end;
    union {
        struct {               /* of an input queue */
            uint32_t capacity; /* bytes of data; more than SEGMENT_SIZE: it is of the heap */
            uint32_t searched; /* that many bytes in front contain no searched_for */
        };
        struct {                            /* of an output queue */
            const struct link_verbs *verbs; /* of a link; NULL: the bytes are in data */
            void *object;                   /* the part's: what the bytes belong to */
            uint64_t offset;                /* a file can be longer than a size_t counts */
            uint64_t left;
        };
    };
    unsigned char data[];
};

enum {
    /** One segment with its header fills a page. */
    SEGMENT_SIZE = 4096 - (int)sizeof(struct segment),

    /** A limit for the cache of a thread that serves many connections: 64 KiB. */
    SEGMENT_CACHE_LIMIT = 16,
};

struct buffer_factory {
    size_t pool_limit; /* segments kept for reuse at most; never changes */
    struct mutex lock;
    struct segment *pool GUARDED_BY(&lock); /* given back, ready for the next taker */
    size_t pooled GUARDED_BY(&lock);
    size_t out GUARDED_BY(&lock); /* taken and not yet given back */
};

/** The segments that one thread keeps for itself; for the factory they are out. */
struct segment_cache {
    struct buffer_factory *factory;
    size_t limit; /* segments that it keeps at most */
    struct segment *first;
    size_t count;
};

/** Starts with an empty pool that will keep at most pool_limit segments. */
void buffer_factory_init(struct buffer_factory *factory, size_t pool_limit);

/** Frees the pool. Every segment must have been given back. */
void buffer_factory_destroy(struct buffer_factory *factory);

/** Takes an empty segment, which the caller owns. NULL without memory. */
struct segment *buffer_factory_take(struct buffer_factory *factory);

/**
 * Puts a new segment into the pool, unless that is full, for somebody who will take one soon. False
 * without memory.
 */
bool buffer_factory_stock(struct buffer_factory *factory);

/** Gives a segment back. */
void buffer_factory_give_back(struct buffer_factory *factory, struct segment *segment);

/**
 * From now on the calling thread keeps up to `limit` segments of this factory, at least one. A
 * thread has one cache: a second one, of another factory, stays empty.
 */
void segment_cache_open(struct segment_cache *cache, struct buffer_factory *factory, size_t limit);

/** Gives back what it holds. The thread that opened the cache must close it before it ends. */
void segment_cache_close(struct segment_cache *cache);

/** Segments that are taken at this moment, and in no other thread's cache but the caller's. */
size_t buffer_factory_out(struct buffer_factory *factory);

/** The readable bytes of a segment. */
static inline size_t segment_length(const struct segment *segment)
{
    return segment->end - segment->start;
}

/** The free room behind the readable bytes of a segment; a queue's own, larger ones have none. */
static inline size_t segment_room(const struct segment *segment)
{
    return segment->end < (size_t)SEGMENT_SIZE ? (size_t)SEGMENT_SIZE - segment->end : 0;
}

#endif
