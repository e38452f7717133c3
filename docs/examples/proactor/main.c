/*
 * Stage 2 on a ring: one thread, and a kernel that reads and writes for it (docs/proactor.md).
 */
#include "common/apps/application_choice.h"
#include "proactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SERVER_NAME "proactor"

/* What --app may choose, the default first. */
static const struct application *const applications[] = {
    &echo_application, &http_application, &pop3_application, &application_added, NULL,
};

/* Serves until it is told to stop. */
static int serve(struct server *server, const struct application_choice *choice,
                 struct input_handler_factory *factory) NO_LOCK_HELD
{
    struct proactor proactor;
    if (proactor_open(&proactor, server, factory) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR,
                  "event=not_started reason=\"cannot open a ring: %s\"", strerror(errno));
        return EXIT_FAILURE;
    }
    server_announce(server, choice->chosen->name);
    proactor_run(&proactor);
    proactor_close(&proactor);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct application_choice choice;

    thread_holds_no_lock_yet();
    options_init(&options, SERVER_NAME, "Applications in one thread, on a ring (io_uring).");
    server_options(&options, &server.settings, "7006");
    server_proxy_option(&options, &server.settings);
    application_options(&options, &choice, applications, OFFERS_TIMERS);
    int status = options_parse(&options, argc, argv);
    if (status == OPTIONS_SERVE)
        status = application_settle(&choice, &options, NULL);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, SERVER_NAME) != 0)
        return EXIT_FAILURE;
    struct input_handler_factory *factory = application_open(choice.chosen, &server);
    status = factory != NULL ? serve(&server, &choice, factory) : EXIT_FAILURE;
    application_close(choice.chosen, factory);
    server_close(&server);
    return status;
}
