/*
 * The selector guard of 2006 (Hitchens, TS-1315, "The Selector Class is Kind of Cranky About
 * Threads"): a plain lock, by which a worker gets at the selector while the reactor would sleep.
 *
 * selector_select() holds the selector's lock while it sleeps, so a worker that only asked for that
 * lock would wait until some event ends the sleep. A wakeup ends the sleep, but that alone is not
 * enough: the reactor would be back in select before the worker has the lock. So there is a second
 * lock, in this order:
 *
 *   worker:  take the guard, wake the selector, change what it is interested in, let the guard go
 *   reactor: take the guard and let it go again, before each select: the barrier
 *
 * Interface:
 * - The worker's steps have this order and no other: a wakeup before the guard is taken can be used
 *   up by a round of the loop that meets no barrier.
 * - It is held for a moment only, and never around anything that blocks.
 * - It also guards what workers hand back to the reactor (see reactor.h).
 */
#ifndef SELECTOR_GUARD_H
#define SELECTOR_GUARD_H

#include "common/base/options.h"
#include "common/events/selector.h"

struct selector_guard {
    struct mutex lock;
    struct selector *selector;
    bool works; /* false with --guard none, to see what it is good for */
};

void selector_guard_init(struct selector_guard *guard, struct selector *selector, bool works);
void selector_guard_destroy(struct selector_guard *guard);

/** The reactor's thread, before it selects: lets those through who hold the guard. */
void selector_guard_barrier(struct selector_guard *guard) EXCLUDES(&guard->lock);

/** A worker, before it changes anything: the selector is awake then, or soon, and stays so. */
void selector_guard_acquire(struct selector_guard *guard) ACQUIRE(&guard->lock);

/** And afterwards. */
void selector_guard_release(struct selector_guard *guard) RELEASE(&guard->lock);

/** The option --guard, which sets *works. */
struct option selector_guard_option(bool *works);

#endif
