/*
 * The selector guard (Hitchens, "Reader/Writer Lock Barrier" and "Selection Guard Implementation"):
 * how other threads change the selector although the dispatcher sleeps in it.
 *
 * selector_select() holds the selector's lock while it sleeps, so a thread that only asked for that
 * lock would wait until some event ends the sleep. A wakeup ends the sleep, but that alone is not
 * enough: the dispatcher would be back in select before the other thread has the lock. So there is
 * a second lock, in this order:
 *
 *   others:     take the guard for reading, wake the selector, change it, release the guard
 *   dispatcher: take the guard for writing and release it, before each select: the barrier
 *
 * Stage 3's guard was a mutex. Many threads may hold the reader's side of a read/write lock at
 * once, so all of them get through in one wakeup cycle.
 *
 * Interface:
 * - The steps have this order and no other: a wakeup before the guard is taken can be used up by a
 *   round of the loop that meets no barrier.
 * - Readers are not kept apart by the guard; the selector's own lock does that.
 * - With glibc the lock prefers writers, so that a stream of readers cannot keep the dispatcher
 *   out; and the dispatcher releases it at once, so that it cannot keep readers out.
 * - It is held for a moment only, and never around anything that blocks.
 */
#ifndef SELECTOR_GUARD_H
#define SELECTOR_GUARD_H

#include "common/base/options.h"
#include "common/base/rwlock.h"
#include "common/events/selector.h"

struct selector_guard {
    struct rwlock lock;
    struct selector *selector;
    bool works; /* false with --guard none, which shows what happens without */
};

void selector_guard_init(struct selector_guard *guard, struct selector *selector, bool works);
void selector_guard_destroy(struct selector_guard *guard);

/** The dispatcher's thread, before it selects: waits for the threads that hold the guard. */
void selector_guard_barrier(struct selector_guard *guard) EXCLUDES(&guard->lock);

/**
 * Any other thread, before it changes the selector: ends the select of now, if there is one, and
 * lets no other begin before the guard is released.
 */
void selector_guard_acquire(struct selector_guard *guard) ACQUIRE_SHARED(&guard->lock);

/** Any other thread, after it has changed the selector. */
void selector_guard_release(struct selector_guard *guard) RELEASE_SHARED(&guard->lock);

/** The option --guard, which sets *works. */
struct option selector_guard_option(bool *works);

#endif
