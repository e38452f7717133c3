/*
 * Locks whose rules the compiler can check.
 *
 * A mutex, a read/write lock and a condition, each a thin wrapper around its POSIX original. The
 * wrappers exist for their attributes: clang's -Wthread-safety (make lint) proves at compile time
 * that a field marked GUARDED_BY(&lock) is touched with that lock held only, that a function marked
 * REQUIRES(&x->lock) is called with it held, and that no path returns with a lock still taken.
 * Under gcc the attributes expand to nothing.
 *
 * Interface:
 * - The lock calls cannot fail: what POSIX reports here are bugs of ours (a lock that was never
 *   initialised, a second lock by the same thread), so they are asserted.
 * - condition_wait() may return for no reason; wait in a loop that tests what is waited for.
 * - Deadlines are milliseconds of clock_ms(), the monotonic clock.
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

/* Only from clang 22 on may a field name the lock beside it in plain C. */
#if defined(__clang__) && __clang_major__ >= 22
#define GUARDED_BY(lock) __attribute__((guarded_by(lock)))
#else
#define GUARDED_BY(lock)
#endif

#define CAPABILITY(name)          THREAD_SAFETY(capability(name))
#define ACQUIRE(...)              THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define ACQUIRE_SHARED(...)       THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define RELEASE(...)              THREAD_SAFETY(release_capability(__VA_ARGS__))
#define RELEASE_SHARED(...)       THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...)          THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define REQUIRES(...)             THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define EXCLUDES(...)             THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS THREAD_SAFETY(no_thread_safety_analysis)

/** A mutual exclusion lock; not recursive. */
struct CAPABILITY("mutex") mutex {
    pthread_mutex_t native;
};

/** A read/write lock that lets a waiting writer in before further readers. */
struct CAPABILITY("rwlock") rwlock {
    pthread_rwlock_t native;
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

static inline bool mutex_trylock(struct mutex *mutex)
    TRY_ACQUIRE(true, mutex) NO_THREAD_SAFETY_ANALYSIS
{
    return pthread_mutex_trylock(&mutex->native) == 0;
}

static inline void mutex_unlock(struct mutex *mutex) RELEASE(mutex) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_mutex_unlock(&mutex->native));
}

/**
 * Writers first: glibc's default lets a steady stream of readers keep a writer out for ever, and
 * where this lock is used the writer is the thread that must never starve.
 */
static inline void rwlock_init(struct rwlock *rwlock)
{
#ifdef __GLIBC__
    pthread_rwlockattr_t attributes;
    LOCK_CALL(pthread_rwlockattr_init(&attributes));
    LOCK_CALL(
        pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP));
    LOCK_CALL(pthread_rwlock_init(&rwlock->native, &attributes));
    LOCK_CALL(pthread_rwlockattr_destroy(&attributes));
#else
    LOCK_CALL(pthread_rwlock_init(&rwlock->native, NULL));
#endif
}

static inline void rwlock_destroy(struct rwlock *rwlock)
{
    LOCK_CALL(pthread_rwlock_destroy(&rwlock->native));
}

static inline void rwlock_lock_shared(struct rwlock *rwlock)
    ACQUIRE_SHARED(rwlock) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_rwlock_rdlock(&rwlock->native));
}

static inline void rwlock_unlock_shared(struct rwlock *rwlock)
    RELEASE_SHARED(rwlock) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_rwlock_unlock(&rwlock->native));
}

static inline void rwlock_lock(struct rwlock *rwlock) ACQUIRE(rwlock) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_rwlock_wrlock(&rwlock->native));
}

static inline void rwlock_unlock(struct rwlock *rwlock) RELEASE(rwlock) NO_THREAD_SAFETY_ANALYSIS
{
    LOCK_CALL(pthread_rwlock_unlock(&rwlock->native));
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
