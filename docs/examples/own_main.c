/* Answers each line with itself: a handler, and a main of its own for stage 5's dispatchers. */
#include "common/events/selector_provider.h"
#include "stage5-multireactor/acceptor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade)
{
    (void)self;
    return channel_enqueue(facade, piece_copy(line)) != OUTPUT_BROKEN;
}

static struct input_handler *create(struct input_handler_factory *self, void *memory)
{
    static struct input_handler_verbs verbs = {.handle_input = handle_input};
    static struct input_handler handler; /* one for all: it keeps nothing */
    (void)self;
    (void)memory;
    handler.verbs = input_handler_complete(&verbs);
    return &handler;
}

int main(int argc, char **argv)
{
    struct input_handler_factory factory = {.create = create};
    struct options options;
    struct server server;
    struct admission admission;
    struct dispatcher_pool pool;
    struct acceptor acceptor;

    thread_holds_no_lock_yet();
    options_init(&options, "own_main", "Answers each line with itself.");
    server_options(&options, &server.settings, "7110");
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status; /* --help was asked for, or an option is wrong */
    if (server_open(&server, "own_main") != 0)
        return EXIT_FAILURE;
    admission_init(&admission, &server);
    const struct selector_provider *epoll = selector_providers[0];
    int error = 0;
    if (dispatcher_pool_open(&pool, 2, &server, NULL, &admission, epoll, true) != 0) {
        error = errno;
    } else {
        error = dispatcher_pool_start(&pool);
        if (error == 0) {
            acceptor_init(&acceptor, &pool, &admission, &factory);
            server_announce(&server, "lines");
            acceptor_run(&acceptor); /* until SIGTERM */
            dispatcher_pool_stop(&pool);
        }
        dispatcher_pool_close(&pool);
    }
    if (error != 0)
        fprintf(stderr, "own_main: cannot open the dispatchers: %s\n", strerror(error));
    admission_destroy(&admission);
    server_close(&server);
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
