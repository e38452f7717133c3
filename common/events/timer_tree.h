/*
 * Timers that need no memory but their own: what an application sets for its connections.
 *
 * timer_heap.h keeps an array, so setting a timer there can fail, and its owner has to have an
 * answer to that. Here the timers themselves are the tree: a pairing heap (Fredman, Sedgewick,
 * Sleator and Tarjan, 1986), of which each node knows its first child and its two neighbours. So
 * setting one always works. It costs a comparison; taking out the first one costs the logarithm of
 * how many there are, on average. A timer here is twice as large as one of the heap, which is why
 * the time limit that every connection carries is still one of those.
 *
 * Interface:
 * - One thread at a time, without a lock.
 * - A timer lives in its owner, all zero before it is set first, and stays where it is while set.
 * - Moments are milliseconds of any clock that the owner reads. The tree reads none.
 * - Timers of the same moment come out in no particular order.
 */
#ifndef COMMON_TIMER_TREE_H
#define COMMON_TIMER_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tree_timer {
    int64_t moment;
    struct tree_timer *child;    /* the first of those below it */
    struct tree_timer *next;     /* its neighbour, under the same parent */
    struct tree_timer *previous; /* its other neighbour; of a first child the parent */
};

/** Starts as all zero: no timer is set. */
struct timer_tree {
    struct tree_timer *first; /* the timer whose moment comes first; NULL if none is set */
};

static inline bool tree_timer_is_set(const struct timer_tree *tree, const struct tree_timer *timer)
{
    return timer->previous != NULL || tree->first == timer;
}

/** Sets a timer, or moves one that is set in this tree. */
void timer_tree_set(struct timer_tree *tree, struct tree_timer *timer, int64_t moment);

/** Takes a timer out; one that is not set is left alone. */
void timer_tree_cancel(struct timer_tree *tree, struct tree_timer *timer);

/** When the first one is due; INT64_MAX: none is set. */
static inline int64_t timer_tree_moment(const struct timer_tree *tree)
{
    return tree->first != NULL ? tree->first->moment : INT64_MAX;
}

/** Takes out a timer whose moment has come; NULL if there is none. */
struct tree_timer *timer_tree_take_due(struct timer_tree *tree, int64_t now);

#endif
