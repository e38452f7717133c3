/*
 * Starting a thread: with a stack of a known size, and an error instead of an abort.
 */
#ifndef COMMON_THREAD_H
#define COMMON_THREAD_H

#include <pthread.h>
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

/** Names the calling thread, for logs, traces, top(1) and debuggers. A longer name is cut. */
void thread_set_name(const char *name);

/** The calling thread's name. */
void thread_name(char name[THREAD_NAME_SIZE]);

#endif
