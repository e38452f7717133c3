/*
 * Step 3.1: one selector, and a worker for questions that take long.
 *
 * The steps that follow take this file as it is, so the program calls itself by its file's name.
 */
#include "common/apps/application_choice.h"
#include "common/events/selector_provider.h"
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
};

/* Serves until it is told to stop. */
static int serve(struct server *server, const struct choice *choice,
                 struct input_handler_factory *factory) NO_LOCK_HELD
{
    struct reactor reactor;
    if (reactor_open(&reactor, server, factory, choice->provider) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open the reactor: %s\"", strerror(errno));
        return EXIT_FAILURE;
    }
    server_announce(server, choice->application.chosen->name);
    reactor_run(&reactor);
    reactor_close(&reactor);
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
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice.application, &options, NULL);
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
