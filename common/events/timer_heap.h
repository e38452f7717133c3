/*
 * Timers: what comes next, out of many moments that change all the time.
 *
 * A binary heap. The first timer is at its top; setting, moving and cancelling one costs a few
 * steps up or down, the logarithm of how many there are. Most timers of a server never fire: a
 * client that talks has its deadline moved again and again. So an owner need not move a timer to a
 * later moment. It lets it fire, sees that there is time left, and sets it anew: once in a timeout
 * instead of once for each message.
 *
 * Interface:
 * - One thread at a time, without a lock.
 * - A timer lives in its owner, all zero before it is set first, and stays where it is while set.
 * - Only setting a timer that is not set may need memory.
 * - Moments are milliseconds of any clock that the owner reads. The heap reads none.
 */
#ifndef COMMON_TIMER_HEAP_H
#define COMMON_TIMER_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer {
    int64_t moment;
    size_t place; /* in the heap, counted from one; 0: not set */
};

struct timer_heap {
    struct timer **timers;
    size_t count;
    size_t capacity;
};

void timer_heap_init(struct timer_heap *heap);

/** Frees the heap. Timers that are still set are forgotten, and not touched. */
void timer_heap_destroy(struct timer_heap *heap);

/** Sets a timer, or moves one that is set. False without memory; it is not set then. */
bool timer_heap_set(struct timer_heap *heap, struct timer *timer, int64_t moment);

/** Takes a timer out; one that is not set is left alone. */
void timer_heap_cancel(struct timer_heap *heap, struct timer *timer);

/** Moves a set timer to an earlier moment; one that fires before that anyway stays. */
static inline void timer_heap_set_by(struct timer_heap *heap, struct timer *timer, int64_t moment)
{
    if (moment < timer->moment)
        timer_heap_set(heap, timer, moment); /* it is set already, so this needs no memory */
}

/** A timer whose moment has come; NULL if there is none. It stays set. */
struct timer *timer_heap_due(const struct timer_heap *heap, int64_t now);

/** How long to sleep until the first moment, in ms for a selector: -1 if there is nothing to wait
 * for. */
int timer_heap_timeout(const struct timer_heap *heap, int64_t now);

/** Has every timer fire at that moment. */
void timer_heap_set_all(struct timer_heap *heap, int64_t moment);

/** The timer whose moment comes first; NULL if none is set. */
struct timer *timer_heap_first(const struct timer_heap *heap);

static inline bool timer_is_set(const struct timer *timer)
{
    return timer->place != 0;
}

#endif
