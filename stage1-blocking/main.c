/*
 * Stage 1: a thread for every socket, or a fixed pool of them.
 */
#include "acceptor.h"
#include "common/apps/application_choice.h"
#include "common/apps/memory_bound.h"

#include <stdlib.h>

#define STAGE_NAME "stage1-blocking"

/* What --app may choose, the default first. */
static const struct application *const applications[] = {
    &echo_application, &http_application, &pop3_application, &application_added, NULL,
};

static const struct option threads_option = {
    .name = "--threads",
    .value = "N",
    .default_text = "0",
    .help = "serve clients with a pool of N threads; 0: a thread for every client",
    .parse = option_parse_number,
    .max = 30000,
};

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    size_t threads;
};

/* Serves until it is told to stop. */
static int serve(struct server *server, const struct choice *choice,
                 struct input_handler_factory *factory)
{
    struct handler_threads threads;
    struct acceptor acceptor;
    if (handler_threads_open(&threads, server, factory, choice->threads) != 0)
        return EXIT_FAILURE;
    acceptor_init(&acceptor, server, &threads);

    server_announce(server, choice->application.chosen->name);
    memory_bound_log(server, choice->application.chosen,
                     (struct memory_shape){.stack = MEMORY_OF_A_STACK});
    acceptor_run(&acceptor);
    handler_threads_close(&threads);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    options_init(&options, STAGE_NAME, "Applications with a thread for every client.");
    server_options(&options, &server.settings, "7001");
    server_proxy_option(&options, &server.settings);
    application_options(&options, &choice.application, applications, OFFERS_TIMERS);
    struct option pool = threads_option;
    pool.target = &choice.threads;
    options_add(&options, pool);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice.application, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *factory = application_open(choice.application.chosen, &server);
    status = factory != NULL ? serve(&server, &choice, factory) : EXIT_FAILURE;
    application_close(choice.application.chosen, factory);
    server_close(&server);
    return status;
}
