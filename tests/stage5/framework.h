/*
 * Stage 5 from inside (tests/inside/framework.h): a pool of dispatchers: one of them unless the
 * options say otherwise, and no workers.
 */
#ifndef TESTS_STAGE_FRAMEWORK_H
#define TESTS_STAGE_FRAMEWORK_H

#include "dispatcher_pool.h"

#define FRAMEWORK_DISPATCHERS struct dispatcher_pool pool

#include "inside/framework.h"

/** Before framework_stop(): the dispatcher that runs strands (strands.h) may end. */
#define framework_let_go(host) strands_let_go(host)

#ifndef IN_THE_DISPATCHER
#define IN_THE_DISPATCHER "--workers 0"
#endif

/** Two tests: with the handlers in the dispatcher, and in workers; `workers` is the option. */
#define WaysTest(suite, name)                                                                      \
    static void suite##_##name(const char *workers);                                               \
    Test(suite, name##_in_the_dispatcher)                                                          \
    {                                                                                              \
        suite##_##name(IN_THE_DISPATCHER);                                                         \
    }                                                                                              \
    Test(suite, name##_in_a_worker)                                                                \
    {                                                                                              \
        suite##_##name("--workers 2");                                                             \
    }                                                                                              \
    static void suite##_##name(const char *workers)

#endif
