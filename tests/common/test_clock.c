/*
 * The clock: milliseconds, and never backwards.
 */
#include "common/base/clock.h"

#include <criterion/criterion.h>

TestSuite(clock, .timeout = 120);

Test(clock, counts_the_milliseconds_of_the_monotonic_clock)
{
    struct timespec before;
    struct timespec after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    int64_t now = clock_ms();
    clock_gettime(CLOCK_MONOTONIC, &after);
    cr_assert_geq(now, (int64_t)before.tv_sec * 1000 + before.tv_nsec / 1000000);
    cr_assert_leq(now, (int64_t)after.tv_sec * 1000 + after.tv_nsec / 1000000);
}

Test(clock, never_runs_backwards)
{
    int64_t last = clock_ms();
    for (int i = 0; i < 100000; i++) {
        int64_t now = clock_ms();
        cr_assert_geq(now, last);
        last = now;
    }
}
