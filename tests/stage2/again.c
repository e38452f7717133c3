/*
 * Stage 2: those that go on without an event.
 */
#include "common/base/options.h"
#include "common/events/selector_provider.h"
#include "inside/again_tests.h"

#include <criterion/redirect.h>
#include <pthread.h>
#include <signal.h>

AGAIN_TESTS(stage2_again)

static struct server server;
static struct reactor reactor;

static pthread_t thread;

static void open_with(struct input_handler_factory *factory, const char *idle_timeout)
{
    char *argv[] = {"test", (char *)idle_timeout, NULL};
    const struct selector_provider *provider;
    struct options options;
    options_init(&options, "test", "");
    server_options(&options, &server.settings, "0");
    options_add(&options, selector_provider_option(&provider));
    cr_assert_eq(options_parse(&options, 2, argv), OPTIONS_SERVE);
    cr_assert_eq(server_open(&server, "test"), 0);
    cr_assert_eq(reactor_open(&reactor, &server, factory, provider), 0);
}

static struct reactor *again_open(struct input_handler_factory *factory)
{
    open_with(factory, "--idle-timeout=60");
    return &reactor;
}

static void again_end_round(struct reactor *unused)
{
    (void)unused;
}

static void again_close(void)
{
    reactor_close(&reactor);
    server_close(&server);
}

static void *run(void *argument)
{
    reactor_run(&reactor);
    return argument;
}

static struct server *again_start(struct input_handler_factory *factory, const char *idle_timeout)
{
    open_with(factory, idle_timeout);
    cr_redirect_stdout(); /* the ready line is for people */
    server_announce(&server, "test");
    cr_assert_eq(pthread_create(&thread, NULL, run, NULL), 0);
    return &server;
}

static void again_stop(void)
{
    kill(getpid(), SIGTERM);
    pthread_join(thread, NULL);
    again_close();
}
