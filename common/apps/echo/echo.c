/*
 * Line echo, as every stage serves it (Hitchens, "Trivial Echo-Back Handler Example").
 */
#include "common/apps/application.h"

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct message reply = application_process(application_server(self), facade, message);
    channel_enqueue(facade, piece_copy(reply));
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input, .one_piece = true};

const struct application echo_application = {
    .name = "echo", .unordered_answers = true, .verbs = &verbs};
