#include "common/server/watch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    EXPECT_MS = 2 * SERVER_LOOK_MS, /* main has looked by then, or a handler holds it */
};

/* What is too long in one handler; ns. */
static const int64_t SLOW_NS = 1000000000;

struct mutex watch_observer_lock = {PTHREAD_MUTEX_INITIALIZER};

static int64_t look(struct server_observer *observer, int64_t now);
static void report(struct server_observer *observer);
static size_t describe(void *context, char *text, size_t size);

static void set_observer(struct server *server, struct server_observer *observer)
{
    mutex_lock(&watch_observer_lock);
    server->observer = observer;
    mutex_unlock(&watch_observer_lock);
}

void watch_open(struct watch *watch, struct server *server, struct watched_loop *loops)
{
    *watch = (struct watch){.observer = {look, report}, .server = server, .loops = loops};
    mutex_init(&watch->lock);
    set_observer(server, &watch->observer);
    signals_describe(describe, watch);
}

void watch_close(struct watch *watch)
{
    mutex_lock(&watch->lock);
    watch->over = true;
    mutex_unlock(&watch->lock);
    if (watch->server->settings.stats)
        report(&watch->observer);
    signals_describe(NULL, NULL);
    set_observer(watch->server, NULL);
    mutex_destroy(&watch->lock);
}

void watch_add_loop(struct watch *watch, struct loop *loop, struct selector *selector,
                    const struct counters *counters, const char *name)
{
    mutex_lock(&watch->lock);
    struct watched_loop *watched = &watch->loops[watch->loop_count++];
    *watched = (struct watched_loop){.loop = loop, .selector = selector, .counters = counters};
    snprintf(watched->name, sizeof(watched->name), "%s", name);
    mutex_unlock(&watch->lock);
}

void watch_add_part(struct watch *watch, struct watched_part *part)
{
    mutex_lock(&watch->lock);
    assert(watch->part_count < WATCH_PARTS);
    watch->parts[watch->part_count++] = part;
    mutex_unlock(&watch->lock);
}

/* ---- Who has been in a handler for long ----------------------------------------------------- */

/* Whose connection it is; if it comes through a proxy, its client's. */
static void find_peer(const struct watch *watch, struct endpoint *peer, int fd)
{
    const struct server_settings *settings = &watch->server->settings;
    endpoint_of_peer(peer, fd);
    if (settings->proxies.count > 0)
        settings->reveal(peer, fd);
}

static void tell(const struct watch *watch, const struct watched_place *place, const char *event,
                 const char *part, int64_t now)
{
    log_write(&watch->server->log, LOG_LEVEL_WARN,
              "event=%s part=\"%s\" peer=%s fd=%d for_ms=%" PRId64, event, part, place->peer,
              place->fd, (now - place->since) / 1000000);
}

void watch_look_at(struct watch *watch, struct watched_place *place, const char *part,
                   uint64_t turn, int fd, int64_t since, int64_t now)
{
    struct endpoint peer;
    bool same = fd != LOOP_NOBODY && turn == place->turn && fd == place->fd;
    if (place->told && !same)
        tell(watch, place, "handler_back", part, now);
    if (!same)
        *place = (struct watched_place){.since = since, .turn = turn, .fd = fd};
    if (!same || place->told || now - place->since < SLOW_NS)
        return;
    find_peer(watch, &peer, fd);
    _Static_assert(sizeof(place->peer) >= ENDPOINT_TEXT_SIZE, "an address has room");
    endpoint_format(&peer, place->peer);
    place->told = true;
    tell(watch, place, "handler_slow", part, now);
}

/* What a signal handler has told of a place. */
static void note(struct watched_place *place, uint64_t turn, int fd, int64_t since,
                 const char *told)
{
    struct growing_text peer = {place->peer, sizeof(place->peer), 0};
    *place = (struct watched_place){.turn = turn, .fd = fd, .told = true, .since = since};
    text_append(&peer, strstr(told, "peer=") + strlen("peer="));
    place->peer[strcspn(place->peer, " ")] = '\0';
}

/* The moment at which a loop woke names its round. */
static void look_at_loop(struct watch *watch, struct watched_loop *watched, int64_t now)
{
    const struct loop *loop = watched->loop;
    int64_t since = atomic_load(&loop->awake_since);
    int fd = atomic_load(&loop->fd);
    watch_look_at(watch, &watched->place, watched->name, (uint64_t)since,
                  since != 0 ? fd : LOOP_NOBODY, since, now);
}

/* ---- In a signal handler -------------------------------------------------------------------- */

void watch_spell(const struct watch *watch, struct growing_text *text, const char *part, int fd,
                 int64_t ns)
{
    struct endpoint peer;
    char place[ENDPOINT_TEXT_SIZE];
    find_peer(watch, &peer, fd);
    endpoint_format(&peer, place);
    text_append(text, watch->server->name);
    text_append(text, ": warn: [main] event=handler_slow part=\"");
    text_append(text, part);
    text_append(text, "\" peer=");
    text_append(text, place);
    text_append(text, " fd=");
    text_append_number(text, (uint64_t)fd, 10);
    if (ns > 0) {
        text_append(text, " for_ms=");
        text_append_number(text, (uint64_t)ns / 1000000, 10);
    }
    text_append(text, "\n");
}

/*
 * What holds the program, for a line that a signal handler writes. Main is in the middle of
 * anything, so no lock is waited for: a part whose lock is not free is left out.
 */
static size_t describe(void *context, char *where, size_t size)
{
    struct watch *watch = context;
    struct growing_text text = {where, size, 0};
    int64_t now = clock_ns();
    for (size_t i = 0; i < watch->loop_count; i++) {
        struct watched_loop *watched = &watch->loops[i];
        int64_t since = atomic_load(&watched->loop->awake_since);
        int fd = atomic_load(&watched->loop->fd);
        if (since == 0 || fd == LOOP_NOBODY || now - since < SLOW_NS)
            continue;
        size_t before = text.length;
        watch_spell(watch, &text, watched->name, fd, now - since);
        if (watched->selector == NULL) /* so the next look finds that main is back */
            note(&watched->place, (uint64_t)since, fd, since, where + before);
    }
    for (size_t i = 0; i < watch->part_count; i++)
        watch->parts[i]->describe(watch->parts[i], watch, &text);
    return text.length;
}

/* ---- Looks ---------------------------------------------------------------------------------- */

static void take_snapshot(struct watched_loop *watched, unsigned number)
{
    uint32_t *rounds = watched->snapshots[number % WATCH_SNAPSHOTS];
    for (unsigned i = 0; i < LOOP_LAG_BUCKETS; i++)
        rounds[i] = atomic_load_explicit(&watched->loop->lag[i], memory_order_relaxed);
}

static void look_round(struct watch *watch) REQUIRES(&watch->lock)
{
    int64_t now = clock_ns();
    for (size_t i = 0; i < watch->loop_count; i++) {
        look_at_loop(watch, &watch->loops[i], now);
        if (watch->loops[i].selector == NULL)
            signals_expect(EXPECT_MS);
        if (watch->looks % WATCH_EVERY == 0)
            take_snapshot(&watch->loops[i], watch->looks / WATCH_EVERY);
    }
    for (size_t i = 0; i < watch->part_count; i++)
        watch->parts[i]->look(watch->parts[i], watch, now);
    watch->looks++;
}

static int64_t look(struct server_observer *observer, int64_t now)
{
    struct watch *watch = (struct watch *)observer;
    if (now < watch->next_look)
        return watch->next_look;
    mutex_lock(&watch->lock);
    look_round(watch);
    mutex_unlock(&watch->lock);
    /* A second after what it has seen: now may be long past. */
    watch->next_look = clock_ms() + 1 + SERVER_LOOK_MS;
    return watch->next_look;
}

/* ---- Reports -------------------------------------------------------------------------------- */

/* The line that is being put together: one for each part of the server. */
struct gauge_line {
    const char *program;
    char part[WATCH_NAME_SIZE];
    char text[512];
    size_t used;
};

static void end_line(struct gauge_line *line)
{
    if (line->used > 0)
        fprintf(stderr, "%s\n", line->text);
    line->used = 0;
}

static void add_to_line(void *context, const char *part, const char *name, uint64_t value)
{
    struct gauge_line *line = context;
    if (line->used > 0 && strcmp(part, line->part) != 0)
        end_line(line);
    if (line->used == 0) {
        snprintf(line->part, sizeof(line->part), "%s", part);
        line->used = (size_t)snprintf(line->text, sizeof(line->text), "%s: %s%sgauges",
                                      line->program, part, part[0] != '\0' ? ": " : "");
    }
    line->used += (size_t)snprintf(line->text + line->used, sizeof(line->text) - line->used,
                                   " %s=%" PRIu64, name, value);
}

/* In front of the counters, which scripts look for in the last line. */
static void report(struct server_observer *observer)
{
    struct watch *watch = (struct watch *)observer;
    struct gauge_line line = {.program = watch->server->name};
    watch_gauges(watch, add_to_line, &line);
    end_line(&line);
}
