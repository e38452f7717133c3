/*
 * Stands in for common/bytes/buffer_factory.c until step C.21: each segment is one of the heap.
 */
#include "common/bytes/buffer_factory.h"

#include <stdlib.h>

struct segment *buffer_factory_take(struct buffer_factory *factory)
{
    (void)factory;
    return calloc(1, sizeof(struct segment) + SEGMENT_SIZE);
}

void buffer_factory_give_back(struct buffer_factory *factory, struct segment *segment)
{
    (void)factory;
    free(segment);
}

void buffer_factory_init(struct buffer_factory *factory, size_t pool_limit)
{
    *factory = (struct buffer_factory){.pool_limit = pool_limit};
}

void buffer_factory_destroy(struct buffer_factory *factory)
{
    (void)factory;
}

size_t buffer_factory_out(struct buffer_factory *factory)
{
    (void)factory;
    return 0;
}

void segment_cache_open(struct segment_cache *cache, struct buffer_factory *factory, size_t limit)
{
    *cache = (struct segment_cache){.factory = factory, .limit = limit};
}

void segment_cache_close(struct segment_cache *cache)
{
    (void)cache;
}
