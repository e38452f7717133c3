/*
 * An in-memory store that speaks redis' protocol.
 *
 * All that clients share is touched in one strand only, so it needs no lock. A client's handler
 * looks where requests end in what has come; as many as are whole are a batch, and a batch is one
 * message of the strand's group (strand_group.h). The strand carries it out and sends the answers.
 * If the client waits for a list, or does not read its answers, the strand stops in the middle. The
 * rest is still in the client's input, because a batch is taken out of it only when it is done.
 *
 * So what a client has under way is one batch, its answers come in order, and one that has ended
 * its half gets the answers to all that it has sent.
 *
 * Interface:
 * - A batch is a message to the framework: its counters count batches.
 */
#include "common/apps/store/store_parts.h"

#include "common/base/options.h"
#include "common/bytes/input_queue_more.h"
#include "common/server/server.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* A batch ends behind so many requests, or bytes: then the other clients get their turn. */
    BATCH_REQUESTS = 32,
    BATCH_BYTES = 65536,
};

static const char busy[] = "-ERR server busy\r\n";

static size_t chosen_memory;

/* ---- In the strand ------------------------------------------------------------------------- */

static struct store_client *client_of(struct strand_member *member)
{
    return container_of(member, struct store_client, member);
}

/*
 * Ends before the end of the batch if the client waits for a list, or if it does not read. What is
 * not done is still in its input, and comes again when it goes on.
 */
static bool said(struct strand_group *group, struct strand_member *member, struct message batch)
{
    struct store_client *client = client_of(member);
    struct store_reply *reply = &client->store->reply;
    (void)group;
    store_reply_begin(reply, member->facade);
    while (client->done < batch.length && !client->is_closed && !client->waits &&
           reply->result != OUTPUT_CHOKED)
        client->done += store_carry_out(
            client, (struct message){batch.data + client->done, batch.length - client->done});
    store_reply_send(reply);
    if (client->is_closed)
        channel_close(member->facade);
    return !client->waits;
}

static void joined(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    client->store = (struct store *)group;
    list_init(&client->ties);
}

/* As in redis: a client that waits for a list has to stay. */
static void gone(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    (void)group;
    store_forget_wait(client);
    client->is_closed = true;
    channel_close(member->facade);
}

static void left(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    (void)group;
    store_forget_wait(client);
    store_forget_queue(client);
}

static const struct strand_group_verbs group_verbs = {
    .joined = joined, .said = said, .gone = gone, .left = left};

/* ---- A connection -------------------------------------------------------------------------- */

static struct store_client *client_behind(struct input_handler *self)
{
    return client_of(container_of(self, struct strand_member, handler));
}

/* How many of these bytes are whole requests: a batch. All are, if the first of them is none. */
static size_t find_batch(struct request_reader *reader, struct message bytes)
{
    enum request_result result = REQUEST_WHOLE;
    size_t all = 0;
    for (int i = 0; i < BATCH_REQUESTS && all < BATCH_BYTES && result == REQUEST_WHOLE; i++) {
        struct request_reader next = {0};
        struct message rest = {bytes.data + all, bytes.length - all};
        size_t length;
        result = request_find(i == 0 ? reader : &next, rest, NULL, &length);
        all += result == REQUEST_WHOLE ? length : 0;
    }
    return all == 0 && result == REQUEST_BAD ? bytes.length : all;
}

/*
 * A batch stays in the input queue while the strand works on it, which says how much is done. So
 * what an answer keeps waiting is not copied: it is the beginning of the next batch.
 */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct store_client *client = client_behind(self);
    struct input_queue *input = channel_input(facade);
    input_queue_discard(input, client->done);
    client->done = 0;
    if (input_queue_is_empty(input))
        return FRAMING_INCOMPLETE;
    *message = input_queue_peek(input, input_queue_length(input));
    message->length = find_batch(&client->reader, *message);
    return message->length > 0 ? FRAMING_MESSAGE : FRAMING_INCOMPLETE;
}

/* If no worker takes a batch. The answers to what follows would be taken for its own. */
static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, piece_bytes(busy, sizeof(busy) - 1));
    channel_close(facade);
}

static const struct input_handler_verbs verbs = {.next_message = next_message,
                                                 .refuse_input = refuse_input};

/* ---- The application ----------------------------------------------------------------------- */

static void finish(void *data)
{
    struct store *store = data;
    store_delete_all(store);
    table_close(&store->keys);
    table_close(&store->waits);
    table_close(&store->channels);
    free(store);
}

static void *start(struct server *server)
{
    struct store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return NULL;
    store->limit = chosen_memory;
    list_init(&store->ready);
    if (table_open(&store->keys) && table_open(&store->waits) && table_open(&store->channels) &&
        strand_group_open(&store->group, server, &group_verbs))
        return store;
    finish(store);
    return NULL;
}

static void options(struct options *options)
{
    options_add(options, (struct option){.name = "--store-memory",
                                         .value = "BYTES",
                                         .default_text = "268435456",
                                         .help = "store: refuse to keep more than BYTES",
                                         .parse = option_parse_number,
                                         .target = &chosen_memory,
                                         .min = 65536,
                                         .max = SIZE_MAX / 4});
}

static const char *const defaults[] = {"--idle-timeout", "0", "--output-cap", "33554432", NULL};

const struct application store_application = {
    .name = "store",
    .needs = OFFERS_STRANDS,
    .defaults = defaults,
    .options = options,
    .verbs = &verbs,
    .handler_size = sizeof(struct store_client),
    .max_message = REQUEST_MAX,
    .start = start,
    .finish = finish,
};
