/* A mistake to look at: it posts with a lock held, and its own function takes that lock. */
#include "common/apps/application.h"
#include "common/server/channel_calls.h"

#include <pthread.h>

struct client {
    struct input_handler handler; /* first */
    struct channel_facade *facade;
    struct channel_post news;
};

static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static struct client *last; /* who has said something, with a reference */

static void hear(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    channel_printf(facade, "somebody has said something\n");
}

/* Instead of hear(): the client has gone. */
static void forget(struct channel_post *post)
{
    (void)post;
    pthread_mutex_lock(&door); /* to take it out of a list, say */
    pthread_mutex_unlock(&door);
}

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    struct client *client = (struct client *)self;
    (void)line;
    client->facade = facade;
    client->news.run = hear;
    client->news.dropped = forget;
    channel_retain(facade);
    pthread_mutex_lock(&door);
    struct client *before = last;
    last = client;
    if (before != NULL)
        channel_post(before->facade, &before->news);
    pthread_mutex_unlock(&door);
    if (before != NULL)
        channel_release(before->facade);
    channel_printf(facade, "said\n");
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application held_application = {
    .name = "held", .needs = OFFERS_POST, .verbs = &verbs, .handler_size = sizeof(struct client)};
