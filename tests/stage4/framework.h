/*
 * Stage 4 from inside: the dispatcher runs in a thread of the test's own process, where the test
 * can hold it and its workers at test points (tests/support/test_points.h). The test's main thread
 * is the acceptor. Clients talk to it over loopback as to any server.
 *
 * Rules:
 * - One of them at a time, because signals belong to the process; Criterion has one for each test.
 * - The last thing in a test is framework_stop(). It asserts that the dispatcher ends, and that
 *   every connection was closed.
 */
#ifndef TESTS_STAGE4_FRAMEWORK_H
#define TESTS_STAGE4_FRAMEWORK_H

#include "common/executor_options.h"
#include "common/selector_provider.h"
#include "dispatcher.h"
#include "inside/failures.h"
#include "inside/recorder.h"
#include "support/client.h"
#include "support/test_points.h"

/* The points that stage 4 has. */
#define DISPATCHER_SELECTS "dispatcher: before select"
#define DISPATCHER_AWAKE   "dispatcher: after select"
#define RUN_BEGINS         "adapter: call"
#define RUN_ENDED          "adapter: before done"
#define RUN_DONE           "adapter: after done"
#define GUARD_HELD         "guard: held"

struct framework {
    struct server server;
    struct executor_choice choice;
    struct executor executor;
    struct admission admission;
    struct dispatcher dispatcher;
    pthread_t thread;
    atomic_bool ended;
    struct server_process process; /**< for clients */
};

/** Opens everything; the dispatcher does not run yet. Options are split at spaces. */
void framework_open(struct framework *framework, const char *options, ...)
    __attribute__((format(printf, 2, 3)));

/** As framework_open(), on top of a provider of the test's. */
void framework_open_on(struct framework *framework, const struct selector_provider *provider,
                       const char *options, ...) __attribute__((format(printf, 3, 4)));

/** The dispatcher's thread begins. */
void framework_run(struct framework *framework);

/** Both. */
#define framework_start(framework, ...)                                                            \
    (framework_open(framework, __VA_ARGS__), framework_run(framework))

/** A connection that is not registered: returns the client's end, *fd is the server's. */
#define framework_accept(framework, fd) framework_accept_at(HERE, framework, fd)
int framework_accept_at(const char *where, struct framework *framework, int *fd);

/** Connects, and registers the connection with the handler. Asserts that both work. */
#define framework_connect(framework, handler) framework_connect_at(HERE, framework, handler, false)
#define framework_connect_urgent(framework, handler)                                               \
    framework_connect_at(HERE, framework, handler, true)
int framework_connect_at(const char *where, struct framework *framework,
                         struct input_handler *handler, bool urgent);

/**
 * Waits until nothing is under way: the dispatcher sleeps in select, no worker is busy, no status
 * change waits. After that only an event or a wakeup moves anything.
 */
#define framework_await_asleep(framework) framework_await_asleep_at(HERE, framework, 0)

/** The same with so many workers that the test holds. */
#define framework_await_asleep_but(framework, held) framework_await_asleep_at(HERE, framework, held)
void framework_await_asleep_at(const char *where, struct framework *framework, size_t held);

/** Waits until so many connections have ended. */
#define framework_await_closed(framework, count) framework_await_closed_at(HERE, framework, count)
void framework_await_closed_at(const char *where, struct framework *framework, uint64_t count);

/** Waits until so many tasks wait in the executor's queue. */
#define framework_await_waiting(framework, count) framework_await_waiting_at(HERE, framework, count)
void framework_await_waiting_at(const char *where, struct framework *framework, size_t count);

/** Tells the dispatcher to stop, and asserts that it does, with all connections closed. */
void framework_stop(struct framework *framework);

/** The end, of a framework that was told to stop already. */
void framework_end(struct framework *framework);

#endif
