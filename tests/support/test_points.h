/*
 * Holding threads at named points of the code (common/base/test_point.h), so that a test forces a
 * schedule instead of hoping for it. Only the suites of stages are linked with code that has
 * points.
 *
 * Rules:
 * - Everything here but the points themselves is for the test's main thread, and asserts.
 * - A point counts and holds from the first time that the test names it.
 * - A thread that is not to be held passes without a lock: points do not put threads in order
 *   that were not in order before, so that ThreadSanitizer sees what it would see without them.
 * - A thread is not held for longer than TEST_POINT_DEADLINES deadlines: a test that fails ends.
 */
#ifndef TESTS_TEST_POINTS_H
#define TESTS_TEST_POINTS_H

#include "server_process.h"

#include <stdbool.h>
#include <sys/types.h>

enum { TEST_POINT_DEADLINES = 3 };

/** The next thread to reach the point stops there. Said twice: the next two. */
void test_point_hold(const char *name);

/** Waits until so many threads are held at the point; asserts that they come. */
#define test_point_await_held(name, count) test_point_await_held_at(HERE, name, count)
void test_point_await_held_at(const char *where, const char *name, int count);

/** Lets the thread go on that has been held longest; asserts that there is one. */
#define test_point_release(name) test_point_release_at(HERE, name)
void test_point_release_at(const char *where, const char *name);

/** How often threads have come to the point, held or not. */
long test_point_count(const char *name);

/** Waits until they have come to it so often; asserts that they do. */
#define test_point_await_count(name, least) test_point_await_count_at(HERE, name, least)
void test_point_await_count_at(const char *where, const char *name, long least);

/** Asserts that within so many milliseconds the count does not pass @p most. Keep it short. */
#define test_point_expect_no_more(name, most, milliseconds)                                        \
    test_point_expect_no_more_at(HERE, name, most, milliseconds)
void test_point_expect_no_more_at(const char *where, const char *name, long most, int milliseconds);

/** The system's number for the thread that came last; 0 if none has. */
pid_t test_point_visitor(const char *name);

#endif
