/*
 * Stage 4 from inside (tests/inside/framework.h): its one dispatcher.
 */
#ifndef TESTS_STAGE_FRAMEWORK_H
#define TESTS_STAGE_FRAMEWORK_H /* of the one whose suite this is: the tests of 4 are in 5, too */

#include "dispatcher.h"

#define FRAMEWORK_DISPATCHERS struct dispatcher dispatcher

#include "inside/framework.h"

/** Before framework_stop(): the dispatcher that runs strands (strands.h) may end. */
#define framework_let_go(host) ((void)(host))

/** A test with its handlers in workers; `workers` is the option. In stage 5 the same body makes
 * two. */
#define WaysTest(suite, name)                                                                      \
    static void suite##_##name(const char *workers);                                               \
    Test(suite, name)                                                                              \
    {                                                                                              \
        suite##_##name("--workers 2");                                                             \
    }                                                                                              \
    static void suite##_##name(const char *workers)

#endif
