/*
 * Step 1.4: a thread for each client, on the connection that all stages share.
 *
 * Left out on purpose: a limit to the threads, and an orderly end (both are in stage 1). Told to
 * stop, the process exits, and its threads end wherever they are.
 */
#include "acceptor.h"
#include "common/apps/application_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* What --app may choose: echo. */
static const struct application *const applications[] = {&echo_application, NULL};

/* Serves until it is told to stop. */
static void serve(struct server *server, const struct application_choice *choice,
                  struct input_handler_factory *factory)
{
    struct handler_threads threads;
    struct acceptor acceptor;
    handler_threads_open(&threads, server, factory);
    acceptor_init(&acceptor, server, &threads);

    server_announce(server, choice->chosen->name);
    acceptor_run(&acceptor);
    _exit(EXIT_SUCCESS); /* the threads still use what we would have to close */
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct application_choice choice;

    options_init(&options, program_invocation_short_name,
                 "Applications with a thread for every client.");
    server_options(&options, &server.settings, "7001");
    application_options(&options, &choice, applications, OFFERS_TIMERS);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, program_invocation_short_name) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *factory = application_open(choice.chosen, &server);
    if (factory != NULL)
        serve(&server, &choice, factory);
    application_close(choice.chosen, factory);
    server_close(&server);
    return EXIT_FAILURE;
}
