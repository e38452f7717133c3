/*
 * Stage 4: the guarded dispatcher as a framework.
 */
#include "acceptor.h"
#include "common/apps/application_choice.h"
#include "common/apps/memory_bound.h"
#include "common/events/selector_provider.h"
#include "common/server/watch_executor.h"
#include "common/workers/executor_options.h"
#include "handler_adapter.h"
#include "strands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage4-framework"

/* What --app may choose, the default first. */
static const struct application *const applications[] = {
    &echo_application,  &broker_application, &http_application,  &pop3_application,
    &relay_application, &store_application,  &application_added, NULL,
};

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
    size_t helpers;
    bool guard_works;
};

/* The parts of this server that are not in every stage. */
struct parts {
    struct input_handler_factory *application;
    struct executor executor;
    struct executor helpers;
    struct admission admission;
    struct dispatcher dispatcher;
    struct acceptor acceptor;
    struct strands strands;
    struct watch watch;
    struct watched_loop loop;
    struct watched_executor watched_workers;
    struct watched_executor watched_helpers;
};

static int cannot(const struct server *server, const char *what, int error)
{
    log_write(&server->log, LOG_LEVEL_ERROR, "event=not_started reason=\"cannot %s: %s\"", what,
              strerror(error));
    return EXIT_FAILURE;
}

/* Has main look after the loop and the workers. */
static void begin_watch(struct server *server, struct parts *parts)
{
    watch_open(&parts->watch, server, &parts->loop);
    watch_add_loop(&parts->watch, &parts->dispatcher.loop, &parts->dispatcher.selector,
                   &server->counters, "dispatcher");
    watch_executor(&parts->watch, &parts->watched_workers, &parts->executor, "workers", true);
    watch_executor(&parts->watch, &parts->watched_helpers, &parts->helpers, "helpers", false);
}

/* Accepts until a signal asks to stop; then stops the parts, those that begin work first. */
static int serve(struct server *server, const struct choice *choice,
                 struct parts *parts) NO_LOCK_HELD
{
    strands_host(&parts->strands, &parts->dispatcher);
    int error = dispatcher_start(&parts->dispatcher);
    if (error != 0)
        return cannot(server, "start the dispatcher", error);
    acceptor_init(&parts->acceptor, &parts->dispatcher, &parts->admission, parts->application);
    begin_watch(server, parts);
    strand_host_begin(&parts->strands.host);
    server_announce(server, choice->application.chosen->name);
    size_t threads = 2 + parts->executor.settings.max + choice->helpers;
    memory_bound_log(server, choice->application.chosen, (struct memory_shape){.threads = threads});
    acceptor_run(&parts->acceptor);
    strand_host_stop(&parts->strands.host);
    dispatcher_stop(&parts->dispatcher);
    dispatcher_join(&parts->dispatcher, server_drain_end(server));
    executor_end(&parts->executor, false);
    executor_end(&parts->helpers, true);
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
    strands_init(&parts.strands, server);
    parts.application = application_open(choice->application.chosen, server);
    if (parts.application == NULL)
        return EXIT_FAILURE;
    executor_open(&parts.executor, &settings);
    struct executor_settings helpers = executor_helpers_settings(choice->helpers);
    executor_open(&parts.helpers, &helpers);
    if (choice->helpers > 0)
        server_use_helpers(server, &parts.helpers);
    admission_init(&parts.admission, server);
    connection_share(&server->home, &handler_adapter_sharing);
    int status = EXIT_FAILURE;
    bool is_open = dispatcher_open(&parts.dispatcher, server, &parts.executor, &parts.admission,
                                   choice->provider, choice->guard_works) == 0;
    if (is_open)
        status = serve(server, choice, &parts);
    else
        cannot(server, "open the dispatcher", errno);
    strand_host_end(&parts.strands.host);
    application_close(choice->application.chosen, parts.application); /* it may wake a dispatcher */
    if (is_open)
        dispatcher_close(&parts.dispatcher);
    executor_close(&parts.helpers);
    executor_close(&parts.executor);
    admission_destroy(&parts.admission);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    thread_holds_no_lock_yet();
    options_init(&options, STAGE_NAME,
                 "Applications, served by a framework with a guarded dispatcher.");
    server_options(&options, &server.settings, "7004");
    server_proxy_option(&options, &server.settings);
    options_set_default(&options, "--idle-timeout", "60");
    options_set_default(&options, "--request-timeout", "30");
    application_options(&options, &choice.application, applications,
                        OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_CONNECTIONS | OFFERS_TIMERS |
                            OFFERS_POST | OFFERS_STRANDS);
    options_add(&options, selector_provider_option(&choice.provider));
    executor_options(&options, &choice.executor);
    options_add(&options, executor_helpers_option(&choice.helpers));
    options_add(&options, selector_guard_option(&choice.guard_works));
    server_connect_option(&options, &server.settings);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice.application, &options, choice.executor.policy);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, &choice);
    server_close(&server);
    return status;
}
