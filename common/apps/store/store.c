/*
 * An in-memory store that speaks redis' protocol.
 *
 * All that clients share is touched in one strand only: so it needs no lock. A handler looks where
 * requests end in what has come, copies as many as are whole, hands the batch to the strand, and
 * holds its messages. The strand carries the batch out, sends the answers, and lets the handler go
 * on. So the order of answers, what a client may have under way, and the end of a client that waits
 * need no further rule: a client has one batch under way, or none.
 *
 * Interface:
 * - A batch is a message to the framework: so counters count batches.
 * - A client that does not read its answers gets no more of its requests carried out: the batch
 *   stops where its output is choked, and goes on when that has drained.
 * - What was read before a client ended its half is answered; then the connection closes.
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

static const char no_memory[] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
static const char busy[] = "-ERR server busy\r\n";

static size_t chosen_memory;

static struct store_client *client_of(struct input_handler *handler)
{
    return container_of(handler, struct store_client, handler);
}

/* ---- In the strand ------------------------------------------------------------------------- */

static void end_batch(struct store_client *client)
{
    free(client->batch);
    client->batch = NULL;
    client->length = 0;
    client->done = 0;
}

/* The answers have been sent. One that is closed is not let go on. */
static void go_on(struct store_client *client)
{
    end_batch(client);
    if (client->is_closed)
        channel_close(client->facade);
    else
        channel_go_on(client->facade, &client->hold);
}

/* Says why the client's bytes are no request: so it is closed. */
static void reply_fault(struct store_client *client, const char *fault, struct store_reply *reply)
{
    store_reply_error(reply, "ERR Protocol error: %s", fault);
    client->is_closed = true;
}

static void carry_out_next(struct store_client *client, struct store_reply *reply)
{
    struct request_words *words = &client->store->words;
    unsigned char *request = client->batch + client->done;
    struct request_reader reader = {0};
    size_t length = 0;
    if (client->reader.fault[0] != '\0') {
        reply_fault(client, client->reader.fault, reply);
        return;
    }
    request_find(&reader, (struct message){request, client->length - client->done}, &length);
    client->done += length;
    if (request_split(request, length, words))
        store_carry_out(client, words->count, words->at, reply);
    else
        reply_fault(client, "unbalanced quotes in request", reply);
}

/* Carries out what there is of a batch, as far as the client reads the answers. */
static void work(struct channel_post *post, struct channel_facade *facade)
{
    struct store_client *client = container_of(post, struct store_client, work);
    struct store_reply *reply = &client->store->reply;
    (void)facade;
    if (client->batch == NULL)
        return;
    store_reply_begin(reply, client->facade);
    while (client->done < client->length && !client->is_closed && reply->result != OUTPUT_CHOKED)
        carry_out_next(client, reply);
    store_reply_send(reply);
    if (client->done == client->length || client->is_closed)
        go_on(client);
}

static void come(struct channel_post *post, struct channel_facade *facade)
{
    struct store_client *client = container_of(post, struct store_client, came);
    (void)facade;
    client->store->clients++;
    client->id = ++client->store->ids;
}

/* Its connection has ended. */
static void leave(struct channel_post *post, struct channel_facade *facade)
{
    struct store_client *client = container_of(post, struct store_client, gone);
    (void)facade;
    client->store->clients--;
    end_batch(client);
    channel_release(client->facade);
}

/* The strand has closed before the server served: nobody has come. */
static void drop(struct channel_post *post)
{
    (void)post;
}

/* ---- A connection -------------------------------------------------------------------------- */

static void post(struct store_client *client, struct channel_post *post) NO_LOCK_HELD
{
    channel_post(strand_facade(&client->store->strand), post);
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct store_client *client = client_of(self);
    client->store = application_data(self);
    client->facade = facade;
    client->came = (struct channel_post){.run = come, .dropped = drop};
    client->work = (struct channel_post){.run = work, .dropped = drop};
    client->gone = (struct channel_post){.run = leave, .dropped = drop};
    channel_retain(facade);
}

static void started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    post(client_of(self), &client_of(self)->came);
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
    struct store_client *client = client_of(self);
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

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    struct store_client *client = client_of(self);
    client->batch = malloc(message.length);
    if (client->batch == NULL) {
        channel_enqueue(facade, piece_bytes(no_memory, sizeof(no_memory) - 1));
        return false;
    }
    memcpy(client->batch, message.data, message.length);
    client->length = message.length;
    channel_hold(facade, &client->hold);
    post(client, &client->work);
    return true;
}

/* There is room for more answers. */
static void drained(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    post(client_of(self), &client_of(self)->work);
}

/* A client that sends no more gets the answers to what it has sent. */
static void left(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
}

static void stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    post(client_of(self), &client_of(self)->gone);
}

/* Instead of a batch, if no worker takes it. The other requests of the client would get its answer.
 */
static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, piece_bytes(busy, sizeof(busy) - 1));
    channel_close(facade);
}

static const struct input_handler_verbs verbs = {
    .handle_input = handle_input,
    .next_message = next_message,
    .refuse_input = refuse_input,
    .drained = drained,
    .left = left,
    .starting = starting,
    .started = started,
    .stopping = stopping,
};

/* ---- The application ----------------------------------------------------------------------- */

static void finish(void *data)
{
    struct store *store = data;
    store_delete_all(store);
    table_close(&store->keys);
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
    if (!table_open(&store->keys) || !strand_open(&store->strand, server, NULL)) {
        table_close(&store->keys);
        free(store);
        return NULL;
    }
    return store;
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

const struct application store_application = {
    .name = "store",
    .needs = OFFERS_STRANDS,
    .idle_timeout = "0",
    .output_cap = "33554432",
    .options = options,
    .verbs = &verbs,
    .handler_size = sizeof(struct store_client),
    .max_message = REQUEST_MAX,
    .start = start,
    .finish = finish,
};
