/*
 * What a handler does that leaves verbs out, and which of its verbs are its own. The verbs that are
 * filled in take no lock and keep nothing, and come in whichever thread a handler's own would.
 */
#include "common/server/input_handler_calls.h"

/* ---- Verbs that are left out ----------------------------------------------------------------- */

static bool drop(struct input_handler *self, struct message message, struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
    return true;
}

static void drop_refused(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
}

static bool say_no(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    return false;
}

static bool hold_nothing(const struct input_handler *self)
{
    (void)self;
    return false;
}

static void close_it(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    channel_close(facade);
}

static void do_nothing(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
}

static void go_unused(struct input_handler *self)
{
    (void)self;
}

static void give_up(struct input_handler *self, int error)
{
    (void)self;
    (void)error;
}

/* ---- Completing ------------------------------------------------------------------------------ */

/* Some make a difference by being there, so it is kept which of them are the handler's own. */
static unsigned traits_of(const struct input_handler_verbs *verbs)
{
    return (verbs->one_piece ? TRAIT_ONE_PIECE : 0u) |
           (verbs->continue_output != say_no ? TRAIT_CONTINUES : 0u) |
           (verbs->holds_input != hold_nothing ? TRAIT_HOLDS_INPUT : 0u) |
           (verbs->drained != do_nothing ? TRAIT_HEARS_DRAINED : 0u) |
           (verbs->duplex ? TRAIT_DUPLEX : 0u) |
           (verbs->timed_out != do_nothing ? TRAIT_HEARS_LATE : 0u) |
           (verbs->idle != do_nothing ? TRAIT_HEARS_IDLE : 0u) |
           (verbs->left != close_it ? TRAIT_HEARS_LEFT : 0u) |
           (verbs->stopping != do_nothing ? TRAIT_HEARS_STOPPING : 0u);
}

#define FILL_IN(verb, otherwise)                                                                   \
    do {                                                                                           \
        if (verbs->verb == NULL)                                                                   \
            verbs->verb = otherwise;                                                               \
    } while (0)

static void fill_in(struct input_handler_verbs *verbs)
{
    FILL_IN(handle_input, drop);
    FILL_IN(next_message, input_handler_next_line);
    FILL_IN(refuse_input, drop_refused);
    FILL_IN(continue_output, say_no);
    FILL_IN(drained, do_nothing);
    FILL_IN(left, close_it);
    FILL_IN(timed_out, do_nothing);
    FILL_IN(idle, do_nothing);
    FILL_IN(starting, do_nothing);
    FILL_IN(started, do_nothing);
    FILL_IN(end_of_input, do_nothing);
    FILL_IN(stopping, do_nothing);
    FILL_IN(stopped, do_nothing);
    FILL_IN(unused, go_unused);
    FILL_IN(not_connected, give_up);
    FILL_IN(is_urgent, say_no);
    FILL_IN(holds_input, hold_nothing);
}

/*
 * Two threads may make the first two handlers of a table at once. What is complete is not written
 * any more, so whoever calls a handler takes no lock.
 */
const struct input_handler_verbs *input_handler_complete(struct input_handler_verbs *verbs)
{
    static struct mutex lock = {PTHREAD_MUTEX_INITIALIZER};
    mutex_lock(&lock);
    fill_in(verbs);
    unsigned traits = traits_of(verbs);
    if (verbs->traits != traits)
        verbs->traits = traits;
    mutex_unlock(&lock);
    return verbs;
}
