/*
 * Stage 4: the guarded dispatcher as a framework.
 */
#include "acceptor.h"
#include "common/apps/application.h"
#include "common/clock.h"
#include "common/executor_options.h"
#include "common/selector_provider.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage4-framework"

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
    bool guard_stands;
};

/* What the server is made of, beside what every stage has. */
struct parts {
    struct input_handler_factory *factory;
    struct executor executor;
    struct admission admission;
    struct dispatcher dispatcher;
    struct acceptor acceptor;
    pthread_t dispatcher_thread;
};

static int cannot(const struct server *server, const char *what, int error)
{
    log_write(&server->log, LOG_LEVEL_ERROR, "cannot %s: %s", what, strerror(error));
    return EXIT_FAILURE;
}

static void *dispatcher_thread(void *argument)
{
    thread_set_name("dispatcher");
    dispatcher_dispatch(argument);
    return NULL;
}

/* Accepts until a signal says stop; then everything comes to its end in the order of its use. */
static int serve(struct server *server, const struct choice *choice, struct parts *parts)
{
    int error = thread_start(&parts->dispatcher_thread, dispatcher_thread, &parts->dispatcher);
    if (error != 0)
        return cannot(server, "start the dispatcher", error);
    acceptor_init(&parts->acceptor, &parts->dispatcher, parts->factory);
    server_announce(server, choice->application.chosen->name);
    acceptor_run(&parts->acceptor);
    dispatcher_stop(&parts->dispatcher);
    if (!dispatcher_await(&parts->dispatcher, clock_ms() + server->settings.drain_timeout))
        service_cut_short(&server->service); /* under some policies it may be held up itself */
    pthread_join(parts->dispatcher_thread, NULL);
    executor_shutdown(&parts->executor, false);
    while (!executor_await(&parts->executor, clock_ms() + 1000))
        ;
    dispatcher_count(&parts->dispatcher);
    return EXIT_SUCCESS;
}

/* Serves until it is told to stop. */
static int run(struct server *server, const struct choice *choice)
{
    struct parts parts;
    struct executor_settings settings = executor_settings(&choice->executor);
    parts.factory = application_open(&choice->application, server);
    if (parts.factory == NULL)
        return EXIT_FAILURE;
    executor_open(&parts.executor, &settings);
    admission_init(&parts.admission);
    int status = EXIT_FAILURE;
    if (dispatcher_open(&parts.dispatcher, server, &parts.executor, &parts.admission,
                        choice->provider, choice->guard_stands) != 0) {
        cannot(server, "open the dispatcher", errno);
    } else {
        status = serve(server, choice, &parts);
        dispatcher_close(&parts.dispatcher);
    }
    admission_destroy(&parts.admission);
    executor_close(&parts.executor);
    choice->application.chosen->close(parts.factory);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    options_init(&options, STAGE_NAME,
                 "Applications, served by a framework with a guarded dispatcher.");
    server_options(&options, &server.settings, "7004");
    options_set_standard(&options, "--idle-timeout", "60");
    options_set_standard(&options, "--request-timeout", "30");
    application_options(&options, &choice.application);
    options_add(&options, selector_provider_option(&choice.provider));
    executor_options(&options, &choice.executor);
    options_add(&options, selector_guard_option(&choice.guard_stands));
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
