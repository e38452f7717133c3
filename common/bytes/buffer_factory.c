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

/* Adds count segments from the heap to the front of chain; false if there is no memory. */
static bool take_new(size_t count, struct segment **chain)
{
    while (count-- > 0) {
        struct segment *segment = malloc(sizeof(*segment) + SEGMENT_SIZE);
        if (segment == NULL)
            return false;
        segment->next = *chain;
        *chain = segment;
    }
    return true;
}

/* Takes count segments from the pool and the heap, and up to `spare` more from the pool alone. */
static struct segment *take_shared(struct buffer_factory *factory, size_t count, size_t spare,
                                   size_t *taken)
{
    struct segment *chain = NULL;

    mutex_lock(&factory->lock);
    size_t pooled = take_pooled(factory, count + spare, &chain);
    *taken = pooled > count ? pooled : count;
    factory->out += *taken;
    mutex_unlock(&factory->lock);

    if (take_new(*taken - pooled, &chain))
        return chain;
    free_chain(chain);
    mutex_lock(&factory->lock);
    factory->out -= *taken;
    mutex_unlock(&factory->lock);
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

/* Makes sure that the cache has count segments, and while it is at it some for the next takers. */
static bool refill(struct segment_cache *cache, size_t count)
{
    size_t taken;
    struct segment *chain =
        take_shared(cache->factory, count - cache->count, cache->limit / 2, &taken);
    if (chain == NULL)
        return false;
    struct segment *last = chain;
    while (last->next != NULL)
        last = last->next;
    last->next = cache->first;
    cache->first = chain;
    cache->count += taken;
    return true;
}

/* Cuts the first count segments, which must be there, off the cache. */
static struct segment *take_cached(struct segment_cache *cache, size_t count)
{
    struct segment *chain = cache->first;
    struct segment **end = &cache->first;
    cache->count -= count;
    while (count-- > 0)
        end = &(*end)->next;
    cache->first = *end;
    *end = NULL;
    return chain;
}

struct segment *buffer_factory_take(struct buffer_factory *factory, size_t count)
{
    struct segment_cache *cache = own_cache;
    struct segment *chain = NULL;
    size_t taken;
    if (count == 0)
        return NULL;
    if (cache == NULL || cache->factory != factory)
        chain = take_shared(factory, count, 0, &taken);
    else if (cache->count >= count || refill(cache, count))
        chain = take_cached(cache, count);
    for (struct segment *segment = chain; segment != NULL; segment = segment->next) {
        segment->start = segment->end = 0;
        segment->verbs = NULL;
    }
    return chain;
}

static bool is_full(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    bool full = factory->pooled == factory->pool_limit;
    mutex_unlock(&factory->lock);
    return full;
}

bool buffer_factory_stock(struct buffer_factory *factory, size_t count)
{
    struct segment *chain = NULL;
    if (is_full(factory))
        return true;
    if (!take_new(count, &chain)) {
        free_chain(chain);
        return false;
    }
    mutex_lock(&factory->lock);
    factory->out += count;
    mutex_unlock(&factory->lock);
    give_back_shared(factory, chain);
    return true;
}

void buffer_factory_give_back(struct buffer_factory *factory, struct segment *chain)
{
    struct segment_cache *cache = own_cache;
    if (chain == NULL)
        return;
    if (cache == NULL || cache->factory != factory) {
        give_back_shared(factory, chain);
        return;
    }
    while (chain != NULL) {
        struct segment *next = chain->next;
        chain->next = cache->first;
        cache->first = chain;
        cache->count++;
        chain = next;
    }
    if (cache->count > cache->limit)
        give_back_shared(factory, take_cached(cache, cache->count - (cache->limit + 1) / 2));
}

size_t buffer_factory_out(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    size_t out = factory->out;
    mutex_unlock(&factory->lock);
    bool caches = own_cache != NULL && own_cache->factory == factory;
    return caches ? out - own_cache->count : out;
}
