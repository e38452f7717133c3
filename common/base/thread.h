/*
 * Starting a thread: with a stack of a known size, no signals, and an error instead of an abort.
 *
 * Interface:
 * - A thread that is started here takes none of the program's signals (signals.h): main is the only
 *   one that does, wherever it is at that moment.
 * - A thread that has named itself is listed until it ends, so that a stop that takes too long can
 *   say which threads have not ended.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    /** With the closing zero; what Linux has room for. */
    THREAD_NAME_SIZE = 16,

    /** Enough for every thread here; ten thousand of them then fit in memory. */
    THREAD_STACK_SIZE = 128 * 1024,
};

/**
 * Starts a thread. With thread NULL nobody can join it: it is gone when its function returns.
 * 0, or an error number (EAGAIN: the system has no room for one more thread); nothing runs then.
 */
int thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/**
 * Names the calling thread, for logs, traces, top(1) and debuggers, and lists it until it ends. A
 * longer name is cut. Not in main, which has the program's name.
 */
__attribute__((format(printf, 1, 2))) void thread_set_name(const char *format, ...);

/**
 * Where the calling thread says whose handler it calls, a descriptor, for main to read (loop.h);
 * NULL: nowhere. A thread that submits tasks points it there, in case the executor runs one in it.
 */
extern _Thread_local atomic_int *thread_serves;

/** The calling thread's name; "main", if nobody has named it. */
void thread_name(char name[THREAD_NAME_SIZE]);

/**
 * Writes the names of all threads that are listed into text, which it always closes with a zero:
 * `dispatcher, worker 3, handler (7 of them)`. Names that there is no room for are left out, and
 * `...` says so. Returns the length. Main may call this in a signal handler.
 */
size_t thread_list(char *text, size_t size);

#endif
