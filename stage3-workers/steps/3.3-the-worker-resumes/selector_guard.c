#include "selector_guard.h"

void selector_guard_init(struct selector_guard *guard, struct selector *selector)
{
    guard->selector = selector;
    mutex_init(&guard->lock);
}

void selector_guard_destroy(struct selector_guard *guard)
{
    mutex_destroy(&guard->lock);
}

void selector_guard_acquire(struct selector_guard *guard)
{
    mutex_lock(&guard->lock);
}

void selector_guard_release(struct selector_guard *guard)
{
    mutex_unlock(&guard->lock);
}
