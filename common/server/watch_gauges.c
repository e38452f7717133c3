/*
 * What a watch counts: the gauges of loops and parts, and how late each loop was.
 */
#include "common/server/watch.h"

#include <poll.h>

enum {
    ANSWER_MS = 50, /* how long a loop may take to answer; one that is held up does not */
};

/* The lag that this part of the rounds, in thousandths, did not exceed. */
static uint64_t quantile(const uint32_t *rounds, uint64_t all, unsigned thousandths)
{
    uint64_t below = 0;
    unsigned i = 0;
    while (i < LOOP_LAG_BUCKETS - 1 && (below += rounds[i]) * 1000 < all * thousandths)
        i++;
    return all > 0 ? loop_bucket_end(i) : 0;
}

/* The rounds of the last minute: all so far, without those before the oldest snapshot. */
static void tell_lag(const struct watch *watch, const struct watched_loop *watched,
                     watch_gauge *gauge, void *context)
{
    uint32_t rounds[LOOP_LAG_BUCKETS];
    uint64_t all = 0;
    const uint32_t *oldest =
        watched->snapshots[(watch->looks + WATCH_EVERY - 1) / WATCH_EVERY % WATCH_SNAPSHOTS];
    for (unsigned i = 0; i < LOOP_LAG_BUCKETS; i++) {
        rounds[i] = atomic_load_explicit(&watched->loop->lag[i], memory_order_relaxed) - oldest[i];
        all += rounds[i];
    }
    gauge(context, watched->name, "rounds", all);
    gauge(context, watched->name, "lag_p50_us", quantile(rounds, all, 500));
    gauge(context, watched->name, "lag_p99_us", quantile(rounds, all, 990));
    gauge(context, watched->name, "lag_max_us", quantile(rounds, all, 1000));
}

static void tell_loop(const struct watch *watch, const struct watched_loop *watched,
                      watch_gauge *gauge, void *context)
{
    const struct loop *loop = watched->loop;
    gauge(context, watched->name, "open", counters_open(watched->counters));
    gauge(context, watched->name, "timers", atomic_load(&loop->timers));
    gauge(context, watched->name, "output_held", atomic_load(&loop->output_held));
    gauge(context, watched->name, "input_held", atomic_load(&loop->input_held));
    tell_lag(watch, watched, gauge, context);
}

size_t watch_ask_loops(struct watch *watch, bool is_main)
{
    mutex_lock(&watch->lock);
    size_t count = watch->over ? 0 : watch->loop_count;
    mutex_unlock(&watch->lock);
    for (size_t i = 0; i < count; i++) {
        const struct watched_loop *watched = &watch->loops[i];
        if (watched->selector != NULL || !is_main)
            atomic_fetch_add(&watched->loop->asked, 1);
        if (watched->selector != NULL)
            selector_wakeup(watched->selector);
        else if (!is_main)
            signals_ring();
    }
    return count;
}

/* For main. Without the lock: main may want to look, and must not wait for what it has to answer
 * itself. What a loop holds that is held up is older. */
static void wait_for_answers(const struct watch *watch, size_t count)
{
    int64_t until = clock_ms() + ANSWER_MS;
    for (size_t i = 0; i < count; i++)
        while (watch->loops[i].selector != NULL && loop_is_asked(watch->loops[i].loop) &&
               clock_ms() < until)
            poll(NULL, 0, 1);
}

void watch_tell(struct watch *watch, watch_gauge *gauge, void *context)
{
    mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->loop_count; i++)
        tell_loop(watch, &watch->loops[i], gauge, context);
    for (size_t i = 0; i < watch->part_count; i++)
        watch->parts[i]->tell(watch->parts[i], gauge, context);
    gauge(context, "", "memory_held",
          buffer_factory_out(&watch->server->buffers) * (uint64_t)SEGMENT_SIZE);
    mutex_unlock(&watch->lock);
}

void watch_gauges(struct watch *watch, watch_gauge *gauge, void *context)
{
    wait_for_answers(watch, watch_ask_loops(watch, true));
    watch_tell(watch, gauge, context);
}
