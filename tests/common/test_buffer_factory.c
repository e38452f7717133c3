/*
 * The buffer factory: what is out, what is pooled, and that a segment has one owner at a time.
 */
#include "common/bytes/buffer_factory.h"
#include "common/bytes/shared_message.h"
#include "helpers.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(buffer_factory, .timeout = 120);

enum {
    THREADS = 8,
    ROUNDS = 2000,
};

static size_t chain_length(const struct segment *chain)
{
    size_t length = 0;
    for (; chain != NULL; chain = chain->next)
        length++;
    return length;
}

/* So many segments, in a chain. */
static struct segment *take(struct buffer_factory *factory, size_t count)
{
    struct segment *chain = NULL;
    struct segment *segment;
    while (count-- > 0 && (segment = buffer_factory_take(factory)) != NULL) {
        cr_assert_null(segment->next);
        segment->next = chain;
        chain = segment;
    }
    return chain;
}

static void give_back(struct buffer_factory *factory, struct segment *chain)
{
    while (chain != NULL) {
        struct segment *next = chain->next;
        buffer_factory_give_back(factory, chain);
        chain = next;
    }
}

static size_t pooled_in(struct buffer_factory *factory)
{
    mutex_lock(&factory->lock);
    size_t pooled = factory->pooled;
    mutex_unlock(&factory->lock);
    return pooled;
}

static void assert_counts(struct buffer_factory *factory, size_t out, size_t pooled)
{
    cr_assert_eq(buffer_factory_out(factory), out, "%zu out, not %zu", buffer_factory_out(factory),
                 out);
    cr_assert_eq(pooled_in(factory), pooled, "%zu pooled, not %zu", pooled_in(factory), pooled);
}

static void assert_clean(const struct segment *chain)
{
    for (; chain != NULL; chain = chain->next) {
        cr_assert_eq(chain->start, 0);
        cr_assert_eq(chain->end, 0);
        cr_assert_null(chain->verbs);
        cr_assert_eq(segment_length(chain), 0);
        cr_assert_eq(segment_room(chain), SEGMENT_SIZE);
    }
}

/* A test of a factory that keeps so many segments at most. */
#define FactoryTest(suite, name, limit)                                                            \
    TestWith(suite, name, struct buffer_factory, factory, buffer_factory_init(factory, limit),     \
             buffer_factory_destroy(factory))

Test(buffer_factory, a_segment_with_its_header_fills_a_page)
{
    cr_assert_eq(sizeof(struct segment) + SEGMENT_SIZE, 4096);
}

FactoryTest(buffer_factory, takes_from_the_pool_first_and_the_rest_from_the_heap, 10)
{
    give_back(factory, take(factory, 4));
    struct segment *few = take(factory, 1);
    assert_counts(factory, 1, 3);
    struct segment *many = take(factory, 8);
    cr_assert_eq(chain_length(many), 8);
    assert_clean(many);
    assert_counts(factory, 9, 0);
    give_back(factory, few);
    give_back(factory, many);
    assert_counts(factory, 0, 9);
}

/* Marks the segments of a chain as one owner's. */
static void mark(struct segment *chain, unsigned owner)
{
    for (; chain != NULL; chain = chain->next)
        memset(chain->data, (int)owner, SEGMENT_SIZE);
}

/* How many bytes of a chain are somebody else's by now. */
static size_t strange_bytes(const struct segment *chain, unsigned owner)
{
    size_t strange = 0;
    for (; chain != NULL; chain = chain->next)
        for (size_t i = 0; i < SEGMENT_SIZE; i += 61)
            strange += chain->data[i] != (unsigned char)owner;
    return strange;
}

/* As an input queue or a shared message leaves a segment. */
static void soil(struct segment *chain)
{
    for (; chain != NULL; chain = chain->next) {
        chain->start = 17;
        chain->end = SEGMENT_SIZE;
        chain->verbs = &shared_message_verbs;
    }
}

/* Takes and gives back at random, and stocks the pool: what is out and what is pooled is known. */
static void share_out(size_t limit)
{
    enum { OWNERS = 20 };
    struct buffer_factory factory;
    struct segment *owned[OWNERS] = {NULL};
    struct rng rng = rng_from(limit);
    size_t out = 0, pooled = 0;
    buffer_factory_init(&factory, limit);
    for (unsigned step = 0; step < 2000; step++) {
        unsigned owner = (unsigned)rng_below(&rng, OWNERS);
        size_t count = chain_length(owned[owner]);
        assert_counts(&factory, out, pooled);
        if (rng_below(&rng, 10) == 0) {
            cr_assert(buffer_factory_stock(&factory), "what the pool does not take is no failure");
            pooled += pooled < limit;
        } else if (count > 0) {
            cr_assert_eq(strange_bytes(owned[owner], owner), 0, "limit %zu, step %u", limit, step);
            soil(owned[owner]);
            give_back(&factory, owned[owner]);
            owned[owner] = NULL;
            out -= count;
            pooled = pooled + count < limit ? pooled + count : limit;
        } else {
            count = rng_between(&rng, 1, 5);
            owned[owner] = take(&factory, count);
            cr_assert_eq(chain_length(owned[owner]), count);
            assert_clean(owned[owner]);
            mark(owned[owner], owner);
            out += count;
            pooled -= count < pooled ? count : pooled;
        }
    }
    for (unsigned i = 0; i < OWNERS; i++)
        give_back(&factory, owned[i]);
    buffer_factory_destroy(&factory);
}

Test(buffer_factory, gives_no_segment_to_two_owners_and_keeps_no_more_than_its_limit)
{
    share_out(0);
    share_out(3);
    share_out(7);
    share_out(100);
}

struct customer {
    struct buffer_factory *factory;
    unsigned number;
    bool has_cache;
    size_t strange;
    size_t short_of;
};

static void *take_and_give_back(void *argument)
{
    struct customer *customer = argument;
    struct segment_cache cache;
    struct rng rng = rng_from(customer->number);
    if (customer->has_cache)
        segment_cache_open(&cache, customer->factory, SEGMENT_CACHE_LIMIT);
    for (int round = 0; round < ROUNDS; round++) {
        size_t wanted = rng_between(&rng, 1, 4);
        struct segment *chain = take(customer->factory, wanted);
        customer->short_of += wanted - chain_length(chain);
        mark(chain, customer->number);
        customer->strange += strange_bytes(chain, customer->number);
        give_back(customer->factory, chain);
    }
    if (customer->has_cache)
        segment_cache_close(&cache);
    return NULL;
}

FactoryTest(buffer_factory, serves_many_threads_with_caches_and_without, 10)
{
    struct customer customers[THREADS];
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        customers[i] = (struct customer){.factory = factory, .number = i, .has_cache = i % 2 == 0};
        cr_assert_eq(pthread_create(&threads[i], NULL, take_and_give_back, &customers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++) {
        cr_assert_eq(customers[i].strange, 0, "thread %u saw another one's bytes", i);
        cr_assert_eq(customers[i].short_of, 0, "thread %u got too few", i);
    }
    cr_assert_eq(buffer_factory_out(factory), 0);
    cr_assert_leq(pooled_in(factory), 10);
}

FactoryTest(buffer_factory, a_cache_keeps_what_its_thread_gives_back, 10)
{
    struct segment_cache cache;
    segment_cache_open(&cache, factory, SEGMENT_CACHE_LIMIT);
    struct segment *first = take(factory, 1);
    give_back(factory, first);
    assert_counts(factory, 0, 0);
    cr_assert_eq(cache.count, 1);
    cr_assert_eq(take(factory, 1), first);
    give_back(factory, first);
    segment_cache_close(&cache);
    assert_counts(factory, 0, 1);
}

FactoryTest(buffer_factory, a_cache_keeps_no_more_than_its_limit, 100)
{
    struct segment_cache cache;
    segment_cache_open(&cache, factory, SEGMENT_CACHE_LIMIT);
    struct segment *many = take(factory, 50);
    cr_assert_eq(chain_length(many), 50);
    assert_clean(many);
    while (many != NULL) {
        struct segment *next = many->next;
        buffer_factory_give_back(factory, many);
        cr_assert_leq(cache.count, SEGMENT_CACHE_LIMIT);
        many = next;
    }
    cr_assert_eq(pooled_in(factory) + cache.count, 50);
    segment_cache_close(&cache);
    assert_counts(factory, 0, 50);
}

/* A thread that only takes comes back to the pool, but not each time. */
FactoryTest(buffer_factory, a_cache_takes_several_at_a_time_from_the_pool, 100)
{
    struct segment_cache cache;
    give_back(factory, take(factory, 20));
    segment_cache_open(&cache, factory, SEGMENT_CACHE_LIMIT);
    struct segment *first = take(factory, 1);
    cr_assert_eq(cache.count, SEGMENT_CACHE_LIMIT / 2);
    assert_counts(factory, 1, 20 - 1 - SEGMENT_CACHE_LIMIT / 2);
    give_back(factory, first);
    segment_cache_close(&cache);
    assert_counts(factory, 0, 20);
}

FactoryTest(buffer_factory, a_cache_keeps_as_many_as_its_limit_says, 20)
{
    struct segment_cache cache;
    for (int i = 0; i < 5; i++)
        cr_assert(buffer_factory_stock(factory));
    segment_cache_open(&cache, factory, 1);
    struct segment *two = take(factory, 2);
    cr_assert_eq(cache.count, 0, "%zu that nobody wanted", cache.count);
    give_back(factory, two);
    cr_assert_eq(cache.count, 1);
    segment_cache_close(&cache);
    assert_counts(factory, 0, 5);
}

Test(buffer_factory, a_thread_has_one_cache_and_it_is_of_one_factory)
{
    struct buffer_factory factory, other;
    struct segment_cache cache, second;
    buffer_factory_init(&factory, 10);
    buffer_factory_init(&other, 10);
    segment_cache_open(&cache, &factory, SEGMENT_CACHE_LIMIT);
    segment_cache_open(&second, &other, SEGMENT_CACHE_LIMIT);
    give_back(&other, take(&other, 3));
    cr_assert_eq(second.count, 0);
    assert_counts(&other, 0, 3);
    segment_cache_close(&second);
    segment_cache_close(&cache);
    buffer_factory_destroy(&other);
    buffer_factory_destroy(&factory);
}

/* Nothing that runs out of memory goes under valgrind, which needs some itself. */
TestSuite(no_memory, .timeout = 120);

Test(no_memory, buffer_factory_takes_what_there_is)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    struct buffer_factory factory;
    struct segment_cache cache;
    buffer_factory_init(&factory, 10);
    struct segment *held = take(&factory, 3);

    memory_take_all();
    struct segment *none = buffer_factory_take(&factory);
    segment_cache_open(&cache, &factory, SEGMENT_CACHE_LIMIT);
    struct segment *still_none = buffer_factory_take(&factory);
    size_t out = buffer_factory_out(&factory);
    memory_give_back();

    cr_assert_null(none);
    cr_assert_null(still_none);
    cr_assert_eq(out, 3, "%zu out", out);
    struct segment *later = take(&factory, 5);
    cr_assert_eq(chain_length(later), 5);
    give_back(&factory, later);
    give_back(&factory, held);
    segment_cache_close(&cache);
    assert_counts(&factory, 0, 8);
    buffer_factory_destroy(&factory);
}

Test(no_memory, buffer_factory_has_no_stock)
{
    if (!memory_can_run_out())
        cr_skip_test("not under a sanitizer or valgrind");
    struct buffer_factory factory;
    buffer_factory_init(&factory, 4);
    cr_assert(buffer_factory_stock(&factory));

    memory_take_all();
    bool stocked = buffer_factory_stock(&factory);
    struct segment *first = take(&factory, 1);
    memory_give_back();

    cr_assert_not(stocked);
    cr_assert_not_null(first, "the stock of before is there");
    assert_counts(&factory, 1, 0);
    give_back(&factory, first);
    buffer_factory_destroy(&factory);
}
