/* Stands in for watch.c: what there is to report, a line for each number. Nobody looks. */
#include "common/server/watch.h"

#include <inttypes.h>
#include <stdio.h>

static int64_t look(struct server_observer *observer, int64_t now)
{
    (void)observer;
    return now + SERVER_LOOK_MS;
}

static void print(void *context, const char *part, const char *name, uint64_t value)
{
    const struct watch *watch = context;
    fprintf(stderr, "%s: %s %s=%" PRIu64 "\n", watch->server->name, part, name, value);
}

static void report(struct server_observer *observer)
{
    struct watch *watch = (struct watch *)observer;
    watch_gauges(watch, print, watch);
}

void watch_open(struct watch *watch, struct server *server, struct watched_loop *loops)
{
    *watch = (struct watch){.observer = {look, report}, .server = server, .loops = loops};
    mutex_init(&watch->lock);
    server->observer = &watch->observer;
}

void watch_add_loop(struct watch *watch, struct loop *loop, struct selector *selector,
                    const struct counters *counters, const char *name)
{
    struct watched_loop *watched = &watch->loops[watch->loop_count++];
    *watched = (struct watched_loop){.loop = loop, .selector = selector, .counters = counters};
    snprintf(watched->name, sizeof(watched->name), "%s", name);
}

void watch_close(struct watch *watch)
{
    watch->server->observer = NULL;
    mutex_destroy(&watch->lock);
}
