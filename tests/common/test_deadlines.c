/*
 * The deadlines, with times made up: nothing here waits. What no test of its own is for, random
 * steps compare with a model: the rules of deadlines.h in a few lines, with moments that are never
 * cut to 32 bits.
 */
#include "common/events/deadlines.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <string.h>

/* The lower half of the clock, which is what a connection keeps, turns over in each test. */
static const int64_t BORN = (INT64_C(7) << 32) - 999;

static const struct deadline_limits all = {
    .idle = 1000, .request = 2000, .lifetime = 100000, .progress = 500};

static struct deadlines deadlines; /* of the one connection that a test has */

static void begin(void)
{
    deadlines_start(&deadlines, BORN);
}

TestSuite(deadlines, .timeout = 120, .init = begin);

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

Test(deadlines, case_16_the_idle_timeout_starts_anew_with_each_byte)
{
    for (int64_t now = BORN + 900; now < BORN + 10000; now += 900) {
        cr_assert_eq(deadlines_passed(&deadlines, &all, now), DEADLINE_NONE);
        deadlines_received(&deadlines, now);
        assert_passes(&all, now + 1000, DEADLINE_IDLE);
    }
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

Test(deadlines, more_than_four_gigabytes_at_once_are_a_lot)
{
    deadlines_sent(&deadlines, BORN, UINT32_MAX - 5);
    deadlines_sent(&deadlines, BORN, UINT64_C(1) << 40);
    deadlines_output(&deadlines, BORN, true);
    deadlines_acknowledged(&deadlines, BORN + 400, 100);
    assert_passes(&all, BORN + 900, DEADLINE_PROGRESS);
}

/* 23 days are the most that an option takes. */
Test(deadlines, the_longest_limits_are_right_to_the_millisecond)
{
    const int64_t longest = 2000000000;
    assert_passes(&(struct deadline_limits){.idle = longest}, BORN + longest, DEADLINE_IDLE);
    assert_passes(&(struct deadline_limits){.lifetime = longest}, BORN + longest,
                  DEADLINE_LIFETIME);
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

/* ---- random steps, against a model ---- */

/* -1: that time does not run. */
static struct {
    int64_t born, active, request, progress;
    uint64_t taken, owed;
} model;

/* A moment as a connection keeps it: 0 would be a time that does not run. */
static int64_t kept(int64_t moment)
{
    return moment + ((uint32_t)moment == 0);
}

static void model_output(int64_t now, bool waits)
{
    if (waits == (model.progress >= 0))
        return;
    model.progress = waits ? now : -1;
    model.taken = 0;
}

/* True if it is to be asked when that was. */
static bool model_acknowledged(int64_t now, uint32_t unacknowledged)
{
    uint64_t taken = model.owed > unacknowledged ? model.owed - unacknowledged : 0;
    model.owed = unacknowledged;
    model.taken += taken;
    if (model.progress >= 0 && model.taken >= DEADLINES_QUANTUM) {
        model.progress = now;
        model.taken = 0;
    }
    return taken > 0 && unacknowledged > 0;
}

/* What a thread has to say of the connection at that moment. */
static void take_step(struct rng *rng, int64_t now)
{
    static const uint32_t amounts[] = {0, 1, DEADLINES_QUANTUM - 1, DEADLINES_QUANTUM, UINT32_MAX};
    bool yes = rng_below(rng, 2) == 0, received = rng_below(rng, 2) == 0;
    uint32_t amount = amounts[rng_below(rng, 5)];
    int64_t moment = kept(now - (int64_t)rng_below(rng, 500));
    switch (rng_below(rng, 8)) {
    case 0:
        deadlines_received(&deadlines, now);
        model.active = now;
        break;
    case 1:
        deadlines_framed(&deadlines, now, yes);
        model.request = !yes ? -1 : model.request < 0 ? now : model.request;
        break;
    case 2:
        deadlines_sent(&deadlines, now, amount);
        model.active = now;
        model.owed += amount;
        break;
    case 3:
        deadlines_ran(&deadlines, now, received, yes, amount);
        model.active = received || amount > 0 ? now : model.active;
        model.request = !yes ? -1 : model.request < 0 ? now : model.request;
        model.owed += amount;
        break;
    case 4:
        deadlines_output(&deadlines, now, yes);
        model_output(now, yes);
        break;
    case 5:
        amount = model.owed > amount ? (uint32_t)(model.owed - amount) : 0;
        cr_assert_eq(deadlines_acknowledged(&deadlines, now, amount),
                     model_acknowledged(now, amount));
        break;
    case 6:
        deadlines_moved(&deadlines, moment);
        model.active = moment > model.active ? moment : model.active;
        break;
    default:
        deadlines_restart_input(&deadlines, now);
        model.active = now;
        model.request = model.request < 0 ? -1 : now;
        if (model.progress >= 0) {
            deadlines_restart_progress(&deadlines, now);
            model.progress = now;
            model.taken = 0;
        }
    }
    model.owed = model.owed < UINT32_MAX ? model.owed : UINT32_MAX;
}

static int64_t end_of(int64_t since, int64_t limit)
{
    return since < 0 || limit == 0 ? INT64_MAX : since + limit;
}

/* A thread may look with a clock that it read before another one noted that a byte came: `now`. */
static void compare_with_model(const struct deadline_limits *limits, int64_t now, int step)
{
    const struct {
        int64_t end;
        enum deadline which;
    } ends[] = {{end_of(model.born, limits->lifetime), DEADLINE_LIFETIME},
                {end_of(model.request, limits->request), DEADLINE_REQUEST},
                {end_of(model.progress, limits->progress), DEADLINE_PROGRESS},
                {end_of(model.active, limits->idle), DEADLINE_IDLE}};
    int64_t next = INT64_MAX;
    enum deadline passed = DEADLINE_NONE;
    for (int i = 3; i >= 0; i--) {
        next = ends[i].end < next ? ends[i].end : next;
        passed = ends[i].end <= now ? ends[i].which : passed;
    }
    enum deadline found = deadlines_passed(&deadlines, limits, now);
    cr_assert_eq(found, passed, "step %d: %s, not %s", step, deadline_name(found),
                 deadline_name(passed));
    cr_assert_eq(deadlines_next(&deadlines, limits, now), next, "step %d", step);
    cr_assert_eq(deadlines_active(&deadlines, now), model.active, "step %d", step);
    cr_assert_eq(deadlines_born(&deadlines, now), model.born, "step %d", step);
    cr_assert_eq(deadlines_output_waits(&deadlines), model.progress >= 0, "step %d", step);
    cr_assert_eq(deadlines.owed, model.owed, "step %d", step);
}

Test(deadlines, each_limit_is_passed_at_its_moment_whatever_was_done_before)
{
    struct rng rng = rng_from(1);
    for (int round = 0; round < 200; round++) {
        struct deadline_limits limits = {.idle = (int64_t)rng_below(&rng, 3) * 700,
                                         .request = (int64_t)rng_below(&rng, 3) * 800,
                                         .lifetime = (int64_t)rng_below(&rng, 3) * 20000,
                                         .progress = (int64_t)rng_below(&rng, 3) * 500};
        int64_t now = kept(BORN - (int64_t)rng_below(&rng, 20000));
        deadlines_start(&deadlines, now);
        memset(&model, 0, sizeof(model));
        model.born = model.active = now;
        model.request = model.progress = -1;
        for (int step = 0; step < 200; step++) {
            now = kept(now + (int64_t)rng_below(&rng, 150));
            take_step(&rng, now);
            compare_with_model(&limits, now - (int64_t)rng_below(&rng, 2), step);
            int64_t next = deadlines_next(&deadlines, &limits, now);
            if (next > now && next < INT64_MAX) {
                compare_with_model(&limits, next - 1, step);
                compare_with_model(&limits, next, step);
            }
        }
    }
}
