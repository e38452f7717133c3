#include "dispatcher_pool.h"

#include "common/clock.h"
#include "common/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MOST_DISPATCHERS = 1000,
};

/* ---- Beginning and end --------------------------------------------------------------------- */

int dispatcher_pool_open(struct dispatcher_pool *pool, size_t count, struct server *server,
                         struct executor *executor, struct admission *admission,
                         const struct selector_provider *provider, bool guard_stands)
{
    *pool = (struct dispatcher_pool){.server = server, .executor = executor};
    pool->dispatchers = calloc(count, sizeof(*pool->dispatchers));
    pool->threads = calloc(count, sizeof(*pool->threads));
    if (pool->dispatchers != NULL && pool->threads != NULL) {
        while (pool->count < count &&
               dispatcher_open(&pool->dispatchers[pool->count], server, executor, admission,
                               provider, guard_stands) == 0)
            pool->count++;
        if (pool->count == count)
            return 0;
    }
    int error = errno;
    dispatcher_pool_close(pool);
    errno = error;
    return -1;
}

void dispatcher_pool_close(struct dispatcher_pool *pool)
{
    while (pool->count > 0)
        dispatcher_close(&pool->dispatchers[--pool->count]);
    free(pool->threads);
    free(pool->dispatchers);
}

static void *dispatcher_thread(void *argument)
{
    thread_set_name("dispatcher");
    dispatcher_dispatch(argument);
    return NULL;
}

int dispatcher_pool_start(struct dispatcher_pool *pool)
{
    while (pool->running < pool->count) {
        size_t i = pool->running;
        int error = thread_start(&pool->threads[i], dispatcher_thread, &pool->dispatchers[i]);
        if (error != 0) {
            dispatcher_pool_stop(pool);
            return error;
        }
        pool->running++;
    }
    return 0;
}

/* Under some policies, or without workers, a dispatcher may be held up by a handler itself. */
void dispatcher_pool_stop(struct dispatcher_pool *pool)
{
    struct server *server = pool->server;
    int64_t deadline = clock_ms() + server->settings.drain_timeout;
    for (size_t i = 0; i < pool->running; i++)
        dispatcher_stop(&pool->dispatchers[i]);
    for (size_t i = 0; i < pool->running; i++)
        if (!dispatcher_await(&pool->dispatchers[i], deadline))
            service_cut_short(&server->service);
    while (pool->running > 0)
        pthread_join(pool->threads[--pool->running], NULL);
}

/* ---- Who is next --------------------------------------------------------------------------- */

struct dispatcher *dispatcher_pool_next(struct dispatcher_pool *pool)
{
    struct dispatcher *dispatcher = &pool->dispatchers[pool->next];
    pool->next = (pool->next + 1) % pool->count;
    return dispatcher;
}

/* ---- Counters ------------------------------------------------------------------------------ */

void dispatcher_pool_count(struct dispatcher_pool *pool)
{
    struct counters *all = &pool->server->counters;
    for (size_t i = 0; i < pool->count; i++)
        dispatcher_count(&pool->dispatchers[i]);
    for (enum counter counter = 0; counter < COUNTERS; counter++) {
        uint64_t sum = 0;
        for (size_t i = 0; i < pool->count; i++)
            sum += counters_get(&pool->dispatchers[i].counters, counter);
        if (counter != COUNTER_REJECTED) /* the acceptor's */
            counters_set(all, counter, sum);
    }
    if (pool->executor != NULL)
        executor_count(pool->executor, all);
}

void dispatcher_pool_report(const struct dispatcher_pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        char name[128];
        snprintf(name, sizeof(name), "%s: dispatcher %zu", pool->server->name, i + 1);
        counters_print(&pool->dispatchers[i].counters, name);
    }
}

/* ---- How many ------------------------------------------------------------------------------ */

struct option dispatcher_pool_option(uint64_t *count)
{
    static char standard[24];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(standard, sizeof(standard), "%ld",
             processors > 0 && processors <= MOST_DISPATCHERS ? processors : 1);
    return (struct option){.name = "--dispatchers",
                           .value = "N",
                           .standard = standard,
                           .help = "dispatchers; connections are given to each in turn",
                           .read = option_number,
                           .target = count,
                           .least = 1,
                           .most = MOST_DISPATCHERS};
}
