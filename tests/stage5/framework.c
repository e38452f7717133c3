/*
 * The dispatchers in threads of the test: see framework.h.
 */
#include "framework.h"

#include "common/base/clock.h"
#include "common/server/connection_shared.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STAGE_NAME "stage5-multireactor"

struct chosen {
    const struct selector_provider *provider;
    size_t dispatchers;
    size_t helpers;
    bool guard_works;
};

static void stage_options(struct framework *framework, struct options *options,
                          struct chosen *chosen)
{
    options_add(options, dispatcher_pool_option(&chosen->dispatchers));
    options_set_default(options, "--dispatchers", "1");
    executor_options_or_none(options, &framework->choice);
}

static int stage_open(struct framework *framework, const struct chosen *chosen,
                      struct executor *executor)
{
    return dispatcher_pool_open(&framework->pool, chosen->dispatchers, &framework->server, executor,
                                &framework->admission, chosen->provider, chosen->guard_works);
}

static int stage_start(struct framework *framework)
{
    return dispatcher_pool_start(&framework->pool);
}

static struct dispatcher *stage_next(struct framework *framework)
{
    return dispatcher_pool_next(&framework->pool);
}

static void stage_join(struct framework *framework)
{
    dispatcher_pool_stop(&framework->pool);
}

static void stage_close(struct framework *framework)
{
    dispatcher_pool_close(&framework->pool);
}

struct dispatcher *framework_dispatchers(struct framework *framework, size_t *count)
{
    *count = framework->pool.count;
    return framework->pool.dispatchers;
}

uint64_t framework_count(const struct framework *framework, enum counter counter)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < framework->pool.count; i++) {
        sum += counters_get(&framework->pool.dispatchers[i].counters, counter);
    }
    return sum;
}

#include "inside/framework_parts.h"
