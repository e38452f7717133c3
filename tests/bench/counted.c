/*
 * What a counted server has beside its own objects: it counts what the server does, and writes that
 * at exit into the file that COUNTS names, as one line of JSON.
 *
 *   locks     calls that take one, and those that wait or signal; each that takes one also gives it
 *             back. The linker sends them through here (--wrap), and bench.mk finds their names in
 *             the LOCK lines
 *   mutexes   of these, the calls that take a mutex, or try to
 *   atomics   read-modify-writes, as <stdatomic.h> spells them (counted.h); loads and stores are
 *             not counted, and neither is what a lock does inside
 *   switches  of threads, as getrusage(2) has them
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static atomic_ullong locks, mutexes, atomics;

static void count(atomic_ullong *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

void counted_atomic(void);
void counted_atomic(void)
{
    count(&atomics);
}

#define LOCK(name, parameters, arguments)                                                          \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        count(&locks);                                                                             \
        if (strncmp(#name, "pthread_mutex_", strlen("pthread_mutex_")) == 0)                       \
            count(&mutexes);                                                                       \
        return __real_##name arguments;                                                            \
    }

LOCK(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
LOCK(pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
LOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
LOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
LOCK(pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
LOCK(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex))
LOCK(pthread_cond_timedwait,
     (pthread_cond_t * condition, pthread_mutex_t *mutex, const struct timespec *until),
     (condition, mutex, until))
LOCK(pthread_cond_signal, (pthread_cond_t * condition), (condition))
LOCK(pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
LOCK(sem_wait, (sem_t * semaphore), (semaphore))
LOCK(sem_clockwait, (sem_t * semaphore, clockid_t clock, const struct timespec *until),
     (semaphore, clock, until))
LOCK(sem_post, (sem_t * semaphore), (semaphore))

__attribute__((destructor)) static void write_counts(void)
{
    struct rusage usage;
    const char *path = getenv("COUNTS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    getrusage(RUSAGE_SELF, &usage);
    fprintf(file, "{\"locks\": %llu, \"mutexes\": %llu, \"atomics\": %llu, \"switches\": %ld}\n",
            locks, mutexes, atomics, usage.ru_nvcsw + usage.ru_nivcsw);
    fclose(file);
}
