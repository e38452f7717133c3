/* As push.c, but the others are told half a second later: once for all lines that came till then.
 */
#include "common/apps/application.h"
#include "common/apps/group.h"
#include "common/server/channel_calls.h"

#include <stdatomic.h>
#include <stdio.h>

struct client {
    struct input_handler handler;
    struct group_member member;
    struct channel_timer timer;
    bool is_set; /* the timer: there is something that the others have not been told */
};

enum {
    PUSH_MS = 500,
};

static struct group clients;
static atomic_size_t total;

static void push(struct client *client)
{
    char text[64];
    int length = snprintf(text, sizeof(text), "%zu bytes in all\n", atomic_load(&total));
    client->is_set = false;
    group_send(&clients, &client->member, piece_bytes(text, (size_t)length));
}

static void fired(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)facade;
    push(container_of(timer, struct client, timer));
}

static void push_soon(struct client *client, struct channel_facade *facade)
{
    if (client->is_set)
        return;
    client->is_set = true;
    client->timer.fired = fired;
    channel_set_timer(facade, &client->timer, PUSH_MS);
}

static void push_now(struct client *client, struct channel_facade *facade)
{
    if (!client->is_set)
        return;
    channel_cancel_timer(facade, &client->timer);
    push(client);
}

/* An empty line asks for the push at once. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct client *client = container_of(self, struct client, handler);
    channel_printf(facade, "%zu bytes\n", message.length);
    atomic_fetch_add(&total, message.length);
    push_soon(client, facade);
    if (message.length == 1)
        push_now(client, facade);
    return true;
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    group_join(&clients, &container_of(self, struct client, handler)->member, facade);
}

/* The last lines of this client: later no timer fires. */
static void end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    push_now(container_of(self, struct client, handler), facade);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    group_leave(&clients, &container_of(self, struct client, handler)->member);
}

static const struct input_handler_verbs verbs = {
    .handle_input = handle_input,
    .started = started,
    .end_of_input = end_of_input,
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

const struct application calm_application = {
    .name = "calm",
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS,
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
    .start = start,
    .finish = finish,
};
