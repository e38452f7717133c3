/*
 * Stage 5: an acceptor and a pool of dispatchers.
 */
#include "acceptor.h"
#include "common/apps/application_choice.h"
#include "common/apps/chain_service.h"
#include "common/apps/memory_bound.h"
#include "common/events/selector_provider.h"
#include "common/server/watch_executor.h"
#include "common/workers/executor_options.h"
#include "handler_adapter.h"
#include "strands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage5-multireactor"

/* What --app may choose, the default first. */
static const struct application *const applications[] = {
    &echo_application,  &broker_application, &http_application,  &pop3_application,
    &relay_application, &store_application,  &application_added, NULL,
};

/* What options may put before the application; the last one is next to the client. */
static const struct chain_service *const services[] = {
    &throttle_service,
    &log_service,
    &cipher_service,
    NULL,
};

/* What only this stage lets a user choose. */
struct choice {
    struct application_choice application;
    const struct selector_provider *provider;
    struct executor_choice executor;
    size_t helpers;
    size_t dispatchers;
    bool guard_works;
};

/* The parts of this server that are not in every stage. */
struct parts {
    struct input_handler_factory *application;
    struct input_handler_factory *chain;
    size_t elements; /* in it */
    struct executor executor;
    struct executor helpers;
    struct admission admission;
    struct dispatcher_pool dispatchers;
    struct acceptor acceptor;
    struct strands strands;
    struct watch watch;
    struct watched_loop *loops;
    struct watched_executor watched_workers;
    struct watched_executor watched_helpers;
};

static int cannot(const struct server *server, const char *what, int error)
{
    log_write(&server->log, LOG_LEVEL_ERROR, "event=not_started reason=\"cannot %s: %s\"", what,
              strerror(error));
    return EXIT_FAILURE;
}

/* The handlers of connections: the application's, behind the elements that were asked for. */
static struct input_handler_factory *chain(struct server *server,
                                           struct input_handler_factory *application,
                                           size_t *elements)
{
    struct input_handler_factory *factory = application;
    *elements = 0;
    for (size_t i = 0; factory != NULL && services[i] != NULL; i++) {
        struct input_handler_factory *inner = factory;
        factory = services[i]->over(inner, server);
        *elements += factory != inner;
    }
    return factory;
}

/* Has main look after the loops and the workers. */
static void begin_watch(struct server *server, struct parts *parts)
{
    watch_open(&parts->watch, server, parts->loops);
    for (size_t i = 0; i < parts->dispatchers.count; i++) {
        struct dispatcher *dispatcher = &parts->dispatchers.dispatchers[i];
        char name[WATCH_NAME_SIZE];
        snprintf(name, sizeof(name), "dispatcher %zu", i + 1);
        watch_add_loop(&parts->watch, &dispatcher->loop, &dispatcher->selector,
                       &dispatcher->counters, name);
    }
    watch_executor(&parts->watch, &parts->watched_workers, &parts->executor, "workers", true);
    watch_executor(&parts->watch, &parts->watched_helpers, &parts->helpers, "helpers", false);
}

/* Accepts until a signal asks to stop; then stops the parts, those that begin work first. */
static int serve(struct server *server, const struct choice *choice,
                 struct parts *parts) NO_LOCK_HELD
{
    strands_host(&parts->strands, &parts->dispatchers.dispatchers[0]);
    int error = dispatcher_pool_start(&parts->dispatchers);
    if (error != 0)
        return cannot(server, "start the dispatchers", error);
    acceptor_init(&parts->acceptor, &parts->dispatchers, &parts->admission, parts->chain);
    begin_watch(server, parts);
    strand_host_begin(&parts->strands.host);
    server_announce(server, choice->application.chosen->name);
    size_t threads = 1 + choice->dispatchers + parts->executor.settings.max + choice->helpers;
    memory_bound_log(server, choice->application.chosen,
                     (struct memory_shape){.threads = threads, .elements = parts->elements});
    acceptor_run(&parts->acceptor);
    strand_host_stop(&parts->strands.host);
    dispatcher_pool_stop(&parts->dispatchers);
    executor_end(&parts->executor, false);
    executor_end(&parts->helpers, true);
    dispatcher_pool_count(&parts->dispatchers);
    if (server->settings.stats)
        dispatcher_pool_report(&parts->dispatchers);
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
    parts.chain = chain(server, parts.application, &parts.elements);
    if (parts.chain == NULL) {
        application_close(choice->application.chosen, parts.application);
        return EXIT_FAILURE;
    }
    executor_open(&parts.executor, &settings);
    struct executor_settings helpers = executor_helpers_settings(choice->helpers);
    executor_open(&parts.helpers, &helpers);
    if (choice->helpers > 0)
        server_use_helpers(server, &parts.helpers);
    admission_init(&parts.admission, server);
    connection_share(&server->home, &handler_adapter_sharing);
    int status = EXIT_FAILURE;
    bool is_open =
        dispatcher_pool_open(&parts.dispatchers, choice->dispatchers, server,
                             settings.core > 0 ? &parts.executor : NULL, &parts.admission,
                             choice->provider, choice->guard_works) == 0;
    parts.loops = calloc(choice->dispatchers, sizeof(*parts.loops));
    if (is_open && parts.loops != NULL)
        status = serve(server, choice, &parts);
    else
        cannot(server, "open the dispatchers", errno);
    strand_host_end(&parts.strands.host);
    application_close(choice->application.chosen, parts.application); /* it may wake a dispatcher */
    if (is_open)
        dispatcher_pool_close(&parts.dispatchers);
    free(parts.loops);
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
                 "An acceptor and a pool of dispatchers, for many connections.");
    server_options(&options, &server.settings, "7005");
    server_proxy_option(&options, &server.settings);
    options_set_default(&options, "--idle-timeout", "60");
    options_set_default(&options, "--request-timeout", "30");
    application_options(&options, &choice.application, applications,
                        OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_CONNECTIONS | OFFERS_TIMERS |
                            OFFERS_POST | OFFERS_STRANDS | OFFERS_WRITE_RATE);
    options_add(&options, selector_provider_option(&choice.provider));
    options_add(&options, dispatcher_pool_option(&choice.dispatchers));
    executor_options_or_none(&options, &choice.executor);
    options_add(&options, executor_helpers_option(&choice.helpers));
    options_add(&options, selector_guard_option(&choice.guard_works));
    server_connect_option(&options, &server.settings);
    for (size_t i = 0; services[i] != NULL; i++)
        services[i]->options(&options);
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
