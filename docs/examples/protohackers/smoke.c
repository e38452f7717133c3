/* Protohackers' problem 0, Smoke Test: what a client sends comes back, byte for byte. */
#include "common/apps/application.h"
#include "common/bytes/input_queue.h"

/* Bytes have no end of a message: what is there is one. */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct input_queue *input = channel_input(facade);
    (void)self;
    if (input_queue_is_empty(input))
        return FRAMING_INCOMPLETE;
    *message = input_queue_dequeue(input, input_queue_length(input));
    return FRAMING_MESSAGE;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    channel_enqueue(facade, piece_copy(message));
    return true;
}

static const struct input_handler_verbs verbs = {.next_message = next_message,
                                                 .handle_input = handle_input};

const struct application smoke_application = {.name = "smoke", .verbs = &verbs};
