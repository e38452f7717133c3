/* Answers each line with its bytes, and tells all other clients how many bytes there are in all. */
#include "common/apps/application.h"
#include "common/apps/group.h"

#include <stdatomic.h>
#include <stdio.h>

struct client {
    struct input_handler handler;
    struct group_member member;
};

static struct group clients;
static atomic_size_t total;

static void push(const struct client *client)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%zu bytes in all\n", atomic_load(&total));
    group_send(&clients, &client->member, piece_bytes(text, (size_t)length));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    channel_printf(facade, "%zu bytes\n", message.length);
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
    .handle_input = handle_input,
    .started = started,
    .stopping = stopping,
};

static void *start(struct server *server)
{
    (void)server;
    group_init(&clients);
    return &clients;
}

/* Every client has left. */
static void finish(void *data)
{
    group_destroy(data);
}

const struct application push_application = {
    .name = "push",
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE,
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
    .start = start,
    .finish = finish,
};
