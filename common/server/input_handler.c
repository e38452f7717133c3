#include "common/server/input_handler_calls.h"

enum framing_result input_handler_next_line(struct input_handler *self,
                                            struct channel_facade *facade, struct message *line)
{
    struct input_queue *input = channel_input(facade);
    enum framing_result result = line_framing_next(input, line_framing_max_line(input), line);
    (void)self;
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(line_framing_too_long_text));
    return result;
}
