/* Answers each line in capital letters. */
#include "common/apps/application.h"

#include <ctype.h>

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    char text[512];
    size_t length = 0;
    for (size_t i = 0; i < message.length; i++) {
        text[length++] = (char)toupper((unsigned char)message.data[i]);
        if (length == sizeof(text) || i + 1 == message.length) {
            channel_enqueue(facade, piece_bytes(text, length));
            length = 0;
        }
    }
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application shout_application = {.name = "shout", .verbs = &verbs};
