#include "common/server/watch_executor.h"

#include "common/base/container_of.h"

static struct watched_executor *watched_of(struct watched_part *part)
{
    return container_of(part, struct watched_executor, part);
}

/*
 * How long a task waits that is submitted now. Tasks do not note when they came: that would cost a
 * look at the clock for each. But if W tasks wait, and D are done in a second, the last of them
 * waits for W / D seconds (Little's law). If none is done, it waits at least as long as that lasts.
 */
static void look_at_wait(struct watched_executor *watched, int64_t now)
{
    struct executor_stats stats = executor_stats(watched->executor);
    uint64_t done = stats.completed - watched->completed;
    int64_t span = (now - watched->at) / 1000000;
    if (stats.waiting == 0)
        watched->wait_ms = 0;
    else if (done > 0)
        watched->wait_ms = (int64_t)(stats.waiting * (uint64_t)span / done);
    else
        watched->wait_ms += span;
    watched->completed = stats.completed;
    watched->at = now;
}

/* Whoever looks at the workers, and when. */
struct looking {
    struct watch *watch;
    int64_t now;
};

static void look_at_worker(void *context, struct executor_place *place)
{
    const struct looking *looking = context;
    watch_look_at(looking->watch, &place->seen, place->name, place->turn, place->fd, looking->now,
                  looking->now);
}

static void look(struct watched_part *part, struct watch *watch, int64_t now)
{
    struct watched_executor *watched = watched_of(part);
    struct looking looking = {watch, now};
    look_at_wait(watched, now);
    if (watched->handles)
        executor_look(watched->executor, look_at_worker, &looking);
}

static void tell(struct watched_part *part, watch_gauge *gauge, void *context)
{
    const struct watched_executor *watched = watched_of(part);
    struct executor_stats stats = executor_stats(watched->executor);
    gauge(context, watched->name, "queue", stats.waiting);
    gauge(context, watched->name, "queue_wait_ms",
          stats.waiting > 0 ? (uint64_t)watched->wait_ms : 0);
    gauge(context, watched->name, "threads", stats.threads);
    gauge(context, watched->name, "idle", stats.idle);
}

/* Where it is written who the workers are with. */
struct spelling {
    const struct watch *watch;
    struct growing_text *text;
};

/* How long a worker is there is known only if the last look has seen it. */
static void spell_worker(void *context, struct executor_place *place)
{
    const struct spelling *spelling = context;
    if (place->fd == LOOP_NOBODY)
        return;
    bool known = place->seen.turn == place->turn && place->seen.fd == place->fd;
    watch_spell(spelling->watch, spelling->text, place->name, place->fd,
                known ? clock_ns() - place->seen.since : 0);
}

/* An executor whose lock is not free is left out. */
static void describe(struct watched_part *part, const struct watch *watch,
                     struct growing_text *text)
{
    const struct watched_executor *watched = watched_of(part);
    struct spelling spelling = {watch, text};
    if (watched->handles)
        executor_try_look(watched->executor, spell_worker, &spelling);
}

void watch_executor(struct watch *watch, struct watched_executor *watched,
                    struct executor *executor, const char *name, bool handles)
{
    *watched = (struct watched_executor){.part = {look, tell, describe},
                                         .executor = executor,
                                         .name = name,
                                         .handles = handles,
                                         .at = clock_ns()};
    watch_add_part(watch, &watched->part);
}
