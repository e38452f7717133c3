/*
 * Stands in for common/server/input_handler_complete.c until step C.18: fills in the verbs that the
 * core calls and echo leaves out.
 */
#include "common/server/input_handler_calls.h"

static void do_nothing(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
}

static void go_unused(struct input_handler *self)
{
    (void)self;
}

const struct input_handler_verbs *input_handler_complete(struct input_handler_verbs *verbs)
{
    verbs->traits = verbs->one_piece ? TRAIT_ONE_PIECE : 0;
    if (verbs->next_message == NULL)
        verbs->next_message = input_handler_next_line;
    if (verbs->started == NULL)
        verbs->started = do_nothing;
    verbs->starting = verbs->drained = verbs->end_of_input = do_nothing;
    verbs->stopping = verbs->stopped = do_nothing;
    verbs->unused = go_unused;
    return verbs;
}
