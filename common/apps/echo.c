/*
 * Line echo, as every stage serves it (Hitchens, "Trivial Echo-Back Handler Example").
 *
 * A handler here has nothing to remember from one line to the next, so one serves all connections.
 */
#include "application.h"

#include <stdlib.h>

struct echo {
    struct input_handler_factory factory;
    struct input_handler handler;
    struct server *server;
};

static struct echo *echo_of(struct input_handler *handler)
{
    return (struct echo *)(void *)((char *)handler - offsetof(struct echo, handler));
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    size_t max_line = echo_of(self)->server->settings.max_line;
    enum framing_result result = line_framing_next(channel_input(facade), max_line, message);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, server_too_long_text);
    return result;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    channel_enqueue(facade, service_process(&echo_of(self)->server->service, message));
    return true;
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, server_busy_text);
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
};

static struct input_handler *create(struct input_handler_factory *factory)
{
    return &((struct echo *)factory)->handler;
}

static struct input_handler_factory *echo_open(struct server *server,
                                               const struct application_choice *choice)
{
    (void)choice;
    struct echo *echo = malloc(sizeof(*echo));
    if (echo == NULL)
        return NULL;
    *echo = (struct echo){.factory.create = create, .handler.verbs = &verbs, .server = server};
    return &echo->factory;
}

static void echo_close(struct input_handler_factory *factory)
{
    free(factory);
}

const struct application application_echo = {
    .name = "echo",
    .open = echo_open,
    .close = echo_close,
};
