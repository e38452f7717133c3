/*
 * An application that does what its lines say, so that tests of the contract (input_handler.h) can
 * see from outside what becomes of it in each stage. It is served as --app obedient by the servers in
 * build/contract, and says on standard error why each connection has ended.
 *
 *   big N           answers with N bytes
 *   fail N          the same, and handle_input returns false
 *   suspend         answers "suspended" and suspends input
 *   later N         suspends input, and N milliseconds later answers "later" and resumes it
 *   # anything      is never a whole message
 *   anything else   is answered with itself
 */
#include "common/apps/application.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/input_handler_calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct obedient {
    struct input_handler handler; /* first */
    struct channel_timer timer;
};

static unsigned char text[1 << 20];

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_begins_with(channel_input(facade), "#")
               ? FRAMING_INCOMPLETE
               : input_handler_next_line(facade, message);
}

static bool begins(struct message message, const char *word)
{
    return message.length > strlen(word) && memcmp(message.data, word, strlen(word)) == 0;
}

static void say(struct channel_facade *facade, const char *line)
{
    channel_enqueue(facade, piece_bytes(line, strlen(line)));
}

static void say_much(struct channel_facade *facade, const unsigned char *number)
{
    size_t length = strtoul((const char *)number, NULL, 10);
    channel_enqueue(facade, piece_bytes(text, length < sizeof(text) ? length : sizeof(text)));
}

static void resume(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    say(facade, "later\n");
    channel_resume(facade);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct obedient *obedient = container_of(self, struct obedient, handler);
    if (begins(message, "big ") || begins(message, "fail ")) {
        say_much(facade, message.data + (message.data[0] == 'b' ? 4 : 5));
        return message.data[0] == 'b';
    }
    if (begins(message, "later ")) {
        channel_suspend(facade);
        channel_set_timer(facade, &obedient->timer, atoi((const char *)message.data + 6));
    } else if (begins(message, "suspend")) {
        say(facade, "suspended\n");
        channel_suspend(facade);
    } else {
        channel_enqueue(facade, piece_copy(message));
    }
    return true;
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    fprintf(stderr, "ended: %s\n", end_reason_text(channel_end_reason(facade)));
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message, .handle_input = handle_input, .stopped = stopped};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct obedient *obedient = memory;
    (void)factory;
    obedient->handler.verbs = &verbs;
    obedient->timer.fired = resume;
    return &obedient->handler;
}

static struct input_handler_factory *open_obedient(struct server *server)
{
    static struct input_handler_factory factory = {.handler_size = sizeof(struct obedient),
                                                   .create = create};
    (void)server;
    memset(text, 'x', sizeof(text));
    return &factory;
}

static void close_obedient(struct input_handler_factory *factory)
{
    (void)factory;
}

/* The place that a stage leaves for one more application (application_choice.h). */
extern const struct application application_added;
const struct application application_added = {.name = "obedient",
                                              .needs = OFFERS_TIMERS,
                                              .open = open_obedient,
                                              .close = close_obedient};
