/* A lock that clients take in turns: "lock" waits until it is free, and "unlock" gives it up. */
#include "common/base/lock.h"
#include "common/apps/application.h"
#include "common/server/channel_calls.h"

#include <string.h>

struct client {
    struct input_handler handler; /* first */
    struct channel_hold hold;
    struct channel_facade *facade;
    struct client *next; /* who came after it, and waits */
};

static struct mutex door;
static struct client *first GUARDED_BY(&door); /* has the lock; those behind it wait */

/* True: it has the lock at once. */
static bool stand_in_line(struct client *client) EXCLUDES(&door)
{
    mutex_lock(&door);
    struct client **last = &first;
    while (*last != NULL)
        last = &(*last)->next;
    *last = client;
    bool is_first = first == client;
    mutex_unlock(&door);
    return is_first;
}

/* Whoever is first now goes on, and is there as long as we have the door. */
static void leave_line(struct client *client) EXCLUDES(&door)
{
    mutex_lock(&door);
    bool had_it = first == client;
    struct client **place = &first;
    while (*place != NULL && *place != client)
        place = &(*place)->next;
    if (*place != NULL)
        *place = client->next;
    client->next = NULL;
    if (had_it && first != NULL)
        channel_go_on(first->facade, &first->hold);
    mutex_unlock(&door);
}

static void went_on(struct channel_hold *hold, struct channel_facade *facade)
{
    (void)hold;
    channel_printf(facade, "yours\n");
}

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade)
{
    struct client *client = (struct client *)self;
    client->facade = facade;
    client->hold.went_on = went_on;
    leave_line(client); /* a second "lock" is for its end */
    if (line.length < 4 || memcmp(line.data, "lock", 4) != 0)
        channel_printf(facade, "free\n");
    else if (stand_in_line(client))
        channel_printf(facade, "yours\n");
    else
        channel_hold(facade, &client->hold);
    return true;
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    leave_line((struct client *)self);
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input,
                                                 .stopping = stopping};

static void *start(struct server *server)
{
    (void)server;
    mutex_init(&door);
    return &door;
}

static void finish(void *data)
{
    mutex_destroy(data);
}

const struct application lock_application = {
    .name = "lock",
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
    .start = start,
    .finish = finish,
};
