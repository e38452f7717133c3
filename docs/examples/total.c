/* Answers each line with its bytes, and with those of all lines of the same client. */
#include "common/apps/application.h"

#include <assert.h>

struct client {
    struct input_handler handler;
    size_t total;
};
static_assert(offsetof(struct client, handler) == 0, "the framework begins it with a handler");

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct client *client = (struct client *)self;
    client->total += message.length;
    channel_printf(facade, "%zu bytes, %zu so far\n", message.length, client->total);
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application total_application = {
    .name = "total", .verbs = &verbs, .handler_size = sizeof(struct client)};
