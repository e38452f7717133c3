/*
 * Case 31, for the suites of stages 4 and 5: each includes its own framework.h and then this, and
 * makes tests of the functions. Eight threads change connections, the same number of them at each
 * dispatcher; thousands of changes cost few system calls, and none is lost.
 */
#ifndef TESTS_INSIDE_CHANGES_TESTS_H
#define TESTS_INSIDE_CHANGES_TESTS_H

#include "inside/changers.h"
#include "support/probe.h"

#include <criterion/criterion.h>

enum { THREADS = 8 };

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
    size_t count;
    const struct dispatcher *dispatchers = framework_dispatchers(&framework, &count);
    struct wakeups sum = {.asked = -before.asked, .written = -before.written};
    for (size_t i = 0; i < count; i++) {
        sum.asked += atomic_load(&dispatchers[i].selector.wakeups_asked);
        sum.written += atomic_load(&dispatchers[i].selector.wakeups_written);
    }
    return sum;
}

/** A connection for each thread. */
static void begin(const char *options)
{
    framework_start(&framework, "%s", options);
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
}

/* While they are busy with anything else, the first change for each asks for a wakeup, and no more.
 */
static void changes_while_awake_cost_nothing(const char *options)
{
    size_t count;
    begin(options);
    struct dispatcher *dispatchers = framework_dispatchers(&framework, &count);
    for (size_t i = 0; i < count; i++) {
        test_point_hold(DISPATCHER_AWAKE);
        selector_wakeup(&dispatchers[i].selector);
    }
    test_point_await_held(DISPATCHER_AWAKE, (int)count);
    struct wakeups before = wakeups_since((struct wakeups){0});
    changers_run(recorders, THREADS, 10000);
    struct wakeups wakeups = wakeups_since(before);
    cr_assert_eq(wakeups.written, 0, "%d wakeups were written while all were awake",
                 (int)wakeups.written);
    cr_assert_eq(wakeups.asked, count, "%zu dispatchers were asked to wake up %d times", count,
                 (int)wakeups.asked);
    for (size_t i = 0; i < count; i++) {
        test_point_release(DISPATCHER_AWAKE);
    }
    end();
}

/* And while they come and go, far fewer than there are changes. */
static void a_hundred_thousand_changes_each(const char *options)
{
    int changes = probe_sanitized() ? 20000 : 100000;
    begin(options);
    struct wakeups before = wakeups_since((struct wakeups){0});
    changers_run(recorders, THREADS, changes);
    uint64_t written = wakeups_since(before).written;
    cr_assert_lt(written, (uint64_t)(THREADS * changes / 4), "%d changes cost %d wakeups",
                 THREADS * changes, (int)written);
    end();
}

#endif
