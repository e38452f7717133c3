/*
 * Stage 3: one selector, and workers for the processing.
 */
#include "common/executor_options.h"
#include "common/selector_provider.h"
#include "reactor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGE_NAME "stage3-workers"

/* What only this stage lets a user choose. */
struct choice {
    const struct selector_provider *provider;
    struct executor_choice executor;
    bool guard_wakes;
    int64_t urgent_port; /* -1: no second listener */
};

static bool read_urgent_port(const struct option *option, const char *text)
{
    uint64_t port;
    struct option number = {.target = &port};
    bool none = strcmp(text, "none") == 0;
    if (!none && !option_port(&number, text))
        return false;
    *(int64_t *)option->target = none ? -1 : (int64_t)port;
    return true;
}

static void add_options(struct options *options, struct choice *choice)
{
    options_add(options, selector_provider_option(&choice->provider));
    executor_options(options, &choice->executor);
    options_add(options, selector_guard_option(&choice->guard_wakes));
    options_add(options, (struct option){.name = "--priority-port",
                                         .value = "N",
                                         .standard = "none",
                                         .help = "a second port, for --queue priority to favour",
                                         .takes = "a port number or none",
                                         .read = read_urgent_port,
                                         .target = &choice->urgent_port});
}

/* Listens on the second port too, and tells so after the first. */
static int open_urgent(struct reactor *reactor, struct listener *listener, int64_t port)
{
    if (port < 0)
        return 0;
    if (server_listen(reactor->server, listener, (uint64_t)port) != 0 ||
        reactor_accept_urgent(reactor, listener) != 0)
        return -1;
    return 0;
}

static void announce(struct server *server, const struct listener *urgent)
{
    server_announce(server, "echo");
    if (urgent->fd < 0)
        return;
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(&urgent->endpoint, place);
    printf("%s: urgent echo on %s\n", server->name, place);
    fflush(stdout);
}

/* Serves until it is told to stop. */
static int run(struct server *server, const struct choice *choice)
{
    struct reactor reactor;
    struct executor executor;
    struct listener urgent = {.fd = -1, .reserve = -1};
    struct executor_settings settings = executor_settings(&choice->executor);
    executor_open(&executor, &settings);
    if (reactor_open(&reactor, server, choice->provider, &executor, choice->guard_wakes) != 0) {
        log_write(&server->log, LOG_LEVEL_ERROR, "cannot open the reactor: %s", strerror(errno));
        executor_close(&executor);
        return EXIT_FAILURE;
    }
    int status =
        open_urgent(&reactor, &urgent, choice->urgent_port) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    if (status == EXIT_SUCCESS) {
        announce(server, &urgent);
        reactor_run(&reactor);
    }
    reactor_close(&reactor);
    executor_close(&executor);
    return status;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    struct choice choice;

    options_init(&options, STAGE_NAME, "Line echo with one selector and a pool of workers.");
    server_options(&options, &server.settings, "7003");
    add_options(&options, &choice);
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, &choice);
    server_close(&server);
    return status;
}
