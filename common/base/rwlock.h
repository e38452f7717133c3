/*
 * A read/write lock: many threads may hold it to read, or one to write. The selector's guard of
 * stages 4 and 5 is made of it.
 *
 * Interface: as that of a mutex (lock.h), whose attributes it has, too. It is not recursive: who
 * holds it to read and asks again waits forever, if a writer has come in between.
 */
#ifndef COMMON_RWLOCK_H
#define COMMON_RWLOCK_H

#include "common/base/lock.h"

/**
 * A read/write lock. With glibc a waiting writer comes before further readers; other libraries
 * decide that themselves, and musl's lets readers overtake.
 */
struct CAPABILITY("rwlock") rwlock {
    pthread_rwlock_t native;
};

/**
 * Writers first: glibc's default lets a steady stream of readers keep a writer out forever, and
 * where this lock is used the writer is the thread that must never starve. POSIX has no way to ask
 * for that, so elsewhere the lock is as the library makes it.
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

#endif
