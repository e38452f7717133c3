/*
 * Stage 4 or 5 from inside: its dispatchers run in threads of the test's own process, where the
 * test can hold them and their workers at test points (tests/support/test_points.h). The test's
 * main thread is the acceptor. Clients talk to it over loopback as to any server.
 *
 * A suite includes its own framework.h, which says what its dispatchers are (FRAMEWORK_DISPATCHERS)
 * and then includes this.
 *
 * Rules:
 * - One of them at a time, because signals belong to the process; Criterion has one for each test.
 * - The last thing in a test is framework_close(). It asserts that the dispatchers end, that every
 *   connection was closed, that nothing is registered or set any more, and that each recorder had a
 *   whole life (recorder.h).
 */
#ifndef TESTS_INSIDE_FRAMEWORK_H
#define TESTS_INSIDE_FRAMEWORK_H

#include "common/events/selector_provider.h"
#include "common/workers/executor_options.h"
#include "inside/failures.h"
#include "inside/recorder.h"
#include "support/client.h"
#include "support/test_points.h"

/* The points that both stages have. */
#define DISPATCHER_SELECTS "dispatcher: before select"
#define DISPATCHER_AWAKE   "dispatcher: after select"
#define RUN_BEGINS         "adapter: call"
#define RUN_ENDED          "adapter: before done"
#define RUN_DONE           "adapter: after done"
#define RUN_DROPPED        "adapter: dropped"
#define GUARD_HELD         "guard: held"
#define GUARD_BARRIER      "guard: barrier"
#define FUTURE_RUNS        "future: before it runs"
#define HELPER_BEGINS      "helper: before a task"
#define HELPER_ENDS        "helper: before the result"

struct framework {
    struct server server;
    struct executor_choice choice;
    struct executor executor;
    struct executor helpers;
    struct admission admission;
    FRAMEWORK_DISPATCHERS;
    bool runs;
    bool ended;
    struct server_process process; /**< for clients */
    struct client_buffers buffers; /**< theirs, of those that connect from now on */
};

/** Opens everything; no dispatcher runs yet. Options are split at spaces. */
void framework_open(struct framework *framework, const char *options, ...)
    __attribute__((format(printf, 2, 3)));

/** As framework_open(), on top of a provider of the test's. */
void framework_open_on(struct framework *framework, const struct selector_provider *provider,
                       const char *options, ...) __attribute__((format(printf, 3, 4)));

/** The dispatchers' threads begin. */
void framework_run(struct framework *framework);

/** Both. */
#define framework_start(framework, ...)                                                            \
    (framework_open(framework, __VA_ARGS__), framework_run(framework))

/** The dispatchers, each one of *count. */
struct dispatcher *framework_dispatchers(struct framework *framework, size_t *count);

/** The first of them, where there is only one. */
static inline struct dispatcher *framework_dispatcher(struct framework *framework)
{
    size_t count;
    return framework_dispatchers(framework, &count);
}

/** A connection that is not registered: returns the client's end, *fd is the server's. */
#define framework_accept(framework, fd) framework_accept_at(HERE, framework, fd)
int framework_accept_at(const char *where, struct framework *framework, int *fd);

/** Registers such a connection with the dispatcher whose turn it is, as the acceptor does. */
bool framework_register(struct framework *framework, int fd, struct input_handler *handler);

/** Connects, and registers the connection with the handler. Asserts that both work. */
#define framework_connect(framework, handler) framework_connect_at(HERE, framework, handler)
int framework_connect_at(const char *where, struct framework *framework,
                         struct input_handler *handler);

/**
 * Waits until nothing is under way: the dispatchers sleep in select, no worker is busy, no status
 * change waits. After that only an event, a wakeup or a timer moves anything.
 */
#define framework_await_asleep(framework) framework_await_asleep_at(HERE, framework, 0)

/** The same with so many workers that the test holds. */
#define framework_await_asleep_but(framework, held) framework_await_asleep_at(HERE, framework, held)
void framework_await_asleep_at(const char *where, struct framework *framework, size_t held);

/** Waits until so many tasks wait in the executor's queue. */
#define framework_await_waiting(framework, count) framework_await_waiting_at(HERE, framework, count)
void framework_await_waiting_at(const char *where, struct framework *framework, size_t count);

/** What the dispatchers have counted together. */
uint64_t framework_count(const struct framework *framework, enum counter counter);

/** Waits until they have counted so many; asserts that they do, and no more. */
#define framework_await_count(framework, counter, count)                                           \
    framework_await_count_at(HERE, framework, counter, count)
void framework_await_count_at(const char *where, const struct framework *framework,
                              enum counter counter, uint64_t count);

/** Waits until so many connections have ended. */
#define framework_await_closed(framework, count)                                                   \
    framework_await_count_at(HERE, framework, COUNTER_CLOSED, count)

/** Ends a connection at once, as a deadline does. Any thread. */
void framework_cut_off(struct channel_facade *facade);

/** Closes all connections that the test has to it, and stops it. Does nothing if it has ended. Not
 * where a handler opens connections to this framework itself: it would lose its descriptors. */
void framework_close(struct framework *framework);

/** Tells the dispatchers to stop, and asserts that they do, with all connections closed. */
void framework_stop(struct framework *framework);

/** The first half of it: no thread runs any more, and all is still open, as when main ends strands.
 * framework_end() is the other half. */
void framework_halt(struct framework *framework);

/** The end, of a framework whose dispatchers were told to stop already. */
void framework_end(struct framework *framework);

/** A WaysTest whose body has `client`, who was served once before: the suite's begin() connects it,
 * with these options. Closes the framework behind the body, if that has not. */
#define OneClientTest(suite, name, options)                                                        \
    static void suite##_##name##_of(int client);                                                   \
    WaysTest(suite, name)                                                                          \
    {                                                                                              \
        suite##_##name##_of(begin(workers, options));                                              \
        framework_close(&framework);                                                               \
    }                                                                                              \
    static void suite##_##name##_of(int client __attribute__((unused)))

#endif
