#include "selector_guard.h"

#include "common/trace.h"

#include <string.h>

void selector_guard_init(struct selector_guard *guard, struct selector *selector, bool wakes)
{
    *guard = (struct selector_guard){.selector = selector, .wakes = wakes};
    mutex_init(&guard->lock);
}

void selector_guard_destroy(struct selector_guard *guard)
{
    mutex_destroy(&guard->lock);
}

void selector_guard_barrier(struct selector_guard *guard)
{
    trace_event(TRACE_BARRIER, TRACE_NO_CONNECTION, 0);
    mutex_lock(&guard->lock);
    mutex_unlock(&guard->lock);
    trace_event(TRACE_BARRIER_PASSED, TRACE_NO_CONNECTION, 0);
}

void selector_guard_acquire(struct selector_guard *guard)
{
    mutex_lock(&guard->lock);
    trace_event(TRACE_GUARD, TRACE_NO_CONNECTION, 0);
    if (guard->wakes)
        selector_wakeup(guard->selector);
}

void selector_guard_release(struct selector_guard *guard)
{
    trace_event(TRACE_GUARD_RELEASED, TRACE_NO_CONNECTION, 0);
    mutex_unlock(&guard->lock);
}

static bool read_guard(const struct option *option, const char *text)
{
    bool *wakes = option->target;
    *wakes = strcmp(text, "lock") == 0;
    return *wakes || strcmp(text, "none") == 0;
}

struct option selector_guard_option(bool *wakes)
{
    return (struct option){.name = "--guard",
                           .value = "KIND",
                           .standard = "lock",
                           .help = "lock; none leaves the wakeup out, to show its worth",
                           .takes = "one of lock, none",
                           .read = read_guard,
                           .target = wakes};
}
