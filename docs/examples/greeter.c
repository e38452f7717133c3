/*
 * A handler for the experiments of C.12, C.13 and C.15, which put it in the place of echo.c and so
 * want its name. (APP= takes it only with an application around it, as in count.c.) It asks more of
 * its connection than echo does: it speaks first, has an answer that is longer than its question,
 * and knows lines that are none of its protocol.
 */
#include "common/server/input_handler.h"

#include <string.h>

static void say(struct channel_facade *facade, const char *text)
{
    channel_enqueue(facade, piece_bytes(text, strlen(text)));
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    say(facade, "READY\n");
}

/* A line that begins with a brace is meant for another server, and so is all that follows it. */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct input_queue *input = channel_input(facade);
    (void)self;
    if (input_queue_is_empty(input) || input_queue_at(input, 0) != '{')
        return input_handler_next_line(self, facade, message);
    say(facade, "ERR not my protocol\n");
    return FRAMING_REFUSED;
}

/* A hundred times the line. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    for (int i = 0; i < 100; i++)
        channel_enqueue(facade, piece_copy(message));
    return true;
}

struct input_handler_verbs echo_verbs = {
    .started = started, .next_message = next_message, .handle_input = handle_input};

struct input_handler echo_handler = {&echo_verbs};
