#include "dispatcher_pool.h"

#include "strands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    MAX_DISPATCHERS = 1000,
};

/* ---- Beginning and end --------------------------------------------------------------------- */

int dispatcher_pool_open(struct dispatcher_pool *pool, size_t count, struct server *server,
                         struct executor *executor, struct admission *admission,
                         const struct selector_provider *provider, bool guard_works)
{
    *pool = (struct dispatcher_pool){.server = server, .executor = executor};
    pool->dispatchers =
        aligned_alloc(alignof(struct dispatcher), count * sizeof(*pool->dispatchers));
    if (pool->dispatchers != NULL) {
        while (pool->count < count &&
               dispatcher_open(&pool->dispatchers[pool->count], server, executor, admission,
                               provider, guard_works) == 0)
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
    free(pool->dispatchers);
}

int dispatcher_pool_start(struct dispatcher_pool *pool)
{
    strands_keep(pool->dispatchers[0].strands);
    while (pool->running < pool->count) {
        struct dispatcher *next = &pool->dispatchers[pool->running];
        next->number = pool->running + 1;
        int error = dispatcher_start(next);
        if (error != 0) {
            dispatcher_pool_stop(pool);
            return error;
        }
        pool->running++;
    }
    return 0;
}

void dispatcher_pool_stop(struct dispatcher_pool *pool)
{
    int64_t deadline = server_drain_end(pool->server);
    for (size_t i = 0; i < pool->running; i++)
        dispatcher_stop(&pool->dispatchers[i]);
    while (pool->running > 0) {
        if (pool->running == 1)
            strands_let_go(pool->dispatchers[0].strands);
        dispatcher_join(&pool->dispatchers[--pool->running], deadline);
    }
}

/* ---- The next one -------------------------------------------------------------------------- */

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
    for (enum counter counter = 0; counter < COUNTERS_OF_CONNECTIONS; counter++) {
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

struct option dispatcher_pool_option(size_t *count)
{
    static char default_text[24];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    snprintf(default_text, sizeof(default_text), "%ld",
             processors > 0 && processors <= MAX_DISPATCHERS ? processors : 1);
    return (struct option){.name = "--dispatchers",
                           .value = "N",
                           .default_text = default_text,
                           .help =
                               "run N dispatchers; each new connection goes to the next of them",
                           .parse = option_parse_number,
                           .target = count,
                           .min = 1,
                           .max = MAX_DISPATCHERS};
}
