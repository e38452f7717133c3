/*
 * An in-memory store that speaks redis' protocol.
 *
 * All that clients share is touched in one strand only, so it needs no lock. A client's handler
 * looks where requests end in what has come; as many as are whole are a batch, and a batch is one
 * message of the strand's group (strand_group.h). The strand carries it out and sends the answers.
 * If one of them has to wait, for a list or for a client that does not read, the rest of the batch
 * is kept, and the connection holds until it is done.
 *
 * So what a client has under way is one batch, its answers come in order, and one that has ended
 * its half gets the answers to all that it has sent.
 *
 * Interface:
 * - A batch is a message to the framework: its counters count batches.
 */
#include "common/apps/store/store_parts.h"

#include "common/base/clock.h"
#include "common/base/options.h"
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

/* Says why the client's bytes are no request: so it is closed. */
static void reply_fault(struct store_client *client, const char *fault)
{
    store_reply_error(&client->store->reply, "ERR Protocol error: %s", fault);
    client->is_closed = true;
}

/* Carries out the request with which these bytes begin. Returns the number of its bytes. */
static size_t carry_out_next(struct store_client *client, struct message bytes) NO_LOCK_HELD
{
    struct store *store = client->store;
    struct request_reader reader = {0};
    size_t length = bytes.length;
    if (client->reader.fault[0] != '\0') {
        reply_fault(client, client->reader.fault);
        return length;
    }
    request_find(&reader, bytes, &length);
    if (request_split((struct message){bytes.data, length}, store->line, &store->words))
        store_carry_out(client, store->words.count, store->words.at, &store->reply);
    else
        reply_fault(client, "unbalanced quotes in request");
    return length;
}

/* Returns how many bytes of a batch have been carried out: less than all if an answer waits. */
static size_t carry_out(struct store_client *client, struct message batch) NO_LOCK_HELD
{
    struct store_reply *reply = &client->store->reply;
    size_t done = 0;
    store_reply_begin(reply, client->member.facade);
    while (done < batch.length && !client->is_closed && client->waits == NULL &&
           reply->result != OUTPUT_CHOKED)
        done += carry_out_next(client, (struct message){batch.data + done, batch.length - done});
    store_reply_send(reply);
    if (client->is_closed)
        channel_close(client->member.facade);
    return client->is_closed ? batch.length : done;
}

/* There may be no rest: then it still waits for a list, or to be read. */
static bool keep_rest(struct store_client *client, struct message rest)
{
    client->rest = malloc(rest.length + 1);
    if (client->rest == NULL) {
        channel_close(client->member.facade);
        return false;
    }
    memcpy(client->rest, rest.data, rest.length);
    client->length = rest.length;
    client->done = 0;
    return true;
}

static void forget_rest(struct store_client *client)
{
    free(client->rest);
    client->rest = NULL;
}

static bool said(struct strand_group *group, struct strand_member *member,
                 struct message batch) NO_LOCK_HELD
{
    struct store_client *client = client_of(member);
    (void)group;
    size_t done = carry_out(client, batch);
    if (done == batch.length && client->waits == NULL)
        return true;
    return !keep_rest(client, (struct message){batch.data + done, batch.length - done});
}

/* It waits no more, or there is room for answers. */
static void work(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct store_client *client = container_of(post, struct store_client, again);
    (void)facade;
    if (client->rest != NULL && client->waits == NULL) {
        struct message rest = {client->rest + client->done, client->length - client->done};
        client->done += carry_out(client, rest);
        if (client->done == client->length && client->waits == NULL) {
            forget_rest(client);
            strand_member_go_on(&client->member);
        }
    }
    channel_release(client->member.facade);
}

static void drop(struct channel_post *post)
{
    channel_release(container_of(post, struct store_client, again)->member.facade);
}

/* The reference is for a client that ends before the post is run. */
void store_work_again(struct store_client *client)
{
    channel_retain(client->member.facade);
    if (!channel_post(strand_facade(&client->store->group.strand), &client->again))
        channel_release(client->member.facade);
}

static void joined(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    client->store = (struct store *)group;
    client->id = ++client->store->ids;
    store_forget_queue(client);
}

/* As in redis: a client that waits for a list has to stay. One whose answers wait gets them. */
static void gone(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    (void)group;
    if (client->waits == NULL)
        return;
    store_forget_wait(client);
    client->is_closed = true;
    channel_close(member->facade);
}

static void left(struct strand_group *group, struct strand_member *member)
{
    struct store_client *client = client_of(member);
    (void)group;
    store_forget_wait(client);
    store_untie_all(&client->subscriptions);
    store_forget_queue(client);
    forget_rest(client);
}

static const struct strand_group_verbs group_verbs = {
    .joined = joined, .said = said, .gone = gone, .left = left};

/* ---- A connection -------------------------------------------------------------------------- */

static struct store_client *client_behind(struct input_handler *self)
{
    return client_of(container_of(self, struct strand_member, handler));
}

/* Whole requests at the beginning of these bytes: a batch. */
static size_t find_batch(struct request_reader *reader, struct message bytes)
{
    size_t all = 0;
    size_t length;
    for (int i = 0; i < BATCH_REQUESTS && all < BATCH_BYTES; i++) {
        struct message rest = {bytes.data + all, bytes.length - all};
        if (request_find(reader, rest, &length) != REQUEST_WHOLE)
            break;
        all += length;
    }
    return all;
}

/* What is no request is found again when those before it have been answered. */
static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct store_client *client = client_behind(self);
    struct input_queue *input = channel_input(facade);
    size_t length = input_queue_length(input);
    if (length == 0 || length < client->reader.wants)
        return FRAMING_INCOMPLETE;
    size_t batch = find_batch(&client->reader, input_queue_peek(input, length));
    if (batch > 0)
        client->reader.fault[0] = '\0';
    else if (client->reader.fault[0] != '\0')
        batch = 1;
    else
        return FRAMING_INCOMPLETE;
    *message = input_queue_dequeue(input, batch);
    return FRAMING_MESSAGE;
}

static void started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    client_behind(self)->again = (struct channel_post){.run = work, .dropped = drop};
    strand_member_started(self, facade);
}

/* There is room for more answers. Before the first batch nobody waits for it. */
static void drained(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    store_work_again(client_behind(self));
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

static const struct input_handler_verbs verbs = {
    .handle_input = strand_member_handle_input,
    .next_message = next_message,
    .refuse_input = refuse_input,
    .drained = drained,
    .left = strand_member_left,
    .started = started,
    .stopping = strand_member_stopping,
};

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
    store->server = server;
    store->limit = chosen_memory;
    store->opened = clock_ms();
    store->last_ready = &store->ready;
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
