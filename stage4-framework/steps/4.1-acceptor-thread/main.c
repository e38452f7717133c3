/*
 * Step 4.1: an acceptor's thread, a dispatcher's thread, and workers.
 *
 * The steps that follow take this file as it is, so the program calls itself by its file's name.
 */
#include "acceptor.h"
#include "common/apps/application_choice.h"
#include "common/events/selector_provider.h"
#include "common/server/watch_executor.h"
#include "common/workers/executor_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What --app may choose: echo. */
static const struct application *const applications[] = {&echo_application, &application_added,
                                                         NULL};

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
};

/* The parts of this server that are not in every stage. */
struct parts {
    struct input_handler_factory *application;
    struct executor executor;
    struct admission admission;
    struct dispatcher dispatcher;
    struct acceptor acceptor;
    struct watch watch;
    struct watched_loop loop;
    struct watched_executor watched_workers;
};

static int cannot(const struct server *server, const char *what, int error)
{
    log_write(&server->log, LOG_LEVEL_ERROR, "event=not_started reason=\"cannot %s: %s\"", what,
              strerror(error));
    return EXIT_FAILURE;
}

/* Accepts until a signal asks to stop; then stops the parts, those that begin work first. */
static int serve(struct server *server, const struct choice *choice,
                 struct parts *parts) NO_LOCK_HELD
{
    int error = dispatcher_start(&parts->dispatcher);
    if (error != 0)
        return cannot(server, "start the dispatcher", error);
    acceptor_init(&parts->acceptor, &parts->dispatcher, &parts->admission, parts->application);
    watch_open(&parts->watch, server, &parts->loop);
    watch_add_loop(&parts->watch, &parts->dispatcher.loop, &parts->dispatcher.selector,
                   &server->counters, "dispatcher");
    watch_executor(&parts->watch, &parts->watched_workers, &parts->executor, "workers", true);
    server_announce(server, choice->application.chosen->name);
    acceptor_run(&parts->acceptor);
    dispatcher_stop(&parts->dispatcher);
    dispatcher_join(&parts->dispatcher, server_drain_end(server));
    executor_end(&parts->executor, false);
    dispatcher_count(&parts->dispatcher);
    watch_close(&parts->watch);
    return EXIT_SUCCESS;
}

/* Serves until a signal asks to stop. */
static int run(struct server *server, const struct choice *choice) NO_LOCK_HELD
{
    struct parts parts;
    struct executor_settings settings = executor_settings(&choice->executor);
    settings.buffers = &server->buffers;
    parts.application = application_open(choice->application.chosen, server);
    if (parts.application == NULL)
        return EXIT_FAILURE;
    executor_open(&parts.executor, &settings);
    admission_init(&parts.admission, server);
    int status = EXIT_FAILURE;
    if (dispatcher_open(&parts.dispatcher, server, &parts.executor, &parts.admission,
                        choice->provider, true) != 0) {
        cannot(server, "open the dispatcher", errno);
    } else {
        status = serve(server, choice, &parts);
        dispatcher_close(&parts.dispatcher);
    }
    admission_destroy(&parts.admission);
    executor_close(&parts.executor);
    application_close(choice->application.chosen, parts.application);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    thread_holds_no_lock_yet();
    options_init(&options, program_invocation_short_name,
                 "Applications with an acceptor, a dispatcher and workers.");
    server_options(&options, &server.settings, "7004");
    options_set_default(&options, "--idle-timeout", "60");
    options_set_default(&options, "--request-timeout", "30");
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
    status = run(&server, &choice);
    server_close(&server);
    return status;
}
