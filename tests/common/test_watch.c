/*
 * The lag of a loop, from the loop's histogram to the gauges of the last minute.
 */
#include "common/apps/application.h"
#include "common/server/watch_ask.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(watch, .timeout = 120);

Test(watch, a_bucket_ends_where_the_next_one_begins)
{
    for (unsigned i = 0; i + 1 < LOOP_LAG_BUCKETS; i++) {
        uint64_t end = loop_bucket_end(i);
        cr_assert_eq(loop_bucket(end), i, "%llu us", (unsigned long long)end);
        cr_assert_eq(loop_bucket(end + 1), i + 1, "%llu us", (unsigned long long)end + 1);
    }
    cr_assert_eq(loop_bucket(UINT64_MAX), LOOP_LAG_BUCKETS - 1);
}

/* No bucket is wider than a quarter of what it begins with. */
Test(watch, a_bucket_is_narrow)
{
    for (unsigned i = 8; i + 1 < LOOP_LAG_BUCKETS; i++) {
        uint64_t begin = loop_bucket_end(i - 1) + 1;
        cr_assert_leq((loop_bucket_end(i) - begin + 1) * 4, begin, "bucket %u", i);
    }
}

static struct server server;
static struct watch watch;
static struct watched_loop loops[1];
static struct loop loop;

static void set_up(void)
{
    memset(&server, 0, sizeof(server));
    memset(&loop, 0, sizeof(loop));
    server.name = "test";
    server.log = (struct log){.program = "test", .level = LOG_LEVEL_WARN};
    buffer_factory_init(&server.buffers, 1);
    watch_open(&watch, &server, loops);
    watch_add_loop(&watch, &loop, NULL, &server.counters, "loop");
}

static void tear_down(void)
{
    watch_close(&watch);
    buffer_factory_destroy(&server.buffers);
}

struct wanted {
    const char *part;
    const char *name;
    uint64_t value;
    int times;
};

static void keep(void *context, const char *part, const char *name, uint64_t value)
{
    struct wanted *wanted = context;
    if (strcmp(part, wanted->part) != 0 || strcmp(name, wanted->name) != 0)
        return;
    wanted->value = value;
    wanted->times++;
}

static uint64_t gauge(const char *name)
{
    struct wanted wanted = {.part = "loop", .name = name, .value = UINT64_MAX};
    watch_gauges(&watch, keep, &wanted);
    return wanted.value;
}

static void rounds(uint64_t us, unsigned count)
{
    while (count-- > 0)
        loop_count(&loop, (int64_t)us * 1000);
}

Test(watch, quantiles_of_the_lag, .init = set_up, .fini = tear_down)
{
    cr_assert_eq(gauge("lag_max_us"), 0, "no round yet");
    rounds(10, 500);
    rounds(1000, 490);
    rounds(100000, 10);
    cr_assert_eq(gauge("rounds"), 1000);
    cr_assert_eq(gauge("lag_p50_us"), loop_bucket_end(loop_bucket(10)));
    cr_assert_eq(gauge("lag_p99_us"), loop_bucket_end(loop_bucket(1000)));
    cr_assert_eq(gauge("lag_max_us"), loop_bucket_end(loop_bucket(100000)));
}

/* Seconds pass as looks: sixty of them, and what was before is over. */
Test(watch, only_the_last_minute_counts, .init = set_up, .fini = tear_down)
{
    rounds(100000, 1);
    for (int second = 0; second < 45; second++)
        server_look(&server, INT64_MAX);
    cr_assert_eq(gauge("rounds"), 1, "45 seconds ago");
    rounds(10, 1);
    for (int second = 0; second < 30; second++)
        server_look(&server, INT64_MAX);
    cr_assert_eq(gauge("rounds"), 1, "75 and 30 seconds ago");
    cr_assert_eq(gauge("lag_max_us"), loop_bucket_end(loop_bucket(10)));
    for (int second = 0; second < 60; second++)
        server_look(&server, INT64_MAX);
    cr_assert_eq(gauge("rounds"), 0, "more than a minute ago");
}

static struct watched_part observed;
static int64_t looked;

static void note_look(struct watched_part *own, struct watch *by, int64_t now_ns)
{
    (void)own;
    (void)by;
    looked = now_ns;
}

/* Whoever is seen by two looks has been there for a second. A loop says when its round began, which
 * may be past. */
Test(watch, from_one_look_to_the_next_is_a_second, .init = set_up, .fini = tear_down)
{
    observed.look = note_look;
    watch_add_part(&watch, &observed);
    int64_t before = clock_ns();
    int64_t next = server_look(&server, clock_ms() - 50);
    cr_assert_geq(looked, before, "the look is at the beginning of the round");
    cr_assert_geq(next * 1000000 - looked, 1000000000, "%lld ns",
                  (long long)(next * 1000000 - looked));
    watch.part_count = 0;
}

Test(watch, a_loop_that_has_more_to_do_counts_its_rounds, .init = set_up, .fini = tear_down)
{
    loop_woke(&loop);
    loop_woke(&loop); /* select did not sleep in between */
    loop_sleeps(&loop, 7);
    loop_woke(&loop);
    cr_assert_eq(gauge("rounds"), 2);
    cr_assert_eq(gauge("timers"), 7);
}

static void expect_counter(const char *part, const char *name, uint64_t value)
{
    struct wanted wanted = {.part = part, .name = name};
    cr_assert(watch_tell_counters(&server, keep, &wanted));
    cr_assert_eq(wanted.times, 1, "%s of '%s' is told %d times", name, part, wanted.times);
    cr_assert_eq(wanted.value, value, "%s of '%s' is %llu", name, part,
                 (unsigned long long)wanted.value);
}

/* An application's counters belong to no loop; also those that are zero are told. */
Test(watch, counters_of_an_application_are_told_behind_the_servers, .init = set_up,
     .fini = tear_down)
{
    struct own_counter sold = {.name = "sold"};
    struct own_counter returned = {.name = "returned"};
    application_count(&server, &sold);
    application_count(&server, &returned);
    counters_add(&server.counters, COUNTER_MESSAGES, 7);
    own_counter_add(&sold, 3);
    expect_counter("loop", "messages", 7);
    expect_counter("", "rejected", 0);
    expect_counter("", "sold", 3);
    expect_counter("", "returned", 0);
    own_counter_add(&sold, 1);
    expect_counter("", "sold", 4);
}

/* A thread of an application's may ask before the server has a watch, and after it. */
Test(watch, nobody_is_told_anything_without_a_watch)
{
    struct wanted wanted = {.part = "", .name = "rejected"};
    set_up();
    tear_down();
    cr_assert(!watch_tell_counters(&server, keep, &wanted));
    cr_assert(!watch_tell_gauges(&server, keep, &wanted));
    cr_assert_eq(wanted.times, 0);
}
