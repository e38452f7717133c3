/*
 * The selector guard (Hitchens, "Reader/Writer Lock Barrier" and "Selector Guard Implementation"):
 * how other threads get at the selector while the dispatcher would sleep.
 *
 * selector_select() holds the selector's lock while it sleeps, so a thread that only asked for that
 * lock would wait until some event ends the sleep. A wakeup ends the sleep, but that alone is not
 * enough: the dispatcher would be back in select before the other thread has the lock. So there is
 * a second lock, in this order:
 *
 *   anybody:    take the guard for reading, wake the selector, change it, let the guard go
 *   dispatcher: take the guard for writing and let it go again, before each select: the barrier
 *
 * Stage 3's guard was a plain lock; of a read/write lock many may hold the reader's side at once,
 * and all of them get through in one wakeup cycle.
 *
 * Interface:
 * - The steps have this order and no other: a wakeup before the guard is taken can be used up by a
 *   round of the loop that meets no barrier.
 * - Readers are not kept apart by the guard; the selector's own lock does that.
 * - The lock prefers writers, so that a stream of readers cannot keep the dispatcher out; and the
 *   dispatcher lets go at once, so that it cannot keep readers out.
 * - It is held for a moment only, and never around anything that blocks.
 */
#ifndef SELECTOR_GUARD_H
#define SELECTOR_GUARD_H

#include "common/base/options.h"
#include "common/events/selector.h"

struct selector_guard {
    struct rwlock lock;
    struct selector *selector;
    bool works; /* false with --guard none, to see what it is good for */
};

void selector_guard_init(struct selector_guard *guard, struct selector *selector, bool works);
void selector_guard_destroy(struct selector_guard *guard);

/** The dispatcher's thread, before it selects: lets those through who hold the guard. */
void selector_guard_barrier(struct selector_guard *guard) EXCLUDES(&guard->lock);

/** Any other thread, before it changes the selector: it is awake then, or soon, and stays so. */
void selector_guard_acquire(struct selector_guard *guard) ACQUIRE_SHARED(&guard->lock);

/** And afterwards. */
void selector_guard_release(struct selector_guard *guard) RELEASE_SHARED(&guard->lock);

/** The option --guard, which sets *works. */
struct option selector_guard_option(bool *works);

#endif
