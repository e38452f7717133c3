/*
 * Case 31 with several dispatchers, each of which has a status-change queue and a wakeup of its
 * own: whoever changes something, the dispatcher of that connection sees it, and thousands of
 * changes cost few system calls.
 */
#include "framework.h"

#include "inside/changers.h"
#include "support/probe.h"

#include <criterion/criterion.h>

TestSuite(stage5_status_changes, .timeout = 60);

enum { DISPATCHERS = 2, THREADS = 8 };

static struct framework framework;
static struct recorder recorders[THREADS];
static int clients[THREADS];

struct wakeups {
    uint64_t asked;
    uint64_t written;
};

/** What all dispatchers together were woken since then. */
static struct wakeups wakeups_since(struct wakeups before)
{
    struct wakeups sum = {.asked = -before.asked, .written = -before.written};
    for (size_t i = 0; i < framework.pool.count; i++) {
        const struct selector *selector = &framework.pool.dispatchers[i].selector;
        sum.asked += atomic_load(&selector->wakeups_asked);
        sum.written += atomic_load(&selector->wakeups_written);
    }
    return sum;
}

/** A connection for each thread, the same number of them at each dispatcher. */
static void begin(void)
{
    framework_start(&framework, "--workers 0 --dispatchers %d", DISPATCHERS);
    for (int i = 0; i < THREADS; i++) {
        recorder_init(&recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
        client_echo(clients[i], "hello\n");
    }
    framework_await_asleep(&framework);
}

/** Each connection was resumed last, so each has to be served. */
static void end(void)
{
    for (int i = 0; i < THREADS; i++) {
        client_echo(clients[i], "every change was seen\n");
        client_close(clients[i]);
    }
    framework_stop(&framework);
    for (int i = 0; i < THREADS; i++) {
        recorder_expect_whole_life(&recorders[i]);
    }
}

/* While they are busy with anything else, the first change for each asks for a wakeup, and no more.
 */
Test(stage5_status_changes, case_31_changes_while_the_dispatchers_are_awake_cost_nothing)
{
    begin();
    for (int i = 0; i < DISPATCHERS; i++) {
        test_point_hold(DISPATCHER_AWAKE);
        selector_wakeup(&framework.pool.dispatchers[i].selector);
    }
    test_point_await_held(DISPATCHER_AWAKE, DISPATCHERS);
    struct wakeups before = wakeups_since((struct wakeups){0});
    changers_run(recorders, THREADS, 10000);
    struct wakeups wakeups = wakeups_since(before);
    cr_assert_eq(wakeups.written, 0, "%d wakeups were written while all were awake",
                 (int)wakeups.written);
    cr_assert_eq(wakeups.asked, DISPATCHERS, "%d dispatchers were asked to wake up %d times",
                 DISPATCHERS, (int)wakeups.asked);
    for (int i = 0; i < DISPATCHERS; i++) {
        test_point_release(DISPATCHER_AWAKE);
    }
    end();
}

/* And while they come and go, far fewer than there are changes. */
Test(stage5_status_changes, case_31_eight_threads_with_a_hundred_thousand_changes_each)
{
    int changes = probe_sanitized() ? 20000 : 100000;
    begin();
    struct wakeups before = wakeups_since((struct wakeups){0});
    changers_run(recorders, THREADS, changes);
    uint64_t written = wakeups_since(before).written;
    cr_assert_lt(written, (uint64_t)(THREADS * changes / 4), "%d changes cost %d wakeups",
                 THREADS * changes, (int)written);
    end();
}
