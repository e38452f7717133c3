/*
 * Locks whose rules the compiler can check.
 *
 * A mutex and a condition, each a thin wrapper around its POSIX original (rwlock.h has a read/write
 * lock). The wrappers exist for their attributes: clang's -Wthread-safety (make lint) proves at
 * compile time that a field marked GUARDED_BY(&lock) is touched with that lock held only, that a
 * function marked REQUIRES(&x->lock) is called with it held, that a function marked NO_LOCK_HELD is
 * called with no lock held at all, and that no path returns with a lock still taken. Under gcc the
 * attributes expand to nothing.
 *
 * Interface:
 * - The lock calls cannot fail: what POSIX reports here are bugs of ours (a lock that was never
 *   initialised, a second lock by the same thread), so they are asserted.
 * - condition_wait() may return for no reason; wait in a loop that tests what is waited for.
 * - Deadlines are milliseconds of clock_ms(), the monotonic clock.
 * - NO_LOCK_HELD is what a function needs that calls into an application
 *   (input_handler_calls.h). Its callers need it too, all the way up to where their thread begins,
 *   so the compiler follows it through every function between a lock and the application. It cannot
 *   follow a call through a pointer: give that call a small function of its own, and mark the
 *   function.
 */
#ifndef COMMON_LOCK_H
#define COMMON_LOCK_H

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__clang__)
#define THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define THREAD_SAFETY(attribute)
#endif

/* From clang 22 on, plain C may name a lock that stands in the same struct as the field it guards,
 * and a capability may be held more than once, as any_lock is by a thread that holds two locks. */
#if defined(__clang__) && __clang_major__ >= 22
#define GUARDED_BY(lock)    __attribute__((guarded_by(lock)))
#define PT_GUARDED_BY(lock) __attribute__((pt_guarded_by(lock)))
#define NO_LOCK_HELD        __attribute__((requires_capability(!&any_lock)))
#define HOLDS_NO_LOCK_YET   __attribute__((assert_capability(!&any_lock)))
#define REENTRANT           __attribute__((reentrant_capability))
#define AND_ANY_LOCK        , any_lock
#else
#define GUARDED_BY(lock)
#define PT_GUARDED_BY(lock)
#define NO_LOCK_HELD
#define HOLDS_NO_LOCK_YET
#define REENTRANT
#define AND_ANY_LOCK
#endif

#define CAPABILITY(name)          THREAD_SAFETY(capability(name))
#define ACQUIRE(...)              THREAD_SAFETY(acquire_capability(__VA_ARGS__ AND_ANY_LOCK))
#define ACQUIRE_SHARED(...)       THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__ AND_ANY_LOCK))
#define RELEASE(...)              THREAD_SAFETY(release_capability(__VA_ARGS__ AND_ANY_LOCK))
#define RELEASE_SHARED(...)       THREAD_SAFETY(release_shared_capability(__VA_ARGS__ AND_ANY_LOCK))
#define REQUIRES(...)             THREAD_SAFETY(requires_capability(__VA_ARGS__ AND_ANY_LOCK))
#define EXCLUDES(...)             THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS THREAD_SAFETY(no_thread_safety_analysis)

/**
 * All locks of the program in one: a thread that holds a lock, whichever it is, holds this too. It
 * is declared for the attributes and defined nowhere, so it has no memory.
 */
struct CAPABILITY("role") REENTRANT any_lock {
    int unused;
};
extern struct any_lock any_lock;

/** Says where a thread begins that it holds no lock; the compiler believes it. */
static inline void thread_holds_no_lock_yet(void) HOLDS_NO_LOCK_YET
{
}

/** A mutual exclusion lock; not recursive. */
struct CAPABILITY("mutex") mutex {
    pthread_mutex_t native;
};

/** A condition to wait for, always together with one mutex. Its clock is the monotonic one. */
struct condition {
    pthread_cond_t native;
};

/** An assertion whose expression is evaluated in every build. */
#define LOCK_CALL(call)                                                                            \
    do {                                                                                           \
        int lock_call_result = (call);                                                             \
        assert(lock_call_result == 0);                                                             \
        (void)lock_call_result;                                                                    \
    } while (0)

static inline void mutex_init(struct mutex *mutex)
{
    LOCK_CALL(pthread_mutex_init(&mutex->native, NULL));
}

static inline void mutex_destroy(struct mutex *mutex)
{
    LOCK_CALL(pthread_mutex_destroy(&mutex->native));
}

static inline void mutex_lock(struct mutex *mutex) ACQUIRE(mutex) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_mutex_lock(&mutex->native));
}

/** Takes the lock if it is free; false if it is not, even if this thread has it. */
static inline bool mutex_try_lock(struct mutex *mutex)
    THREAD_SAFETY(try_acquire_capability(true, mutex AND_ANY_LOCK)) NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_mutex_trylock(&mutex->native) == 0;
}

static inline void mutex_unlock(struct mutex *mutex) RELEASE(mutex) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_mutex_unlock(&mutex->native));
}

static inline void condition_init(struct condition *condition)
{
    pthread_condattr_t attributes;
    LOCK_CALL(pthread_condattr_init(&attributes));
    LOCK_CALL(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
    LOCK_CALL(pthread_cond_init(&condition->native, &attributes));
    LOCK_CALL(pthread_condattr_destroy(&attributes));
}

static inline void condition_destroy(struct condition *condition)
{
    LOCK_CALL(pthread_cond_destroy(&condition->native));
}

/** Gives the mutex up while waiting and holds it again on return. */
static inline void condition_wait(struct condition *condition, struct mutex *mutex)
    REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_cond_wait(&condition->native, &mutex->native));
}

/** As condition_wait(), but not past deadline_ms of the monotonic clock; false once it passed. */
static inline bool condition_wait_until(struct condition *condition, struct mutex *mutex,
                                        int64_t deadline_ms)
    REQUIRES(mutex) NO_THREAD_SAFETY_ANALYSIS
{
    struct timespec deadline = {.tv_sec = (time_t)(deadline_ms / 1000),
                                .tv_nsec = (long)(deadline_ms % 1000) * 1000000};
    int result = pthread_cond_timedwait(&condition->native, &mutex->native, &deadline);
    assert(result == 0 || result == ETIMEDOUT);
    return result == 0;
}

static inline void condition_signal(struct condition *condition)
{
    LOCK_CALL(pthread_cond_signal(&condition->native));
}

static inline void condition_broadcast(struct condition *condition)
{
    LOCK_CALL(pthread_cond_broadcast(&condition->native));
}

#endif
