/*
 * Timers in a heap, with moments made up: nothing here waits.
 */
#include "common/events/timer_heap.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdlib.h>

TestSuite(timer_heap, .timeout = 120);

enum { TIMERS = 300 };

static struct timer_heap heap;
static struct timer timers[TIMERS];

static void setup(void)
{
    timer_heap_init(&heap);
}

static void teardown(void)
{
    timer_heap_destroy(&heap);
}

/* The earliest moment of all timers that are set, found the slow way; INT64_MAX: none is set. */
static int64_t earliest(void)
{
    int64_t moment = INT64_MAX;
    for (int i = 0; i < TIMERS; i++) {
        if (timer_is_set(&timers[i]) && timers[i].moment < moment) {
            moment = timers[i].moment;
        }
    }
    return moment;
}

static void expect_first(int64_t moment)
{
    struct timer *first = timer_heap_first(&heap);
    cr_assert_not_null(first, "no timer is set");
    cr_assert_eq(first->moment, moment, "the first is at %ld, not at %ld", (long)first->moment,
                 (long)moment);
}

Test(timer_heap, empty_has_no_first, .init = setup, .fini = teardown)
{
    cr_assert_null(timer_heap_first(&heap));
    timer_heap_cancel(&heap, &timers[0]);
    cr_assert_null(timer_heap_first(&heap));
}

/* The one that takes the place of another may have to rise, not only to sink. */
Test(timer_heap, the_last_may_rise_into_a_place_that_gets_free, .init = setup, .fini = teardown)
{
    const int64_t moments[] = {1, 10, 2, 11, 12, 3, 4};
    for (int i = 0; i < 7; i++) {
        cr_assert(timer_heap_set(&heap, &timers[i], moments[i]));
    }
    timer_heap_cancel(&heap, &timers[3]); /* 11, a child of 10; the last, 4, takes its place */
    const int64_t order[] = {1, 2, 3, 4, 10, 12};
    for (int i = 0; i < 6; i++) {
        expect_first(order[i]);
        timer_heap_cancel(&heap, timer_heap_first(&heap));
    }
}

/* Also one that is set already, or was cancelled, or twice. */
Test(timer_heap, thousands_of_changes_against_a_slow_search, .init = setup, .fini = teardown)
{
    unsigned seed = 4711;
    size_t count = 0;
    for (int round = 0; round < 20000; round++) {
        struct timer *timer = &timers[rand_r(&seed) % TIMERS];
        bool was_set = timer_is_set(timer);
        int64_t before = timer->moment, moment = rand_r(&seed) % 1000;
        int step = rand_r(&seed) % 4;
        if (step == 0) {
            timer_heap_cancel(&heap, timer);
        } else if (step == 1 && was_set) {
            timer_heap_set_by(&heap, timer, moment);
            cr_assert_eq(timer->moment, before < moment ? before : moment, "in round %d", round);
        } else {
            cr_assert(timer_heap_set(&heap, timer, moment));
            cr_assert_eq(timer->moment, moment, "in round %d", round);
        }
        cr_assert_eq(timer_is_set(timer), step != 0, "in round %d", round);
        count += (size_t)timer_is_set(timer) - was_set;
        cr_assert_eq(heap.count, count, "in round %d", round);
        struct timer *first = timer_heap_first(&heap);
        cr_assert_eq(first == NULL ? INT64_MAX : first->moment, earliest(), "in round %d", round);
    }
}

Test(timer_heap, all_can_be_set_to_one_moment, .init = setup, .fini = teardown)
{
    for (int i = 0; i < 50; i++) {
        cr_assert(timer_heap_set(&heap, &timers[i], 1000 - i));
    }
    timer_heap_set_all(&heap, 7);
    cr_assert_null(timer_heap_due(&heap, 6));
    for (int i = 0; i < 50; i++) {
        struct timer *due = timer_heap_due(&heap, 7);
        cr_assert_not_null(due, "timer %d", i);
        cr_assert(timer_heap_set(&heap, due, 100 + i));
    }
    cr_assert_null(timer_heap_due(&heap, 99), "each has fired once");
    expect_first(100);
}

Test(timer_heap, tells_for_how_long_to_sleep, .init = setup, .fini = teardown)
{
    cr_assert_eq(timer_heap_timeout(&heap, 10), -1, "nothing is set");
    cr_assert(timer_heap_set(&heap, &timers[0], INT64_MAX));
    cr_assert_eq(timer_heap_timeout(&heap, 10), -1, "it never fires");
    cr_assert(timer_heap_set(&heap, &timers[1], 25));
    cr_assert_eq(timer_heap_timeout(&heap, 10), 15);
    cr_assert_eq(timer_heap_timeout(&heap, 30), 0);
    cr_assert(timer_heap_set(&heap, &timers[1], INT64_C(1) << 40));
    cr_assert_eq(timer_heap_timeout(&heap, 0), INT_MAX);
}
