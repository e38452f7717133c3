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
 *   held      of the mutex that is held for longest in all: how often it was taken, for how many
 *             nanoseconds it was held, less what looking at the clock takes, and the function that
 *             took it first (an offset in the program). Sleeping in a condition is no holding; and
 *             a thread that lost its processor meanwhile says nothing of the lock, so a holding
 *             that took very long counts as one of the others
 */
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

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

enum {
    MUTEXES = 1 << 16, /* more than any server has; those beyond are not measured */
    CLOCK_READS = 1000,
    SWITCHED_NS = 50000, /* nobody holds a mutex for so long who has a processor */
};

/* What is known of a mutex. Whoever holds it writes all but the first field. */
struct held {
    _Atomic uintptr_t mutex; /* 0: the entry is free */
    uintptr_t taker;
    uint64_t taken, ns, since;
    uint64_t measured; /* holdings that make up the time */
};

static struct held held[MUTEXES];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Its entry, a new one if need be; NULL: there is no room. */
static struct held *entry_of(const pthread_mutex_t *mutex)
{
    uintptr_t wanted = (uintptr_t)mutex;
    size_t start = wanted / 8 * 2654435761u % MUTEXES;
    for (size_t i = 0; i < 64; i++) {
        struct held *entry = &held[(start + i) % MUTEXES];
        uintptr_t there = 0;
        if (atomic_load(&entry->mutex) == wanted ||
            atomic_compare_exchange_strong(&entry->mutex, &there, wanted) || there == wanted)
            return entry;
    }
    return NULL;
}

static void begin_holding(const pthread_mutex_t *mutex, void *taker)
{
    struct held *entry = entry_of(mutex);
    if (entry == NULL)
        return;
    if (entry->taker == 0)
        entry->taker = (uintptr_t)taker;
    entry->taken++;
    entry->since = now_ns();
}

static void end_holding(const pthread_mutex_t *mutex)
{
    uint64_t now = now_ns();
    struct held *entry = entry_of(mutex);
    if (entry == NULL || now - entry->since >= SWITCHED_NS)
        return;
    entry->ns += now - entry->since;
    entry->measured++;
}

#define CALLER __builtin_return_address(0)

/* What is done before the call, and after one that succeeds. */
#define LOCK(name, parameters, arguments, before, after)                                           \
    int __real_##name parameters;                                                                  \
    int __wrap_##name parameters;                                                                  \
    int __wrap_##name parameters                                                                   \
    {                                                                                              \
        count(&locks);                                                                             \
        if (strncmp(#name, "pthread_mutex_", strlen("pthread_mutex_")) == 0)                       \
            count(&mutexes);                                                                       \
        before;                                                                                    \
        int result = __real_##name arguments;                                                      \
        if (result == 0)                                                                           \
            after;                                                                                 \
        return result;                                                                             \
    }

LOCK(pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex), (void)0, begin_holding(mutex, CALLER))
LOCK(pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex), (void)0,
     begin_holding(mutex, CALLER))
LOCK(pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock), (void)0, (void)0)
LOCK(pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock), (void)0, (void)0)
LOCK(pthread_spin_lock, (pthread_spinlock_t * lock), (lock), (void)0, (void)0)
LOCK(pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex), (condition, mutex),
     end_holding(mutex), begin_holding(mutex, CALLER))
LOCK(pthread_cond_signal, (pthread_cond_t * condition), (condition), (void)0, (void)0)
LOCK(pthread_cond_broadcast, (pthread_cond_t * condition), (condition), (void)0, (void)0)

/* This one has the mutex again also if the time is over. */
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    count(&locks);
    end_holding(mutex);
    int result = __real_pthread_cond_timedwait(condition, mutex, until);
    begin_holding(mutex, CALLER);
    return result;
}

/* It gives one back, so it is no lock that is counted. */
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    end_holding(mutex);
    return __real_pthread_mutex_unlock(mutex);
}

/* The first object that is listed is the program. */
static int find_program(struct dl_phdr_info *info, size_t size, void *base)
{
    (void)size;
    *(uintptr_t *)base = info->dlpi_addr;
    return 1;
}

/* What lies between two looks at the clock that have nothing between them. */
static uint64_t clock_cost(void)
{
    uint64_t begin = now_ns(), end = begin;
    for (int i = 0; i < CLOCK_READS; i++)
        end = now_ns();
    return (end - begin) / CLOCK_READS;
}

static uint64_t time_held(const struct held *entry, uint64_t clock)
{
    uint64_t looking = entry->measured * clock;
    if (entry->ns <= looking)
        return 0;
    return (entry->ns - looking) * entry->taken / entry->measured;
}

static const struct held *longest(uint64_t clock)
{
    const struct held *found = &held[0];
    for (size_t i = 1; i < MUTEXES; i++)
        if (time_held(&held[i], clock) > time_held(found, clock))
            found = &held[i];
    return found;
}

__attribute__((destructor)) static void write_counts(void)
{
    struct rusage usage;
    const char *path = getenv("COUNTS");
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    if (file == NULL)
        return;
    getrusage(RUSAGE_SELF, &usage);
    uintptr_t base = 0;
    uint64_t clock = clock_cost();
    const struct held *most = longest(clock);
    dl_iterate_phdr(find_program, &base);
    fprintf(file,
            "{\"locks\": %llu, \"mutexes\": %llu, \"atomics\": %llu, \"switches\": %ld, "
            "\"held\": {\"taken\": %llu, \"ns\": %llu, \"taker\": %llu}}\n",
            locks, mutexes, atomics, usage.ru_nvcsw + usage.ru_nivcsw,
            (unsigned long long)most->taken, (unsigned long long)time_held(most, clock),
            (unsigned long long)(most->taker != 0 ? most->taker - base : 0));
    fclose(file);
}
