/*
 * Stage 1: a thread for every socket, or a fixed pool of them.
 */
#include "acceptor.h"

#include <stdlib.h>

#define STAGE_NAME "stage1-blocking"

static const struct option threads_option = {
    .name = "--threads",
    .value = "N",
    .standard = "0",
    .help = "a fixed pool of N threads; 0: a thread for every client",
    .read = option_number,
    .most = 30000,
};

/* Serves until it is told to stop. */
static int run(struct server *server, size_t pool_size)
{
    struct handler_threads threads;
    struct acceptor acceptor;
    if (handler_threads_open(&threads, server, pool_size) != 0)
        return EXIT_FAILURE;
    acceptor_init(&acceptor, server, &threads);

    server_announce(server, "echo");
    acceptor_run(&acceptor);
    handler_threads_close(&threads);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct options options;
    struct server server;
    uint64_t threads;

    options_init(&options, STAGE_NAME, "Line echo with a thread for every client.");
    server_options(&options, &server.settings, "7001");
    struct option pool = threads_option;
    pool.target = &threads;
    options_add(&options, pool);
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;

    if (server_open(&server, STAGE_NAME) != 0)
        return EXIT_FAILURE;
    status = run(&server, threads);
    server_close(&server);
    return status;
}
