/* Answers each line in capital letters. */
#include "common/apps/application.h"

#include <ctype.h>

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    for (size_t i = 0; i < message.length; i++) {
        char capital = (char)toupper((unsigned char)message.data[i]);
        if (!channel_enqueue(facade, piece_bytes(&capital, 1)))
            return false;
    }
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application shout_application = {.name = "shout", .verbs = &verbs};
