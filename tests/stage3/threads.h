/*
 * The threads of a process, one by one, from /proc (Linux).
 */
#ifndef TESTS_STAGE3_THREADS_H
#define TESTS_STAGE3_THREADS_H

#include "support/server_process.h"

#include <sys/types.h>

enum { THREADS_MAX = 64 };

struct thread_use {
    char name[32];
    double cpu; /**< seconds so far, in steps of 10 ms */
};

/** Looks at every thread; asserts that there are not too many. Returns how many there are. */
int threads_look(pid_t pid, struct thread_use threads[THREADS_MAX]);

/** How many of them have this name, with a number behind it or not; under ThreadSanitizer there is
 * another, with another. */
int threads_named(pid_t pid, const char *name);

/** Waits until exactly so many have it; asserts that it happens. */
#define threads_await(pid, name, wanted) threads_await_at(HERE, pid, name, wanted)
void threads_await_at(const char *where, pid_t pid, const char *name, int wanted);

#endif
