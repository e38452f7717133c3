/*
 * Step 3.7: one selector, and an executor that is set up by whoever starts the server.
 *
 * The step that follows takes this file as it is, so the program calls itself by its file's name.
 */
#include "common/apps/application_choice.h"
#include "common/events/selector_provider.h"
#include "common/workers/executor_options.h"
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What --app may choose: echo. */
static const struct application *const applications[] = {&echo_application, NULL};

/* What only some stages let a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
};

/* Serves until it is told to stop. */
static int serve(struct server *server, const struct choice *choice,
                 struct input_handler_factory *factory) NO_LOCK_HELD
{
    struct reactor reactor;
    struct executor executor;
    struct executor_settings settings = executor_settings(&choice->executor);
    settings.buffers = &server->buffers;
    executor_open(&executor, &settings);
    if (reactor_open(&reactor, server, factory, choice->provider, &executor) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open the reactor: %s\"", strerror(errno));
        executor_close(&executor);
        return EXIT_FAILURE;
    }
    server_announce(server, choice->application.chosen->name);
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

    thread_holds_no_lock_yet();
    options_init(&options, program_invocation_short_name,
                 "Applications with one selector, and workers.");
    server_options(&options, &server.settings, "7003");
    application_options(&options, &choice.application, applications, OFFERS_TIMERS);
    options_add(&options, selector_provider_option(&choice.provider));
    executor_options(&options, &choice.executor);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice.application, &options, choice.executor.policy);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, program_invocation_short_name) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *factory = application_open(choice.application.chosen, &server);
    status = factory != NULL ? serve(&server, &choice, factory) : EXIT_FAILURE;
    application_close(choice.application.chosen, factory);
    server_close(&server);
    return status;
}
