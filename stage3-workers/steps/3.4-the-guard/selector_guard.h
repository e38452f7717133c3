/*
 * The selector guard: how a worker gets at the selector although the reactor sleeps in it.
 *
 * selector_select() holds the selector's lock while it sleeps. So a worker takes this lock first,
 * and then wakes the reactor, which takes this lock too before it selects again: it has to wait
 * until the worker has changed what it wanted to change.
 *
 * Interface:
 * - The order is: take the guard, wake the selector, change it, let the guard go. The wakeup must
 *   not come first: the reactor could be awake and asleep again before the guard is taken.
 * - The reactor takes the guard and lets it go before each select.
 * - It is held for a moment only, and never around anything that blocks.
 */
#ifndef SELECTOR_GUARD_H
#define SELECTOR_GUARD_H

#include "common/base/lock.h"
#include "common/events/selector.h"

struct selector_guard {
    struct mutex lock;
    struct selector *selector;
};

void selector_guard_init(struct selector_guard *guard, struct selector *selector);
void selector_guard_destroy(struct selector_guard *guard);

/** A worker, before it changes anything: the selector is awake then, or soon, and stays so. */
void selector_guard_acquire(struct selector_guard *guard) ACQUIRE(&guard->lock);

/** And afterwards. */
void selector_guard_release(struct selector_guard *guard) RELEASE(&guard->lock);

#endif
