/*
 * The dispatcher in a thread of the test: see framework.h.
 */
#include "framework.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The recorder counts life-cycle calls by numbers of its own. */
_Static_assert((int)LIFE_STARTING == (int)RECORDER_STARTING &&
                   (int)LIFE_STOPPED == (int)RECORDER_STOPPED,
               "the stage numbers the calls of a life in another way");

enum {
    WORDS_MAX = 40,
    SLEEP_STATE_ASLEEP = 1, /* in selector.c */
};

static void parse(struct framework *framework, const struct selector_provider **provider,
                  char *text, bool *guard_stands)
{
    struct options options;
    char program[] = "stage4-framework";
    char *argv[WORDS_MAX] = {program};
    int argc = 1;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert_lt(argc, WORDS_MAX);
        argv[argc++] = word;
    }
    options_init(&options, program, "");
    server_options(&options, &framework->server.settings, "0");
    options_add(&options, selector_provider_option(provider));
    executor_options(&options, &framework->choice);
    options_add(&options, selector_guard_option(guard_stands));
    server_urgent_option(&options, &framework->server.settings);
    cr_assert_eq(options_parse(&options, argc, argv), OPTIONS_SERVE);
}

static void open_all(struct framework *framework, const struct selector_provider *wanted,
                     const char *options, va_list arguments)
{
    char text[1024];
    const struct selector_provider *provider;
    bool guard_stands;
    vsnprintf(text, sizeof text, options, arguments);
    memset(framework, 0, sizeof *framework);
    parse(framework, &provider, text, &guard_stands);
    provider = wanted ? wanted : provider;
    cr_assert_eq(server_open(&framework->server, "stage4-framework"), 0);
    struct executor_settings settings = executor_settings(&framework->choice);
    executor_open(&framework->executor, &settings);
    admission_init(&framework->admission);
    cr_assert_eq(dispatcher_open(&framework->dispatcher, &framework->server, &framework->executor,
                                 &framework->admission, provider, guard_stands),
                 0);
    const struct sockaddr_storage *address = &framework->server.listener.endpoint.address;
    framework->process = (struct server_process){
        .pid = getpid(),
        .family = AF_INET,
        .port = ntohs(((const struct sockaddr_in *)address)->sin_port),
    };
}

void framework_open(struct framework *framework, const char *options, ...)
{
    va_list arguments;
    va_start(arguments, options);
    open_all(framework, NULL, options, arguments);
    va_end(arguments);
}

void framework_open_on(struct framework *framework, const struct selector_provider *provider,
                       const char *options, ...)
{
    va_list arguments;
    va_start(arguments, options);
    open_all(framework, provider, options, arguments);
    va_end(arguments);
}

static void *run(void *argument)
{
    struct framework *framework = argument;
    dispatcher_dispatch(&framework->dispatcher);
    atomic_store(&framework->ended, true);
    return NULL;
}

void framework_run(struct framework *framework)
{
    cr_assert_eq(pthread_create(&framework->thread, NULL, run, framework), 0);
}

int framework_accept_at(const char *where, struct framework *framework, int *fd)
{
    struct listener *listener = &framework->server.listener;
    int client = client_connect_at(where, &framework->process, (struct client_buffers){0});
    cr_assert(test_await(listener->fd, POLLIN, test_now() + test_deadline_ms() / 1000.0));
    cr_assert_eq(listener_accept(listener, SOCK_NONBLOCK, &framework->server.log, fd),
                 ACCEPT_CONNECTION, "%s: accept", where);
    return client;
}

int framework_connect_at(const char *where, struct framework *framework,
                         struct input_handler *handler, bool urgent)
{
    int fd;
    int client = framework_accept_at(where, framework, &fd);
    admission_enter(&framework->admission);
    counters_add(&framework->server.counters, COUNTER_ACCEPTED, 1);
    cr_assert(dispatcher_register_channel(&framework->dispatcher, fd, urgent, handler),
              "%s: cannot register", where);
    return client;
}

/** Whether no worker has anything to do but those that are held, and no change waits. */
static bool nothing_under_way(struct framework *framework, size_t held)
{
    struct executor_stats stats = executor_stats(&framework->executor);
    struct status_change_queue *changes = &framework->dispatcher.changes;
    mutex_lock(&changes->lock);
    bool empty = changes->first == NULL;
    mutex_unlock(&changes->lock);
    return empty && stats.threads - stats.idle == held && (stats.idle == 0 || stats.waiting == 0);
}

static bool is_asleep(struct framework *framework)
{
    return atomic_load_explicit(&framework->dispatcher.selector.sleep, memory_order_relaxed) ==
           SLEEP_STATE_ASLEEP;
}

/*
 * Nothing under way, the dispatcher asleep, and still nothing under way: then it has not begun
 * anything in between, and nobody else does.
 */
void framework_await_asleep_at(const char *where, struct framework *framework, size_t held)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    bool quiet = false;
    while (!quiet && test_left_ms(end) > 0) {
        quiet = nothing_under_way(framework, held) && is_asleep(framework) &&
                nothing_under_way(framework, held);
        if (!quiet) {
            test_pause_ms(1);
        }
    }
    cr_assert(quiet, "%s: the dispatcher does not go to sleep", where);
}

void framework_await_closed_at(const char *where, struct framework *framework, uint64_t count)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    const struct counters *counters = &framework->server.counters;
    while (counters_get(counters, COUNTER_CLOSED) < count && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    cr_assert_eq(counters_get(counters, COUNTER_CLOSED), count,
                 "%s: waited %d ms for %d connections to end; %d have", where, test_deadline_ms(),
                 (int)count, (int)counters_get(counters, COUNTER_CLOSED));
}

void framework_await_waiting_at(const char *where, struct framework *framework, size_t count)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (executor_stats(&framework->executor).waiting != count && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    cr_assert_eq(executor_stats(&framework->executor).waiting, count,
                 "%s: waited for %zu tasks in the queue; there are %zu", where, count,
                 executor_stats(&framework->executor).waiting);
}

void framework_stop(struct framework *framework)
{
    dispatcher_stop(&framework->dispatcher);
    framework_end(framework);
}

void framework_end(struct framework *framework)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (!atomic_load(&framework->ended) && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    cr_assert(atomic_load(&framework->ended), "the dispatcher does not end; %zu are registered",
              atomic_load(&framework->dispatcher.registered));
    pthread_join(framework->thread, NULL);
    executor_shutdown(&framework->executor, false);
    cr_assert(executor_await(&framework->executor, INT64_MAX / 2));
    dispatcher_close(&framework->dispatcher);
    admission_destroy(&framework->admission);
    executor_close(&framework->executor);
    uint64_t accepted = counters_get(&framework->server.counters, COUNTER_ACCEPTED);
    uint64_t closed = counters_get(&framework->server.counters, COUNTER_CLOSED);
    server_close(&framework->server);
    cr_assert_eq(closed, accepted, "%d connections were accepted and %d closed", (int)accepted,
                 (int)closed);
}
