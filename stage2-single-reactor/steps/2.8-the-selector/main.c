/*
 * Step 2.8: one thread, one selector.
 *
 * Left out on purpose: time limits, and an orderly end (both are in stage 2). Told to stop, the
 * process exits, and the system closes what is open.
 */
#include "common/apps/application_choice.h"
#include "common/events/selector_provider.h"
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What --app may choose: echo. */
static const struct application *const applications[] = {&echo_application, NULL};

/* Serves until it is told to stop. */
static void serve(struct server *server, struct input_handler_factory *factory,
                  const struct selector_provider *provider) NO_LOCK_HELD
{
    struct reactor reactor;
    if (reactor_open(&reactor, server, factory, provider) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open the reactor: %s\"", strerror(errno));
        return;
    }
    server_announce(server, echo_application.name);
    reactor_run(&reactor);
    _exit(EXIT_SUCCESS); /* nobody has a list of the handlers, so nobody can close them */
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct application_choice choice;
    const struct selector_provider *provider;

    thread_holds_no_lock_yet();
    options_init(&options, program_invocation_short_name,
                 "Applications in one thread, with one selector.");
    server_options(&options, &server.settings, "7002");
    application_options(&options, &choice, applications, OFFERS_TIMERS);
    options_add(&options, selector_provider_option(&provider));
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, program_invocation_short_name) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *factory = application_open(choice.chosen, &server);
    if (factory != NULL)
        serve(&server, factory, provider);
    application_close(choice.chosen, factory);
    server_close(&server);
    return EXIT_FAILURE;
}
