/*
 * A name server for tests: getaddrinfo() of this program answers some names itself, so that a test
 * says when, and with what. All other names are the system's affair.
 *
 *   slow.test     waits until names_answer(), and is then found as NAMES_SLOW; or it is not found
 *   dual.test     has two addresses, NAMES_FIRST and NAMES_SECOND
 */
#ifndef TESTS_NAMES_H
#define TESTS_NAMES_H

#include <stdbool.h>

#define NAMES_SLOW   "127.0.0.3"
#define NAMES_FIRST  "::1"
#define NAMES_SECOND "127.0.0.2"

/** Waits until slow.test has been asked for so often, in all; asserts that it is. */
void names_await_asked(int times);

/** Lets all that ask for slow.test, now and later, have their answer. */
void names_answer(bool found);

/** Those that ask for slow.test from now on wait again. */
void names_wait(void);

#endif
