/*
 * How a worker gets at the selector. In this step that is nothing but a lock: it keeps the workers,
 * and the reactor, from changing a handler's state at the same time.
 *
 * Interface: it is held for a moment only, and never around anything that blocks. (Does it keep
 * that promise?)
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

/** A worker, before it changes anything. */
void selector_guard_acquire(struct selector_guard *guard) ACQUIRE(&guard->lock);

/** And afterwards. */
void selector_guard_release(struct selector_guard *guard) RELEASE(&guard->lock);

#endif
