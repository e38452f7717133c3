/*
 * What an event loop leaves for others to read: how late it is, where it is, and what it holds.
 *
 * The number by which a loop is run is its lag: how long an event that comes while the loop is busy
 * waits before the loop looks at it. That is the time from one return of select to the next call:
 * loop_woke() and loop_sleeps() read the clock there. So a round costs two such looks, an increment
 * of a histogram and some plain stores, an event costs one store, and a message nothing.
 *
 * Interface:
 * - The functions belong to the loop's thread. Any thread may read the atomics meanwhile: they are
 *   copies for readers, so they need no order among each other. watch.h reads them.
 * - The loop calls loop_serves() before it calls a connection's handler, whatever that is for: an
 *   event, a turn, a timer, or the stop. If loop_is_asked(), it counts what its connections hold,
 *   and calls loop_answers().
 */
#ifndef COMMON_LOOP_H
#define COMMON_LOOP_H

#include "common/base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /** Four for each power of two of microseconds; the last one is for all above 2^31 of them. */
    LOOP_LAG_BUCKETS = 121,
    LOOP_NOBODY = -1, /* instead of a descriptor */
};

/** All zero at the start. */
struct loop {
    /* Only the loop writes these. */
    atomic_int_least64_t awake_since; /* ns of the monotonic clock; 0: it sleeps */
    atomic_int fd;                    /* whose handler it calls, or has called last in this round */
    atomic_size_t timers;             /* that are set */
    atomic_uint_least32_t lag[LOOP_LAG_BUCKETS]; /* rounds */

    /* Another thread asks, and the loop answers at its next round: a walk over its connections. */
    atomic_uint_least32_t asked;
    atomic_uint_least32_t answered;
    atomic_uint_least64_t output_held; /* bytes that wait to be sent */
    atomic_uint_least64_t input_held;  /* bytes that wait to be handled */
};

/** The bucket of a lag, in microseconds. */
static inline unsigned loop_bucket(uint64_t us)
{
    if (us < 4)
        return (unsigned)us;
    unsigned power = 63 - (unsigned)__builtin_clzll(us);
    return power < 31 ? 4 * (power - 1) + (unsigned)((us >> (power - 2)) & 3)
                      : LOOP_LAG_BUCKETS - 1;
}

/** The largest lag of a bucket, in microseconds. */
static inline uint64_t loop_bucket_end(unsigned bucket)
{
    if (bucket < 4)
        return bucket;
    unsigned power = bucket / 4 + 1;
    return ((uint64_t)(5 + bucket % 4) << (power - 2)) - 1;
}

/* Only one thread writes, so this needs no locked instruction. */
static inline void loop_count(struct loop *loop, int64_t ns)
{
    atomic_uint_least32_t *rounds = &loop->lag[loop_bucket((uint64_t)ns / 1000)];
    uint32_t before = atomic_load_explicit(rounds, memory_order_relaxed);
    atomic_store_explicit(rounds, before + 1, memory_order_relaxed);
}

/** Select has returned. The time of that, in ms of clock_ms(). */
static inline int64_t loop_woke(struct loop *loop)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int64_t since = atomic_load_explicit(&loop->awake_since, memory_order_relaxed);
    if (since != 0)
        loop_count(loop, ns - since); /* there was more to do, so it has not slept */
    atomic_store_explicit(&loop->awake_since, ns, memory_order_relaxed);
    return ns / 1000000;
}

/** It is about to call the handler of that connection; LOOP_NOBODY: what is no connection's. */
static inline void loop_serves(struct loop *loop, int fd)
{
    atomic_store_explicit(&loop->fd, fd, memory_order_relaxed);
}

/** The loop is about to sleep in select. The time, in ms of clock_ms(). */
static inline int64_t loop_sleeps(struct loop *loop, size_t timers)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int64_t since = atomic_load_explicit(&loop->awake_since, memory_order_relaxed);
    if (since != 0)
        loop_count(loop, ns - since);
    atomic_store_explicit(&loop->timers, timers, memory_order_relaxed);
    loop_serves(loop, LOOP_NOBODY);
    atomic_store_explicit(&loop->awake_since, 0, memory_order_relaxed);
    return ns / 1000000;
}

/** Whether somebody has asked since the last answer. */
static inline bool loop_is_asked(const struct loop *loop)
{
    return atomic_load(&loop->asked) != atomic_load(&loop->answered);
}

/** The answer to all that have asked so far. */
static inline void loop_answers(struct loop *loop, uint64_t output_held, uint64_t input_held)
{
    uint32_t asked = atomic_load_explicit(&loop->asked, memory_order_relaxed);
    atomic_store_explicit(&loop->output_held, output_held, memory_order_relaxed);
    atomic_store_explicit(&loop->input_held, input_held, memory_order_relaxed);
    atomic_store_explicit(&loop->answered, asked, memory_order_release);
}

#endif
