/*
 * The application: it knows messages, a facade to answer by, and what a message costs (--work-us,
 * --block-ms).
 */
#include "common/server/input_handler.h"
#include "common/server/server.h"

extern struct server server;

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    channel_enqueue(facade, piece_copy(service_process(&server.service, message)));
    return true;
}

struct input_handler_verbs echo_verbs = {.handle_input = handle_input, .one_piece = true};

struct input_handler echo_handler = {&echo_verbs};
