/*
 * The pace, with times made up: nothing here waits.
 */
#include "common/bytes/pace.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>

TestSuite(pace, .timeout = 120);

static const int64_t begin = 5000000000000; /* the clock's time is not the rate's */
static const int64_t millisecond = 1000000;
static const int64_t second = 1000000000;

/* What leaves in so long if always so much waits and each sleep ends `late` after its time. */
static uint64_t bytes_in(struct pace *pace, int64_t span, size_t waiting, int64_t late)
{
    uint64_t bytes = 0;
    int64_t now = begin;
    while (now < begin + span) {
        size_t allowance = pace_allowance(pace, now);
        size_t here = allowance < waiting ? allowance : waiting;
        pace_spend(pace, here, now);
        bytes += here;
        int64_t due = pace_due(pace, waiting);
        now = due > now ? due + late : now;
    }
    return bytes;
}

static void expect_rate(uint64_t rate, int64_t span, size_t waiting, int64_t late)
{
    struct pace pace;
    pace_set(&pace, rate, begin);
    double expected = (double)rate * (double)span / (double)second;
    double bytes = (double)bytes_in(&pace, span, waiting, late);
    cr_assert(bytes > expected * 0.98 && bytes < expected * 1.03,
              "%" PRIu64 " B/s, %zu waiting: %.0f bytes instead of %.0f", rate, waiting, bytes,
              expected);
}

Test(pace, without_a_rate_everything_may_leave)
{
    struct pace pace = {0};
    cr_assert_eq(pace_allowance(&pace, begin), SIZE_MAX);
    pace_spend(&pace, 1000000, begin);
    cr_assert_eq(pace_allowance(&pace, begin), SIZE_MAX);
}

Test(pace, nothing_is_saved_at_the_beginning)
{
    struct pace pace;
    pace_set(&pace, 1000, begin);
    cr_assert_eq(pace_allowance(&pace, begin), 0u);
    cr_assert_eq(pace_allowance(&pace, begin + 10 * millisecond), 10u);
}

/* However long it was silent. */
Test(pace, no_more_is_saved_than_a_burst)
{
    struct pace pace;
    pace_set(&pace, 1000000, begin);
    cr_assert_eq(pace_allowance(&pace, begin + 3600 * second), 1000000u * PACE_BURST_MS / 1000);
    pace_spend(&pace, 50000, begin + 3600 * second);
    cr_assert_eq(pace_allowance(&pace, begin + 3600 * second), 0u);
}

Test(pace, what_was_spent_too_much_is_paid_back)
{
    struct pace pace;
    pace_set(&pace, 1000, begin);
    pace_spend(&pace, 3000, begin);
    cr_assert_eq(pace_allowance(&pace, begin + second), 0u);
    cr_assert_eq(pace_allowance(&pace, begin + 3 * second + 10 * millisecond), 10u);
}

Test(pace, slow_ones_send_byte_by_byte)
{
    struct pace pace;
    pace_set(&pace, 5, begin);
    cr_assert_eq(pace_due(&pace, 100), begin + 200 * millisecond);
    cr_assert_eq(pace_allowance(&pace, begin + 200 * millisecond - 1), 0u);
    cr_assert_eq(pace_allowance(&pace, begin + 200 * millisecond), 1u);
}

Test(pace, fast_ones_wait_for_a_quantum_or_for_what_there_is)
{
    struct pace pace;
    pace_set(&pace, 1000000, begin);
    cr_assert_eq(pace_due(&pace, 1000000), begin + PACE_QUANTUM_MS * millisecond);
    cr_assert_eq(pace_due(&pace, 1000), begin + millisecond);
}

/* Where an int in the arithmetic would turn 5 MB/s into a crawl (case 38). */
Test(pace, case_38_rates_from_one_byte_to_gigabytes)
{
    const uint64_t rates[] = {1,       3,       5,       7,        1000,       10000,     65536,
                              4294967, 4294968, 5000000, 50000000, 4294967296, 9999999999};
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        expect_rate(rates[i], rates[i] < 100 ? 200 * second : 5 * second, 65536, 0);
        expect_rate(rates[i], rates[i] < 100 ? 200 * second : 5 * second, 100000000, 0);
    }
}

/* A sleep ends some time after its moment; what that costs is made up for. */
Test(pace, late_wakeups_do_not_add_up)
{
    expect_rate(5, 200 * second, 100, 3 * millisecond);
    expect_rate(10000, 10 * second, 65536, 3 * millisecond);
    expect_rate(50000000, 10 * second, 1000000, 3 * millisecond);
}

Test(pace, a_rate_past_the_highest_is_the_highest)
{
    struct pace pace;
    pace_set(&pace, UINT64_MAX, begin);
    cr_assert_eq(pace.rate, PACE_MAX_RATE);
    pace_spend(&pace, SIZE_MAX / 2, begin);
    cr_assert_eq(pace_allowance(&pace, begin + second), 0u);
}
