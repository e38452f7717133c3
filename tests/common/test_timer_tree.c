/*
 * Timers in a pairing heap, with moments made up: nothing here waits.
 */
#include "common/events/timer_tree.h"
#include "common/server/channel_calls.h"
#include "common/server/channel_facade.h"
#include "helpers.h"
#include "support/mapped.h"

#include <criterion/criterion.h>

TestSuite(timer_tree, .timeout = 120);

enum { TIMERS = 200 };

static struct timer_tree tree;
static struct tree_timer timers[TIMERS];
static bool set[TIMERS];

/* The earliest moment of all timers that are set, found the slow way. */
static int64_t earliest(void)
{
    int64_t moment = INT64_MAX;
    for (int i = 0; i < TIMERS; i++)
        if (set[i] && timers[i].moment < moment)
            moment = timers[i].moment;
    return moment;
}

static void take_one(int64_t now)
{
    int64_t expected = earliest();
    struct tree_timer *timer = timer_tree_take_due(&tree, now);
    if (expected > now) {
        cr_assert_null(timer, "a timer of %ld fired at %ld", (long)timer->moment, (long)now);
        return;
    }
    cr_assert_not_null(timer, "the timer of %ld did not fire at %ld", (long)expected, (long)now);
    cr_assert_eq(timer->moment, expected);
    cr_assert_not(tree_timer_is_set(&tree, timer));
    set[timer - timers] = false;
}

Test(timer_tree, nothing_set_is_nothing_due)
{
    cr_assert_eq(timer_tree_moment(&tree), INT64_MAX);
    cr_assert_null(timer_tree_take_due(&tree, INT64_MAX));
    timer_tree_cancel(&tree, &timers[0]);
    cr_assert_eq(timer_tree_moment(&tree), INT64_MAX);
}

/* Setting, moving, cancelling and taking, in every order; compared with looking at all of them. */
Test(timer_tree, the_earliest_comes_first_whatever_was_done_before)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng rng = rng_from(seed);
        for (int step = 0; step < 2000; step++) {
            size_t i = rng_below(&rng, TIMERS);
            switch (rng_below(&rng, 4)) {
            case 0:
            case 1:
                timer_tree_set(&tree, &timers[i], (int64_t)rng_below(&rng, 1000));
                set[i] = true;
                break;
            case 2:
                timer_tree_cancel(&tree, &timers[i]);
                set[i] = false;
                break;
            default: take_one((int64_t)rng_below(&rng, 1000));
            }
            cr_assert_eq(timer_tree_moment(&tree), earliest(), "seed %ld, step %d", (long)seed,
                         step);
            cr_assert_eq(tree_timer_is_set(&tree, &timers[i]), set[i], "seed %ld, step %d",
                         (long)seed, step);
        }
        while (tree.first != NULL)
            take_one(INT64_MAX);
    }
}

/* 10,000 of them in rising order, which is how timeouts come, are no list. */
Test(timer_tree, ten_thousand_are_64_bytes_each_at_most_and_quick)
{
    enum { MANY = 10000 };
    struct channel_timer *many = mapped(MANY * sizeof(*many));
    cr_assert_leq(sizeof(struct channel_timer), 64);
    for (int i = 0; i < MANY; i++)
        timer_tree_set(&tree, &many[i].place, i);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(timer_tree_take_due(&tree, i), &many[i].place);
    cr_assert_eq(timer_tree_moment(&tree), INT64_MAX);
}
