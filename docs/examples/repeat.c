/* Answers each line with the length of the longest part that it contains twice: slow work. */
#include "common/apps/application.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client {
    struct input_handler handler;
    size_t total;
};

struct search {
    struct channel_task task;
    struct client *client; /* not for the helper */
    size_t longest;        /* the result */
    size_t length;
    unsigned char line[];
};

static size_t max_line; /* set once, before there is a client */

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    enum framing_result result = line_framing_next(channel_input(facade), max_line, message);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(server_too_long_text));
    return result;
}

/* In a helper, beside everything else. */
static void search_line(struct channel_task *task)
{
    struct search *search = container_of(task, struct search, task);
    for (size_t i = 0; i < search->length; i++) {
        for (size_t j = i + 1; j < search->length; j++) {
            size_t same = 0;
            while (j + same < search->length && search->line[i + same] == search->line[j + same])
                same++;
            search->longest = same > search->longest ? same : search->longest;
        }
    }
}

/* Back in the client's own context. */
static void found(struct channel_task *task, struct channel_facade *facade)
{
    struct search *search = container_of(task, struct search, task);
    char text[64];
    search->client->total += search->longest;
    int length = snprintf(text, sizeof(text), "%zu bytes twice, %zu so far\n", search->longest,
                          search->client->total);
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    free(search);
}

/* Instead of found(): the client has gone. */
static void dropped(struct channel_task *task)
{
    free(container_of(task, struct search, task));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct search *search = calloc(1, sizeof(*search) + message.length);
    if (search == NULL)
        return false;
    search->task =
        (struct channel_task){.run = search_line, .completed = found, .dropped = dropped};
    search->client = container_of(self, struct client, handler);
    search->length = message.length;
    memcpy(search->line, message.data, message.length);
    channel_begin(facade, &search->task, CHANNEL_WAITS);
    return true;
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
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

static struct input_handler_factory *repeat_open(struct server *server)
{
    max_line = server->settings.max_line;
    return &factory;
}

const struct application repeat_application = {.name = "repeat", .open = repeat_open};
