#include "selector_guard.h"

#include "common/base/test_point.h"
#include "common/base/trace.h"

#include <string.h>

void selector_guard_init(struct selector_guard *guard, struct selector *selector, bool works)
{
    *guard = (struct selector_guard){.selector = selector, .works = works};
    rwlock_init(&guard->lock);
}

void selector_guard_destroy(struct selector_guard *guard)
{
    rwlock_destroy(&guard->lock);
}

void selector_guard_barrier(struct selector_guard *guard)
{
    if (!guard->works)
        return;
    TEST_POINT("guard: barrier");
    trace_event(TRACE_BARRIER, TRACE_NO_CONNECTION, 0);
    rwlock_lock(&guard->lock); /* may wait here for readers */
    rwlock_unlock(&guard->lock);
    trace_event(TRACE_BARRIER_PASSED, TRACE_NO_CONNECTION, 0);
}

void selector_guard_acquire(struct selector_guard *guard) NO_THREAD_SAFETY_ANALYSIS
{
    if (!guard->works)
        return;
    rwlock_lock_shared(&guard->lock);
    trace_event(TRACE_GUARD, TRACE_NO_CONNECTION, 0);
    TEST_POINT("guard: held");
    selector_wakeup(guard->selector);
}

void selector_guard_release(struct selector_guard *guard) NO_THREAD_SAFETY_ANALYSIS
{
    if (!guard->works) {
        selector_wakeup(guard->selector); /* so it is after the change, which has had to wait */
        return;
    }
    trace_event(TRACE_GUARD_RELEASED, TRACE_NO_CONNECTION, 0);
    rwlock_unlock_shared(&guard->lock);
}

static bool parse_guard(const struct option *option, const char *text)
{
    bool *works = option->target;
    *works = strcmp(text, "lock") == 0;
    return *works || strcmp(text, "none") == 0;
}

struct option selector_guard_option(bool *works)
{
    return (struct option){.name = "--guard",
                           .value = "KIND",
                           .default_text = "lock",
                           .help = "lock, or none: shows how a registration waits without a guard",
                           .expects = "one of lock, none",
                           .parse = parse_guard,
                           .target = works};
}
