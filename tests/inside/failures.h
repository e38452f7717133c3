/*
 * What the tests that look inside a stage can make fail, in the process that is the server and the
 * test at once.
 */
#ifndef TESTS_INSIDE_FAILURES_H
#define TESTS_INSIDE_FAILURES_H

#include "common/events/selector_provider.h"

#include <stdatomic.h>
#include <stdbool.h>

/** A provider like epoll's that tells the kernel nothing new while `fails` is set. */
extern const struct selector_provider failing_provider;
extern atomic_bool failing_provider_fails;

/** So many of all other threads' next calls of realloc() fail. */
void failing_reallocations_elsewhere(int count);

/** How many of those are still to come. */
int failing_reallocations_left(void);

#endif
