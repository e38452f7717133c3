/*
 * Stage 3: one selector, and workers for the processing.
 */
#include "common/executor_options.h"
#include "common/selector_provider.h"
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage3-workers"

/* What only this stage lets a user choose. */
struct choice {
    const struct selector_provider *provider;
    struct executor_choice executor;
    bool guard_wakes;
};

/* Serves until it is told to stop. */
static int run(struct server *server, const struct choice *choice)
{
    struct reactor reactor;
    struct executor executor;
    struct executor_settings settings = executor_settings(&choice->executor);
    executor_open(&executor, &settings);
    if (reactor_open(&reactor, server, choice->provider, &executor, choice->guard_wakes) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR, "cannot open the reactor: %s", strerror(errno));
        executor_close(&executor);
        return EXIT_FAILURE;
    }
    server_announce(server, "echo");
    reactor_run(&reactor);
    reactor_close(&reactor);
    executor_close(&executor);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    options_init(&options, STAGE_NAME, "Line echo with one selector and a pool of workers.");
    server_options(&options, &server.settings, "7003");
    options_add(&options, selector_provider_option(&choice.provider));
    executor_options(&options, &choice.executor);
    options_add(&options, selector_guard_option(&choice.guard_wakes));
    server_urgent_option(&options, &server.settings);
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, &choice);
    server_close(&server);
    return status;
}
