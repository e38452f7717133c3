/*
 * The dispatcher in a thread of the test: see framework.h.
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

#define STAGE_NAME "stage4-framework"

struct chosen {
    const struct selector_provider *provider;
    size_t helpers;
    bool guard_works;
};

static void stage_options(struct framework *framework, struct options *options,
                          struct chosen *chosen)
{
    (void)chosen;
    executor_options(options, &framework->choice);
}

static int stage_open(struct framework *framework, const struct chosen *chosen,
                      struct executor *executor)
{
    return dispatcher_open(&framework->dispatcher, &framework->server, executor,
                           &framework->admission, chosen->provider, chosen->guard_works);
}

static int stage_start(struct framework *framework)
{
    return dispatcher_start(&framework->dispatcher);
}

static struct dispatcher *stage_next(struct framework *framework)
{
    return &framework->dispatcher;
}

static void stage_join(struct framework *framework)
{
    dispatcher_join(&framework->dispatcher, INT64_MAX / 2);
}

static void stage_close(struct framework *framework)
{
    dispatcher_close(&framework->dispatcher);
}

struct dispatcher *framework_dispatchers(struct framework *framework, size_t *count)
{
    *count = 1;
    return &framework->dispatcher;
}

uint64_t framework_count(const struct framework *framework, enum counter counter)
{
    return counters_get(&framework->server.counters, counter);
}

#include "inside/framework_parts.h"
