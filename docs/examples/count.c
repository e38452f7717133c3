/* Answers each line with the number of its bytes. */
#include "common/apps/application.h"

#include <stdio.h>

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    char text[32];
    int length = snprintf(text, sizeof(text), "%zu bytes\n", message.length);
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application count_application = {.name = "count", .verbs = &verbs};
