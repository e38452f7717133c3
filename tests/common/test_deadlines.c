/*
 * The deadlines, with times made up: nothing here waits.
 */
#include "common/events/deadlines.h"

#include <criterion/criterion.h>

/* The lower half of the clock, which is what a connection keeps, turns over in each test. */
static const int64_t BORN = (INT64_C(7) << 32) - 999;

static const struct deadline_limits all = {
    .idle = 1000, .request = 2000, .lifetime = 100000, .progress = 500};

static struct deadlines deadlines; /* of the one connection that a test has */

static void begin(void)
{
    deadlines_start(&deadlines, BORN);
}

TestSuite(deadlines, .timeout = 60, .init = begin);

/* The limit is passed at that moment, and not one millisecond before. */
static void assert_passes(const struct deadline_limits *limits, int64_t moment,
                          enum deadline expected)
{
    enum deadline before = deadlines_passed(&deadlines, limits, moment - 1);
    enum deadline at = deadlines_passed(&deadlines, limits, moment);
    cr_assert_eq(before, DEADLINE_NONE, "%s before its time", deadline_name(before));
    cr_assert_eq(at, expected, "%s, not %s", deadline_name(at), deadline_name(expected));
    cr_assert_eq(deadlines_next(&deadlines, limits, moment - 1), moment, "next %lld, not %lld",
                 (long long)deadlines_next(&deadlines, limits, moment - 1), (long long)moment);
}

/* The socket takes bytes, which the peer acknowledges at once, and some output waits or none. */
static void output(int64_t now, uint64_t sent, bool waits)
{
    if (sent > 0)
        deadlines_sent(&deadlines, now, sent);
    deadlines_acknowledged(&deadlines, now, 0);
    deadlines_output(&deadlines, now, waits);
}

Test(deadlines, no_limit_is_never_passed)
{
    const struct deadline_limits none = {0};
    deadlines_framed(&deadlines, BORN, true);
    output(BORN, 10, true);
    for (int month = 1; month < 30; month++)
        cr_assert_eq(deadlines_passed(&deadlines, &none, BORN + month * (INT64_C(30) * 86400000)),
                     DEADLINE_NONE, "month %d", month);
    cr_assert_eq(deadlines_next(&deadlines, &none, BORN), INT64_MAX);
}

Test(deadlines, a_silent_connection_is_idle_from_its_birth)
{
    assert_passes(&all, BORN + 1000, DEADLINE_IDLE);
}

Test(deadlines, case_16_the_idle_timeout_starts_anew_with_each_byte)
{
    for (int64_t now = BORN + 900; now < BORN + 10000; now += 900) {
        cr_assert_eq(deadlines_passed(&deadlines, &all, now), DEADLINE_NONE);
        deadlines_received(&deadlines, now);
        assert_passes(&all, now + 1000, DEADLINE_IDLE);
    }
}

Test(deadlines, bytes_sent_keep_a_connection_from_being_idle)
{
    output(BORN + 800, 10, false);
    assert_passes(&all, BORN + 1800, DEADLINE_IDLE);
    output(BORN + 1700, 0, false);
    assert_passes(&all, BORN + 1800, DEADLINE_IDLE);
}

Test(deadlines, erratum_20_a_request_is_due_however_many_bytes_keep_coming)
{
    int64_t begun = BORN + 500;
    for (int64_t now = begun; now < begun + 2000; now += 100) {
        deadlines_received(&deadlines, now);
        deadlines_framed(&deadlines, now, true);
        cr_assert_eq(deadlines_passed(&deadlines, &all, now), DEADLINE_NONE);
    }
    assert_passes(&all, begun + 2000, DEADLINE_REQUEST);
}

Test(deadlines, a_whole_request_is_not_due)
{
    deadlines_received(&deadlines, BORN + 500);
    deadlines_framed(&deadlines, BORN + 500, true);
    deadlines_received(&deadlines, BORN + 600);
    deadlines_framed(&deadlines, BORN + 600, false);
    assert_passes(&all, BORN + 1600, DEADLINE_IDLE);
    deadlines_received(&deadlines, BORN + 700);
    deadlines_framed(&deadlines, BORN + 700, true);
    deadlines_received(&deadlines, BORN + 2600);
    assert_passes(&all, BORN + 2700, DEADLINE_REQUEST);
}

Test(deadlines, the_lifetime_ends_whatever_happens)
{
    for (int64_t now = BORN; now < BORN + 100000; now += 250) {
        deadlines_received(&deadlines, now);
        deadlines_framed(&deadlines, now, false);
        output(now, 10, false);
        cr_assert_eq(deadlines_passed(&deadlines, &all, now), DEADLINE_NONE);
    }
    assert_passes(&all, BORN + 100000, DEADLINE_LIFETIME);
}

Test(deadlines, case_12_output_that_nobody_takes_is_due)
{
    output(BORN + 100, 5000, true);
    assert_passes(&all, BORN + 600, DEADLINE_PROGRESS);
    deadlines_received(&deadlines, BORN + 500);
    assert_passes(&all, BORN + 600, DEADLINE_PROGRESS);
}

Test(deadlines, case_13_a_byte_now_and_then_is_no_progress)
{
    output(BORN + 100, 5000, true);
    for (int i = 1; i < 50; i++) {
        output(BORN + 100 + i * 10, 1, true);
        cr_assert_eq(deadlines_passed(&deadlines, &all, BORN + 100 + i * 10), DEADLINE_NONE);
    }
    assert_passes(&all, BORN + 600, DEADLINE_PROGRESS);
}

/* Takes `bytes` in each of many periods, in two steps. How many periods it lives through. */
static int periods_survived(uint64_t bytes)
{
    int64_t now = BORN + 100;
    output(now, 5000, true);
    for (int period = 0; period < 20; period++) {
        deadlines_received(&deadlines, now);
        output(now + 200, bytes / 2, true);
        now += 499;
        output(now, bytes - bytes / 2, true);
        if (deadlines_passed(&deadlines, &all, now + 1) != DEADLINE_NONE)
            return period;
    }
    return 20;
}

Test(deadlines, a_quantum_in_each_period_is_progress)
{
    cr_assert_eq(periods_survived(DEADLINES_QUANTUM), 20);
    cr_assert_eq(periods_survived(10 * DEADLINES_QUANTUM), 20);
}

Test(deadlines, one_byte_less_than_a_quantum_is_none)
{
    cr_assert_eq(periods_survived(DEADLINES_QUANTUM - 1), 0);
    cr_assert_eq(periods_survived(1), 0);
}

Test(deadlines, what_was_taken_before_output_waited_does_not_count)
{
    output(BORN + 100, 10 * DEADLINES_QUANTUM, false);
    output(BORN + 200, DEADLINES_QUANTUM, true);
    output(BORN + 300, 1, true);
    assert_passes(&all, BORN + 700, DEADLINE_PROGRESS);
}

Test(deadlines, taking_all_that_waits_is_progress_however_little_it_is)
{
    output(BORN + 100, 0, true);
    output(BORN + 400, 10, false);
    cr_assert_eq(deadlines_passed(&deadlines, &all, BORN + 700), DEADLINE_NONE);
    output(BORN + 800, 10, true);
    assert_passes(&all, BORN + 1300, DEADLINE_PROGRESS);
}

Test(deadlines, a_peer_that_is_not_to_blame_gets_its_time_anew)
{
    output(BORN + 100, 0, true);
    output(BORN + 300, DEADLINES_QUANTUM - 1, true);
    deadlines_restart_progress(&deadlines, BORN + 400);
    assert_passes(&all, BORN + 900, DEADLINE_PROGRESS);
    output(BORN + 500, 1, true);
    assert_passes(&all, BORN + 900, DEADLINE_PROGRESS);
}

/* The socket's buffer may hold megabytes, so nothing new may leave for a long time. */
Test(deadlines, a_peer_that_reads_what_the_system_holds_makes_progress)
{
    uint32_t held = 20 * DEADLINES_QUANTUM;
    deadlines_sent(&deadlines, BORN, held);
    deadlines_output(&deadlines, BORN, true);
    for (int64_t now = BORN + 400; held > 0; now += 400) {
        held -= DEADLINES_QUANTUM;
        if (deadlines_acknowledged(&deadlines, now, held))
            deadlines_moved(&deadlines, now);
        cr_assert_eq(deadlines_passed(&deadlines, &all, now + 399), DEADLINE_NONE,
                     "%u bytes are left", held);
    }
}

Test(deadlines, a_peer_that_leaves_the_system_with_all_it_holds_makes_none)
{
    deadlines_sent(&deadlines, BORN, 20 * DEADLINES_QUANTUM);
    deadlines_output(&deadlines, BORN, true);
    deadlines_acknowledged(&deadlines, BORN + 400, 19 * DEADLINES_QUANTUM + 1);
    assert_passes(&all, BORN + 500, DEADLINE_PROGRESS);
}

/* What has been acknowledged is not acknowledged again. */
Test(deadlines, a_look_counts_what_is_new_since_the_last_one)
{
    deadlines_sent(&deadlines, BORN, 2 * DEADLINES_QUANTUM);
    deadlines_acknowledged(&deadlines, BORN, DEADLINES_QUANTUM);
    deadlines_output(&deadlines, BORN, true);
    deadlines_acknowledged(&deadlines, BORN + 100, DEADLINES_QUANTUM);
    deadlines_sent(&deadlines, BORN + 200, 1);
    deadlines_acknowledged(&deadlines, BORN + 300, 2);
    assert_passes(&all, BORN + 500, DEADLINE_PROGRESS);
}

Test(deadlines, a_peer_that_reads_what_the_system_holds_is_not_idle)
{
    deadlines_sent(&deadlines, BORN, 10000);
    cr_assert(deadlines_acknowledged(&deadlines, BORN + 950, 9999));
    deadlines_moved(&deadlines, BORN + 900);
    assert_passes(&all, BORN + 1900, DEADLINE_IDLE);
    cr_assert_not(deadlines_acknowledged(&deadlines, BORN + 1500, 9999));
    assert_passes(&all, BORN + 1900, DEADLINE_IDLE);
}

/* Somebody looks when the time is over. What was taken long before that is no reason to wait once
 * more. */
Test(deadlines, a_peer_that_stopped_long_before_the_look_is_idle_since_then)
{
    deadlines_sent(&deadlines, BORN + 100, 10000);
    cr_assert(deadlines_acknowledged(&deadlines, BORN + 1100, 6000));
    deadlines_moved(&deadlines, BORN + 150);
    assert_passes(&all, BORN + 1150, DEADLINE_IDLE);
    deadlines_moved(&deadlines, BORN + 120);
    assert_passes(&all, BORN + 1150, DEADLINE_IDLE);
}

/* All is acknowledged, nobody knows since when: probably since shortly after it was sent. */
Test(deadlines, a_peer_that_has_everything_is_idle_since_that_was_sent)
{
    deadlines_sent(&deadlines, BORN + 10, 10000);
    cr_assert_not(deadlines_acknowledged(&deadlines, BORN + 900, 0));
    assert_passes(&all, BORN + 1010, DEADLINE_IDLE);
}

Test(deadlines, more_than_four_gigabytes_at_once_are_a_lot)
{
    deadlines_sent(&deadlines, BORN, UINT32_MAX - 5);
    deadlines_sent(&deadlines, BORN, UINT64_C(1) << 40);
    deadlines_output(&deadlines, BORN, true);
    deadlines_acknowledged(&deadlines, BORN + 400, 100);
    assert_passes(&all, BORN + 900, DEADLINE_PROGRESS);
}

Test(deadlines, the_next_moment_is_the_earliest_of_all)
{
    const struct deadline_limits limits = {
        .idle = 5000, .request = 4000, .lifetime = 6000, .progress = 3000};
    cr_assert_eq(deadlines_next(&deadlines, &limits, BORN + 2000), BORN + 5000);
    deadlines_framed(&deadlines, BORN + 10, true);
    cr_assert_eq(deadlines_next(&deadlines, &limits, BORN + 2000), BORN + 4010);
    output(BORN + 20, 0, true);
    cr_assert_eq(deadlines_next(&deadlines, &limits, BORN + 2000), BORN + 3020);
    deadlines_received(&deadlines, BORN + 2000);
    output(BORN + 2000, 10, false);
    deadlines_framed(&deadlines, BORN + 2000, false);
    cr_assert_eq(deadlines_next(&deadlines, &limits, BORN + 2000), BORN + 6000);
}

/* 23 days are the most that an option takes. */
Test(deadlines, the_longest_limits_are_right_to_the_millisecond)
{
    const int64_t longest = 2000000000;
    assert_passes(&(struct deadline_limits){.idle = longest}, BORN + longest, DEADLINE_IDLE);
    assert_passes(&(struct deadline_limits){.lifetime = longest}, BORN + longest,
                  DEADLINE_LIFETIME);
}

/* A thread may look with a clock that it read before another one noted that a byte came. */
Test(deadlines, a_moment_that_is_still_to_come_is_not_long_ago)
{
    deadlines_received(&deadlines, BORN + 50);
    cr_assert_eq(deadlines_passed(&deadlines, &all, BORN + 49), DEADLINE_NONE);
    cr_assert_eq(deadlines_next(&deadlines, &all, BORN + 49), BORN + 1050);
    cr_assert_eq(deadlines_active(&deadlines, BORN + 49), BORN + 50);
    cr_assert_eq(deadlines_born(&deadlines, BORN + 49), BORN);
}

/* A moment whose lower half is 0 would look like a time that does not run. */
Test(deadlines, the_moment_at_which_the_clock_turns_over_is_one_like_others)
{
    const int64_t turn = INT64_C(7) << 32;
    deadlines_start(&deadlines, turn);
    deadlines_framed(&deadlines, turn, true);
    output(turn, 0, true);
    cr_assert_eq(deadlines_passed(&deadlines, &all, turn + 501), DEADLINE_PROGRESS);
    output(turn + 1, 0, false);
    cr_assert_eq(
        deadlines_passed(&deadlines, &(struct deadline_limits){.request = 2000}, turn + 2001),
        DEADLINE_REQUEST);
    cr_assert_eq(deadlines_passed(&deadlines, &all, turn + 1001), DEADLINE_IDLE);
}

Test(deadlines, each_has_a_name)
{
    cr_assert_str_eq(deadline_name(DEADLINE_IDLE), "idle timeout");
    cr_assert_str_eq(deadline_name(DEADLINE_REQUEST), "request timeout");
    cr_assert_str_eq(deadline_name(DEADLINE_LIFETIME), "lifetime");
    cr_assert_str_eq(deadline_name(DEADLINE_PROGRESS), "progress timeout");
}

/* A run that has only sent: a byte has moved, and the peer owes an answer for all of them. */
Test(deadlines, a_run_that_sends_is_active_and_counts_what_is_owed)
{
    const struct deadline_limits limits = {.idle = 1000};
    deadlines_start(&deadlines, 5000);
    deadlines_ran(&deadlines, 5600, false, false, 7);
    cr_assert_eq(deadlines_next(&deadlines, &limits, 5600), 6600);
    deadlines_ran(&deadlines, 5700, false, false, 0);
    cr_assert_eq(deadlines_next(&deadlines, &limits, 5700), 6600, "nothing has moved");
    cr_assert_eq(deadlines.owed, 7);
    deadlines_ran(&deadlines, 5700, false, false, UINT32_MAX);
    cr_assert_eq(deadlines.owed, UINT32_MAX, "more than can be counted");
}
