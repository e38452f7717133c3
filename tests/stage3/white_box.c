/*
 * The reactor in a thread of the test: see white_box.h.
 */
#include "white_box.h"

#include "common/apps/application.h"
#include "common/events/selector_provider.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    WORDS_MAX = 32,
    SLEEP_STATE_ASLEEP = 1, /* in selector.c */
};

/* Echo, in which a line that begins with "urgent" goes first. */
static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "urgent");
}

static void went_on(struct channel_hold *hold, struct channel_facade *facade)
{
    (void)hold;
    channel_enqueue(facade, piece_bytes("went on\n", strlen("went on\n")));
}

struct channel_hold white_box_hold = {.went_on = went_on};
struct channel_facade *white_box_held;

static bool echo_input(struct input_handler *self, struct message message,
                       struct channel_facade *facade)
{
    if (message.length == strlen("hold\n") && memcmp(message.data, "hold\n", message.length) == 0) {
        white_box_held = facade;
        channel_hold(facade, &white_box_hold);
        return true;
    }
    struct message reply = application_process(application_server(self), facade, message);
    channel_enqueue(facade, piece_copy(reply));
    return true;
}

static const struct input_handler_verbs verbs = {.is_urgent = is_urgent,
                                                 .handle_input = echo_input};
static const struct application echo_application = {.name = "echo", .verbs = &verbs};

static void parse(struct white_box *box, const struct selector_provider **provider, char *text,
                  bool *guard_works)
{
    struct options options;
    char program[] = "stage3-workers";
    char *argv[WORDS_MAX] = {program};
    int argc = 1;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        cr_assert_lt(argc, WORDS_MAX);
        argv[argc++] = word;
    }
    options_init(&options, program, "");
    server_options(&options, &box->server.settings, "0");
    options_add(&options, selector_provider_option(provider));
    executor_options(&options, &box->choice);
    options_add(&options, selector_guard_option(guard_works));
    cr_assert_eq(options_parse(&options, argc, argv), OPTIONS_SERVE);
}

static int port_of(const struct listener *listener)
{
    return ntohs(((const struct sockaddr_in *)&listener->endpoint.address)->sin_port);
}

/** The ready line is for people; here it would stand among Criterion's. */
static void announce(struct server *server)
{
    fflush(stdout);
    int kept = dup(STDOUT_FILENO);
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, STDOUT_FILENO);
    server_announce(server, "echo");
    dup2(kept, STDOUT_FILENO);
    close(nowhere);
    close(kept);
}

void white_box_open(struct white_box *box, const char *options, ...)
{
    char text[1024];
    const struct selector_provider *provider;
    bool guard_works;
    va_list arguments;
    va_start(arguments, options);
    vsnprintf(text, sizeof text, options, arguments);
    va_end(arguments);

    memset(box, 0, sizeof *box);
    parse(box, &provider, text, &guard_works);
    cr_assert_eq(server_open(&box->server, "stage3-workers"), 0);
    struct executor_settings settings = executor_settings(&box->choice);
    executor_open(&box->executor, &settings);
    box->factory = application_open(&echo_application, &box->server);
    cr_assert_eq(reactor_open(&box->reactor, &box->server, box->factory, provider, &box->executor,
                              guard_works),
                 0);
    announce(&box->server);
    box->process = (struct server_process){.pid = getpid(), .family = AF_INET};
    box->process.port = port_of(&box->server.listener);
}

static void *run(void *argument)
{
    struct white_box *box = argument;
    reactor_run(&box->reactor);
    atomic_store(&box->ended, true);
    return NULL;
}

void white_box_run(struct white_box *box)
{
    cr_assert_eq(pthread_create(&box->thread, NULL, run, box), 0);
}

void white_box_stop(struct white_box *box)
{
    if (!box->closed) {
        kill(getpid(), SIGTERM);
        white_box_end(box);
    }
}

void white_box_end(struct white_box *box)
{
    server_drop_clients(&box->process);
    WAIT_FOR(atomic_load(&box->ended));
    cr_assert(atomic_load(&box->ended), "the reactor does not end");
    pthread_join(box->thread, NULL);
    white_box_close(box);
}

void white_box_close(struct white_box *box)
{
    reactor_close(&box->reactor);
    executor_close(&box->executor);
    application_close(&echo_application, box->factory);
    uint64_t accepted = white_box_counter(box, COUNTER_ACCEPTED);
    uint64_t closed = white_box_counter(box, COUNTER_CLOSED);
    server_close(&box->server);
    box->closed = true;
    cr_assert_eq(closed, accepted, "%d connections were accepted and %d closed", (int)accepted,
                 (int)closed);
}

uint64_t white_box_counter(const struct white_box *box, enum counter counter)
{
    return counters_get(&box->server.counters, counter);
}

void white_box_await_at(const char *where, const struct white_box *box, enum counter counter,
                        uint64_t value)
{
    WAIT_FOR(white_box_counter(box, counter) == value);
    cr_assert_eq(white_box_counter(box, counter), value,
                 "%s: waited %d ms for the counter to be %d; it is %d", where, test_deadline_ms(),
                 (int)value, (int)white_box_counter(box, counter));
}

void white_box_await_asleep_at(const char *where, struct white_box *box)
{
    WAIT_FOR(atomic_load(&box->reactor.selector.sleep) == SLEEP_STATE_ASLEEP);
    cr_assert_eq(atomic_load(&box->reactor.selector.sleep), SLEEP_STATE_ASLEEP,
                 "%s: the reactor does not go to sleep", where);
}

int white_box_connect_at(const char *where, struct white_box *box,
                         const struct server_process *port)
{
    uint64_t before = white_box_counter(box, COUNTER_ACCEPTED);
    int client = client_connect_at(where, port, (struct client_buffers){0});
    white_box_await_at(where, box, COUNTER_ACCEPTED, before + 1);
    white_box_await_asleep_at(where, box);
    return client;
}

void white_box_hold_worker_at(const char *where, struct white_box *box, int client,
                              const char *line)
{
    test_point_hold(WORKER_BEGINS);
    client_send_text_at(where, client, line);
    test_point_await_held_at(where, WORKER_BEGINS, 1);
    white_box_await_asleep_at(where, box);
}
