#include "common/bytes/buffer_factory.h"

#include <stdlib.h>

/* What the calling thread keeps for itself. */
static _Thread_local struct segment_cache *own_cache;

void buffer_factory_init(struct buffer_factory *factory, size_t pool_limit)
{
    *factory = (struct buffer_factory){.pool_limit = pool_limit};
    mutex_init(&factory->lock);
}

static void free_chain(struct segment *chain)
{
    while (chain != NULL) {
        struct segment *next = chain->next;
        free(chain);
        chain = next;
    }
}

void buffer_factory_destroy(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    assert(factory->out == 0);
    struct segment *pool = factory->pool;
    factory->pool = NULL;
    factory->pooled = 0;
    mutex_unlock(&factory->lock);
    free_chain(pool);
    mutex_destroy(&factory->lock);
}

/* Moves up to count pooled segments to the front of chain; how many it moved. */
static size_t take_pooled(struct buffer_factory *factory, size_t count, struct segment **chain)
    REQUIRES(&factory->lock)
{
    size_t taken = 0;
    while (taken < count && factory->pool != NULL) {
        struct segment *segment = factory->pool;
        factory->pool = segment->next;
        segment->next = *chain;
        *chain = segment;
        taken++;
    }
    factory->pooled -= taken;
    return taken;
}

static struct segment *new_segment(void)
{
    struct segment *segment = malloc(sizeof(*segment) + SEGMENT_SIZE);
    if (segment != NULL)
        segment->next = NULL;
    return segment;
}

/*
 * Takes up to `most` segments from the pool, or if that is empty one from the heap. *taken is how
 * many: 0 without memory.
 */
static struct segment *take_shared(struct buffer_factory *factory, size_t most, size_t *taken)
{
    struct segment *chain = NULL;

    mutex_lock(&factory->lock);
    size_t pooled = take_pooled(factory, most, &chain);
    *taken = pooled > 0 ? pooled : 1;
    factory->out += *taken;
    mutex_unlock(&factory->lock);

    if (pooled > 0)
        return chain;
    chain = new_segment();
    if (chain != NULL)
        return chain;
    mutex_lock(&factory->lock);
    factory->out--;
    mutex_unlock(&factory->lock);
    *taken = 0;
    return NULL;
}

static void give_back_shared(struct buffer_factory *factory, struct segment *chain)
{
    mutex_lock(&factory->lock);
    while (chain != NULL && factory->pooled < factory->pool_limit) {
        struct segment *next = chain->next;
        chain->next = factory->pool;
        factory->pool = chain;
        factory->pooled++;
        factory->out--;
        chain = next;
    }
    for (const struct segment *rest = chain; rest != NULL; rest = rest->next)
        factory->out--;
    mutex_unlock(&factory->lock);
    free_chain(chain);
}

void segment_cache_open(struct segment_cache *cache, struct buffer_factory *factory, size_t limit)
{
    *cache = (struct segment_cache){.factory = factory, .limit = limit};
    if (own_cache == NULL)
        own_cache = cache;
}

void segment_cache_close(struct segment_cache *cache)
{
    if (cache->count > 0)
        give_back_shared(cache->factory, cache->first);
    if (own_cache == cache)
        own_cache = NULL;
}

/* Takes from the cache, which fetches some for the next takers, too, when it is empty. */
static struct segment *take_cached(struct segment_cache *cache)
{
    if (cache->count == 0) {
        cache->first = take_shared(cache->factory, 1 + cache->limit / 2, &cache->count);
        if (cache->first == NULL)
            return NULL;
    }
    struct segment *segment = cache->first;
    cache->first = segment->next;
    cache->count--;
    return segment;
}

struct segment *buffer_factory_take(struct buffer_factory *factory)
{
    struct segment_cache *cache = own_cache;
    size_t taken;
    bool is_cached = cache != NULL && cache->factory == factory;
    struct segment *segment = is_cached ? take_cached(cache) : take_shared(factory, 1, &taken);
    if (segment != NULL)
        *segment = (struct segment){0};
    return segment;
}

static bool is_full(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    bool full = factory->pooled == factory->pool_limit;
    mutex_unlock(&factory->lock);
    return full;
}

bool buffer_factory_stock(struct buffer_factory *factory)
{
    if (is_full(factory))
        return true;
    struct segment *segment = new_segment();
    if (segment == NULL)
        return false;
    mutex_lock(&factory->lock);
    factory->out++;
    mutex_unlock(&factory->lock);
    give_back_shared(factory, segment);
    return true;
}

/* A cache that is full gives half of what it holds to the pool. */
static void give_back_half(struct segment_cache *cache)
{
    struct segment **end = &cache->first;
    for (size_t kept = 0; kept < (cache->limit + 1) / 2; kept++)
        end = &(*end)->next;
    struct segment *rest = *end;
    *end = NULL;
    cache->count = (cache->limit + 1) / 2;
    give_back_shared(cache->factory, rest);
}

void buffer_factory_give_back(struct buffer_factory *factory, struct segment *segment)
{
    struct segment_cache *cache = own_cache;
    if (cache == NULL || cache->factory != factory) {
        segment->next = NULL;
        give_back_shared(factory, segment);
        return;
    }
    segment->next = cache->first;
    cache->first = segment;
    cache->count++;
    if (cache->count > cache->limit)
        give_back_half(cache);
}

size_t buffer_factory_out(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    size_t out = factory->out;
    mutex_unlock(&factory->lock);
    bool caches = own_cache != NULL && own_cache->factory == factory;
    return caches ? out - own_cache->count : out;
}
