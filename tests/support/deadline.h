/*
 * Time for the tests: every wait of the suites ends at a deadline.
 *
 * Rules:
 * - A wait that should succeed uses test_deadline_ms(): thirty seconds, so that a machine on which
 * twenty others want to run, a sanitizer or valgrind does not fail a correct server.
 * TEST_DEADLINE_MS in the environment changes it (the proof with the faulty server shortens it,
 * because there most waits are meant to fail).
 * - A measured time is asserted as a lower bound, or as a very generous upper bound.
 */
#ifndef TESTS_DEADLINE_H
#define TESTS_DEADLINE_H

#include <stdbool.h>

/** How long a wait that should succeed may last, in milliseconds. */
int test_deadline_ms(void);

/** Seconds on the monotonic clock. */
double test_now(void);

/** The moment at which a wait that begins now is over: a test_now() time. */
double test_deadline(void);

/** Milliseconds left until @p end (a test_now() time), rounded up, never negative: for poll(2). */
int test_left_ms(double end);

/** A pause between two looks at something that gives no event. Not for anything that can be
 * awaited. */
void test_pause_ms(int milliseconds);

/** Waits until the condition is true, or the deadline has come: the caller looks which. For what
 * gives no event. */
#define WAIT_FOR(condition)                                                                        \
    for (double await_end = test_deadline(); !(condition) && test_left_ms(await_end) > 0;)         \
    test_pause_ms(1)

/** Waits until @p fd has one of @p events, or an error, or @p end has come. Returns true for an
 * event. */
bool test_await(int fd, short events, double end);

#endif
