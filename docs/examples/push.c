/* Answers each line with its bytes, and tells all other clients how many bytes there are in all. */
#include "common/apps/application.h"
#include "common/apps/group.h"
#include "common/base/container_of.h"
#include "common/server/server.h"

#include <stdatomic.h>
#include <stdio.h>

struct client {
    struct input_handler handler;
    struct group_member member;
};

static size_t max_line; /* set once, before there is a client */
static struct group clients;
static atomic_size_t total;

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    enum framing_result result = line_framing_next(channel_input(facade), max_line, message);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(server_too_long_text));
    return result;
}

static void push(const struct client *client)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%zu bytes in all\n", atomic_load(&total));
    group_send(&clients, &client->member, piece_bytes(text, (size_t)length));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%zu bytes\n", message.length);
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    atomic_fetch_add(&total, message.length);
    push(container_of(self, struct client, handler));
    return true;
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    group_join(&clients, &container_of(self, struct client, handler)->member, facade);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    group_leave(&clients, &container_of(self, struct client, handler)->member);
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .started = started,
    .stopping = stopping,
};

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

static struct input_handler_factory *push_open(struct server *server)
{
    max_line = server->settings.max_line;
    group_init(&clients);
    return &factory;
}

/* Every client has left. */
static void push_close(struct input_handler_factory *self)
{
    (void)self;
    group_destroy(&clients);
}

const struct application push_application = {
    .name = "push",
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE,
    .open = push_open,
    .close = push_close,
};
