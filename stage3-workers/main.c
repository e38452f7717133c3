/*
 * Stage 3: one selector, and workers for the processing.
 */
#include "common/apps/application_choice.h"
#include "common/apps/memory_bound.h"
#include "common/events/selector_provider.h"
#include "common/server/watch_executor.h"
#include "common/workers/executor_options.h"
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage3-workers"

/* What --app may choose, the default first. */
static const struct application *const applications[] = {
    &echo_application, &http_application, &pop3_application, &application_added, NULL,
};

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
    bool guard_works;
};

/* Serves until it is told to stop. */
static int serve(struct server *server, const struct choice *choice,
                 struct input_handler_factory *factory) NO_LOCK_HELD
{
    struct reactor reactor;
    struct executor executor;
    struct watch watch;
    struct watched_loop loop;
    struct watched_executor workers;
    struct executor_settings settings = executor_settings(&choice->executor);
    settings.buffers = &server->buffers;
    executor_open(&executor, &settings);
    if (reactor_open(&reactor, server, factory, choice->provider, &executor, choice->guard_works) !=
        0) {
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open the reactor: %s\"", strerror(errno));
        executor_close(&executor);
        return EXIT_FAILURE;
    }
    watch_open(&watch, server, &loop);
    watch_add_loop(&watch, &reactor.loop, NULL, &server->counters, "reactor");
    watch_executor(&watch, &workers, &executor, "workers", true);
    server_announce(server, choice->application.chosen->name);
    memory_bound_log(server, choice->application.chosen,
                     (struct memory_shape){.threads = 1 + settings.max});
    reactor_run(&reactor);
    watch_close(&watch);
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
    options_init(&options, STAGE_NAME, "Applications with one selector and a pool of workers.");
    server_options(&options, &server.settings, "7003");
    server_proxy_option(&options, &server.settings);
    application_options(&options, &choice.application, applications, OFFERS_TIMERS);
    options_add(&options, selector_provider_option(&choice.provider));
    executor_options(&options, &choice.executor);
    options_add(&options, selector_guard_option(&choice.guard_works));
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice.application, &options, choice.executor.policy);
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
