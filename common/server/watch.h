/*
 * What an operator wants to know of a running server: gauges, and what holds a loop or a worker.
 *
 * Counters say what has happened since the start. Gauges say how it is now: connections that are
 * open, the lag of each loop in the last minute, tasks that wait and for how long, bytes that are
 * held. They are printed with the counters (--stats, SIGUSR1).
 *
 * Once a second main looks at the loops and the workers. If one has been with the same connection
 * for longer than a second, a line in the log says so, with the peer and for how long; and one more
 * when it is back. The threads that are looked at do nothing for that (loop.h, executor.h). Where
 * main is the loop itself (stages 2 and 3), nobody is left to look while a handler holds it: then
 * an alarm, which each look puts off, rings in the middle of the handler, and its signal handler
 * writes the line. A stop that takes too long says the same of all that have not ended.
 *
 * Interface:
 * - main() has the one struct watch, adds loops and other parts to it before their threads start,
 *   and closes it after they have ended. Other threads ask by watch_ask.h.
 * - The server calls it through server_look() and server_report(), so that a program without a
 *   watch does not link it.
 */
#ifndef COMMON_WATCH_H
#define COMMON_WATCH_H

#include "common/base/lock.h"
#include "common/base/text.h"
#include "common/base/watched.h"
#include "common/events/loop.h"
#include "common/events/selector.h"
#include "common/server/server.h"

enum {
    WATCH_NAME_SIZE = 32, /* "dispatcher 12" */
    WATCH_PARTS = 2,
    WATCH_EVERY = 10,    /* looks from one snapshot of the lag to the next */
    WATCH_SNAPSHOTS = 6, /* so they are the last minute */
};

/**
 * Is given each gauge, or counter: of which part of the server ("dispatcher 1", "" for all), name,
 * value.
 */
typedef void watch_gauge(void *context, const char *part, const char *name, uint64_t value);

struct watch;

/** A loop that is watched. */
struct watched_loop {
    struct loop *loop;
    struct selector *selector; /* to wake it, so that it answers; NULL: who asks is its thread */
    const struct counters *counters;
    char name[WATCH_NAME_SIZE];
    struct watched_place place;
    uint32_t snapshots[WATCH_SNAPSHOTS][LOOP_LAG_BUCKETS];
};

/** Another part that is watched: an executor (watch_executor.h). All verbs have the watch's lock.
 */
struct watched_part {
    /** Once a second. */
    void (*look)(struct watched_part *part, struct watch *watch, int64_t now_ns);
    /** Calls `gauge` for each of its gauges. */
    void (*tell)(struct watched_part *part, watch_gauge *gauge, void *context);
    /** Adds a line for each who is in a handler. It runs in a signal handler, which may have come
     * anywhere. */
    void (*describe)(struct watched_part *part, const struct watch *watch,
                     struct growing_text *text);
};

struct watch {
    struct server_observer observer; /* the server's way to it */
    struct server *server;
    struct mutex lock;
    struct watched_loop *loops;
    size_t loop_count;
    struct watched_part *parts[WATCH_PARTS];
    size_t part_count;
    int64_t next_look; /* ms */
    unsigned looks;
    bool over; /* the loops have ended */
};

/** The server looks and reports through it from now on. `loops` has room for all that are added. */
void watch_open(struct watch *watch, struct server *server, struct watched_loop *loops);

/** The loops have ended: prints the last gauges, with --stats. The other parts are still there. */
void watch_close(struct watch *watch);

/**
 * Adds a loop. Its connections count in `counters`; `selector` wakes it, and is NULL for a loop
 * whose own thread calls server_look() and server_report().
 */
void watch_add_loop(struct watch *watch, struct loop *loop, struct selector *selector,
                    const struct counters *counters, const char *name);

/** Adds another part, which is the caller's. At most WATCH_PARTS. */
void watch_add_part(struct watch *watch, struct watched_part *part);

/**
 * Calls `gauge` for all gauges, those of one part one after the other. It waits a moment for what
 * other loops have to count. Main only: watch_ask.h is for any other thread.
 */
void watch_gauges(struct watch *watch, watch_gauge *gauge, void *context);

/* ---- For parts ----------------------------------------------------------------------------- */

/**
 * What a thread does at this look: which turn it is, for which connection (LOOP_NOBODY: none), and
 * since when, as far as that is known. It is the same call of a handler if turn and connection are
 * as at the look before; if it lasts, the log says so, and once more when it is over.
 */
void watch_look_at(struct watch *watch, struct watched_place *place, const char *part,
                   uint64_t turn, int fd, int64_t since_ns, int64_t now_ns);

/**
 * Adds a line: who is in a handler, for which connection, and for how long; 0 ns: that is not
 * known.
 */
void watch_spell(const struct watch *watch, struct growing_text *text, const char *part, int fd,
                 int64_t ns);

/* ---- For the watch's own files ------------------------------------------------------------- */

/** A server's observer does not go while somebody who may outlive it asks. */
extern struct mutex watch_observer_lock;

/**
 * Has each loop count what its connections hold; how many of them there are. A loop that is main's
 * own thread has a NULL for its selector: main has counted before it reports, and any other thread
 * rings for it.
 */
size_t watch_ask_loops(struct watch *watch, bool is_main);

/** Calls `gauge` for all gauges, as they are. Any thread. */
void watch_tell(struct watch *watch, watch_gauge *gauge, void *context);

#endif
