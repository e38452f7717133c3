#include "buffer_factory.h"

#include <stdlib.h>

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

struct segment *buffer_factory_take(struct buffer_factory *factory, size_t count)
{
    struct segment *chain = NULL;

    mutex_lock(&factory->lock);
    size_t pooled = take_pooled(factory, count, &chain);
    factory->out += count;
    mutex_unlock(&factory->lock);

    bool complete = take_new(count - pooled, &chain);
    if (!complete) {
        free_chain(chain);
        mutex_lock(&factory->lock);
        factory->out -= count;
        mutex_unlock(&factory->lock);
        return NULL;
    }
    for (struct segment *segment = chain; segment != NULL; segment = segment->next) {
        segment->start = segment->end = 0;
        segment->shared = NULL;
        segment->file = NULL;
    }
    return chain;
}

bool buffer_factory_stock(struct buffer_factory *factory, size_t count)
{
    struct segment *chain = NULL;
    if (buffer_factory_pooled(factory) == factory->pool_limit)
        return true;
    if (!take_new(count, &chain)) {
        free_chain(chain);
        return false;
    }
    mutex_lock(&factory->lock);
    factory->out += count;
    mutex_unlock(&factory->lock);
    buffer_factory_give_back(factory, chain);
    return true;
}

void buffer_factory_give_back(struct buffer_factory *factory, struct segment *chain)
{
    if (chain == NULL)
        return;
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

size_t buffer_factory_out(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    size_t out = factory->out;
    mutex_unlock(&factory->lock);
    return out;
}

size_t buffer_factory_pooled(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    size_t pooled = factory->pooled;
    mutex_unlock(&factory->lock);
    return pooled;
}
