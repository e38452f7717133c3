/* Answers each line with the length of the longest part that it contains twice: slow work. */
#include "common/apps/application.h"
#include "common/server/channel_calls.h"

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
    search->client->total += search->longest;
    channel_printf(facade, "%zu bytes twice, %zu so far\n", search->longest, search->client->total);
    free(search);
}

/* Instead of found(): the client has gone. */
static void dropped(struct channel_task *task)
{
    free(container_of(task, struct search, task));
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
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

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

const struct application repeat_application = {
    .name = "repeat", .verbs = &verbs, .handler_size = sizeof(struct client)};
