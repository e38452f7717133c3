/* Answers each line with its bytes, and with those of all lines of the same client. */
#include "common/apps/application.h"
#include "common/base/container_of.h"

#include <stdio.h>

struct client {
    struct input_handler handler;
    size_t total;
};

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct client *client = container_of(self, struct client, handler);
    char text[64];
    client->total += message.length;
    int length =
        snprintf(text, sizeof(text), "%zu bytes, %zu so far\n", message.length, client->total);
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct client *client = memory;
    (void)factory;
    client->handler.verbs = &verbs;
    return &client->handler;
}

static struct input_handler_factory factory = {
    .handler_size = sizeof(struct client),
    .create = create,
};

static struct input_handler_factory *total_open(struct server *server)
{
    (void)server;
    return &factory;
}

const struct application total_application = {.name = "total", .open = total_open};
