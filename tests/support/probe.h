/*
 * What the system knows of a process, from /proc (Linux) and its CPU clock.
 *
 * Rules: every function returns -1 when the process is gone. Thread counts include the one that a
 * ThreadSanitizer build adds: compare with probe_own_threads().
 */
#ifndef TESTS_PROBE_H
#define TESTS_PROBE_H

#include <stdbool.h>
#include <sys/types.h>

/** True if the servers, and tests that are built with them, carry a sanitizer that fills address
 * space: SANITIZER in the environment says so. */
bool probe_sanitized(void);

/** True if the servers carry ThreadSanitizer, which runs a signal's handler only when its thread
 * comes out of the call it waits in. */
bool probe_thread_sanitized(void);

/** Threads that the program made itself: all, less the one ThreadSanitizer adds. */
long probe_own_threads(pid_t pid);

/** Waits until the program has exactly this many threads of its own; false if it has not in time.
 */
bool probe_await_own_threads(pid_t pid, long wanted);

/** Whether all threads of its own sleep: none runs, or waits for a processor. */
bool probe_asleep(pid_t pid);

/** Waits until they do: what they were about to do is done. False: it was in vain. */
bool probe_await_asleep(pid_t pid);

/** Open descriptors. */
long probe_descriptors(pid_t pid);

/** Waits until the process has at most this many descriptors; false if it has not in time. */
bool probe_await_descriptors(pid_t pid, long most);

/**
 * The part of @p milliseconds in which the process ran or wanted to run, all threads of its own
 * together: 0 for one that sleeps, 1 for one that spins, however busy the machine is. (Where the
 * system does not tell how long a thread waited for a core, only the CPU time that it got.) A busy
 * time is watched again, a few times, and the least counts: one that spins does so each time.
 */
double probe_busy_during(pid_t pid, int milliseconds);

/** Processor time of all threads so far, however long each waited for a core; -1 if it is not told,
 * or nobody is asked for.
 */
double probe_cpu_seconds(pid_t pid);

long probe_resident_kib(pid_t pid);
long probe_virtual_kib(pid_t pid);

#endif
