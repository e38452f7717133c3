/*
 * Stage 5: an acceptor and a pool of dispatchers.
 */
#include "acceptor.h"
#include "common/apps/application.h"
#include "common/clock.h"
#include "common/executor_options.h"
#include "common/log_element.h"
#include "common/selector_provider.h"
#include "common/throttle_element.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage5-multireactor"

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
    uint64_t dispatchers;
    bool guard_stands;
    struct throttle_choice throttle;
    bool log_traffic;
};

/* What the server is made of, beside what every stage has. */
struct parts {
    struct input_handler_factory *application;
    struct throttle_element_factory throttle;
    struct log_element_factory log;
    struct executor executor;
    struct admission admission;
    struct dispatcher_pool dispatchers;
    struct acceptor acceptor;
};

static int cannot(const struct server *server, const char *what, int error)
{
    log_write(&server->log, LOG_LEVEL_ERROR, "cannot %s: %s", what, strerror(error));
    return EXIT_FAILURE;
}

/* The handlers of connections: the application's, behind the elements that were asked for. */
static struct input_handler_factory *chain(struct server *server, const struct choice *choice,
                                           struct parts *parts)
{
    struct input_handler_factory *factory = parts->application;
    if (choice->throttle.wanted)
        factory = throttle_element_over(&parts->throttle, factory, &choice->throttle);
    if (choice->log_traffic)
        factory = log_element_over(&parts->log, factory, &server->log);
    return factory;
}

/* Accepts until a signal says stop; then everything comes to its end in the order of its use. */
static int serve(struct server *server, const struct choice *choice, struct parts *parts)
{
    int error = dispatcher_pool_start(&parts->dispatchers);
    if (error != 0)
        return cannot(server, "start the dispatchers", error);
    acceptor_init(&parts->acceptor, &parts->dispatchers, &parts->admission,
                  chain(server, choice, parts));
    server_announce(server, choice->application.chosen->name);
    acceptor_run(&parts->acceptor);
    dispatcher_pool_stop(&parts->dispatchers);
    executor_shutdown(&parts->executor, false);
    while (!executor_await(&parts->executor, clock_ms() + 1000))
        ;
    dispatcher_pool_count(&parts->dispatchers);
    if (server->settings.stats)
        dispatcher_pool_report(&parts->dispatchers);
    return EXIT_SUCCESS;
}

/* Serves until it is told to stop. */
static int run(struct server *server, const struct choice *choice)
{
    struct parts parts;
    struct executor_settings settings = executor_settings(&choice->executor);
    parts.application = application_open(&choice->application, server);
    if (parts.application == NULL)
        return EXIT_FAILURE;
    executor_open(&parts.executor, &settings);
    admission_init(&parts.admission);
    int status = EXIT_FAILURE;
    if (dispatcher_pool_open(&parts.dispatchers, choice->dispatchers, server,
                             settings.most > 0 ? &parts.executor : NULL, &parts.admission,
                             choice->provider, choice->guard_stands) != 0) {
        cannot(server, "open the dispatchers", errno);
    } else {
        status = serve(server, choice, &parts);
        dispatcher_pool_close(&parts.dispatchers);
    }
    admission_destroy(&parts.admission);
    executor_close(&parts.executor);
    choice->application.chosen->close(parts.application);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    options_init(&options, STAGE_NAME,
                 "An acceptor and a pool of dispatchers, for many connections.");
    server_options(&options, &server.settings, "7005");
    options_set_standard(&options, "--idle-timeout", "60");
    options_set_standard(&options, "--request-timeout", "30");
    application_options(&options, &choice.application);
    options_add(&options, selector_provider_option(&choice.provider));
    options_add(&options, dispatcher_pool_option(&choice.dispatchers));
    executor_options_or_none(&options, &choice.executor);
    options_add(&options, selector_guard_option(&choice.guard_stands));
    server_urgent_option(&options, &server.settings);
    throttle_options(&options, &choice.throttle);
    options_add(&options, log_element_option(&choice.log_traffic));
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, &choice);
    server_close(&server);
    return status;
}
