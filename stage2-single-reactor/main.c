/*
 * Stage 2: one thread, one selector.
 */
#include "common/selector_provider.h"
#include "reactor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage2-single-reactor"

/* Serves until it is told to stop. */
static int run(struct server *server, const struct selector_provider *provider)
{
    struct reactor reactor;
    if (reactor_open(&reactor, server, provider) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR, "cannot open the reactor: %s", strerror(errno));
        return EXIT_FAILURE;
    }
    server_announce(server, "echo");
    reactor_run(&reactor);
    reactor_close(&reactor);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    const struct selector_provider *provider;

    options_init(&options, STAGE_NAME, "Line echo in one thread, with one selector.");
    server_options(&options, &server.settings, "7002");
    options_add(&options, selector_provider_option(&provider));
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, provider);
    server_close(&server);
    return status;
}
