/*
 * Stage 3 from inside: the reactor runs in a thread of the test's own process, where the test can
 * hold it and its workers at test points (tests/support/test_points.h), and looks at what it has.
 * Clients talk to it over loopback as to any server.
 *
 * Rules:
 * - One of them at a time, because signals belong to the process; Criterion has one for each test.
 * - The last thing in a test is white_box_stop(), or white_box_end() after a SIGTERM of its own.
 * - What is read of reactor and server while they run is safe from any thread: counters, the
 *   executor's stats, the selector's atomics.
 */
#ifndef TESTS_STAGE3_WHITE_BOX_H
#define TESTS_STAGE3_WHITE_BOX_H

#include "common/server/channel_calls.h"
#include "common/workers/executor_options.h"
#include "reactor.h"
#include "support/client.h"
#include "support/test_points.h"

/* The points that stage 3 has. */
#define REACTOR_BARRIER    "reactor: at the barrier"
#define REACTOR_SELECTS    "reactor: before select"
#define REACTOR_AWAKE      "reactor: after select"
#define WORKER_BEGINS      "worker: before processing"
#define WORKER_ENDS        "worker: before hand-back"
#define WORKER_GUARD_HELD  "worker: guard held"
#define WORKER_RESUMED     "worker: selection resumed"
#define WORKER_HANDED_BACK "worker: after hand-back"

/** A connection that has sent "hold" holds messages; when it goes on, it answers "went on". */
extern struct channel_hold white_box_hold;
extern struct channel_facade *white_box_held;

struct white_box {
    struct server server;
    struct executor_choice choice;
    struct executor executor;
    struct input_handler_factory *factory;
    struct reactor reactor;
    pthread_t thread;
    atomic_bool ended;
    bool closed;
    struct server_process process; /* for clients */
};

/** Opens everything; nothing runs yet. Options are one printf-style string, split at spaces. */
void white_box_open(struct white_box *box, const char *options, ...)
    __attribute__((format(printf, 2, 3)));

/** The reactor's thread begins. */
void white_box_run(struct white_box *box);

/** Both. */
#define white_box_start(box, ...) (white_box_open(box, __VA_ARGS__), white_box_run(box))

/** SIGTERM, and the end, if that has not come. */
void white_box_stop(struct white_box *box);

/** Closes the test's clients, asserts that the reactor ends in time, and closes. */
void white_box_end(struct white_box *box);

/** Closes one that nobody runs. Asserts that every connection was closed once. */
void white_box_close(struct white_box *box);

uint64_t white_box_counter(const struct white_box *box, enum counter counter);

/** Waits until a counter of the server has a value; asserts that it gets it. */
#define white_box_await(box, counter, value) white_box_await_at(HERE, box, counter, value)
void white_box_await_at(const char *where, const struct white_box *box, enum counter counter,
                        uint64_t value);

/** Waits until the reactor sleeps in select. After that only an event or a wakeup moves it. */
#define white_box_await_asleep(box) white_box_await_asleep_at(HERE, box)
void white_box_await_asleep_at(const char *where, struct white_box *box);

/** Connects, and waits until the reactor has a handler for it and sleeps again. */
#define white_box_connect(box) white_box_connect_at(HERE, box, &(box)->process)
int white_box_connect_at(const char *where, struct white_box *box,
                         const struct server_process *port);

/** Sends a line of the client's and waits until a worker is held before it processes it. */
#define white_box_hold_worker(box, client, line) white_box_hold_worker_at(HERE, box, client, line)
void white_box_hold_worker_at(const char *where, struct white_box *box, int client,
                              const char *line);

#endif
