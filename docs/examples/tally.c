/*
 * Counts how often each line was said, by whomever: `? LINE` tells. The others come back as they
 * are.
 *
 * All clients share the counts, in one of four ways: one lock for all of them, or 16 locks, each
 * for the lines of one shard; or one strand, or 16 strands (docs/store.md).
 */
#include "common/apps/application.h"
#include "common/base/lock.h"
#include "common/base/options.h"
#include "common/server/channel_calls.h"
#include "common/server/server.h"
#include "common/server/strand.h"

#include <stdlib.h>
#include <string.h>

enum { SHARDS = 16, SLOTS = 1024, TEXT_MAX = 100 };

struct tally {
    struct tally *next;
    unsigned long times;
    size_t length;
    unsigned char text[TEXT_MAX];
};

struct shard {
    struct mutex lock;
    struct strand strand;
    struct tally *slots[SLOTS];
};

struct client {
    struct input_handler handler; /* first */
    struct channel_facade *facade;
    struct channel_hold hold;
    struct channel_post post;
    struct shard *shard;
    unsigned char copy[TEXT_MAX + 3]; /* of a line that waits: "? ", the text, and its end */
    size_t length;
};

static struct server *server_of_all;
static struct shard *shards;
static size_t shard_count;

/* ---- The counts: whoever calls these has the shard for itself -------------------------------- */

static bool is_question(struct message line)
{
    return line.length > 2 && memcmp(line.data, "? ", 2) == 0;
}

static struct message text_of(struct message line)
{
    size_t skipped = is_question(line) ? 2 : 0;
    size_t length = line.length - skipped;
    while (length > 0 && strchr("\r\n", line.data[skipped + length - 1]) != NULL)
        length--;
    return (struct message){line.data + skipped, length < TEXT_MAX ? length : TEXT_MAX};
}

static size_t hash_of(struct message text)
{
    size_t hash = 5381;
    for (size_t i = 0; i < text.length; i++)
        hash = hash * 33 + text.data[i];
    return hash;
}

/* NULL without memory. */
static struct tally *tally_of(struct shard *shard, struct message text)
{
    struct tally **place = &shard->slots[hash_of(text) / SHARDS % SLOTS];
    struct tally *tally = *place;
    while (tally != NULL &&
           (tally->length != text.length || memcmp(tally->text, text.data, text.length) != 0))
        tally = tally->next;
    if (tally == NULL && (tally = calloc(1, sizeof(*tally))) != NULL) {
        memcpy(tally->text, text.data, text.length);
        tally->length = text.length;
        tally->next = *place;
        *place = tally;
    }
    return tally;
}

/* Returns how often it was said so far. --work-us is what a costly command takes. */
static unsigned long count(struct shard *shard, struct message line)
{
    struct tally *tally = tally_of(shard, text_of(line));
    service_process(&server_of_all->service, line);
    if (tally == NULL)
        return 0;
    return is_question(line) ? tally->times : ++tally->times;
}

static void answer(struct channel_facade *facade, struct message line, unsigned long times)
{
    if (is_question(line))
        channel_printf(facade, "%lu\n", times);
    else
        channel_enqueue(facade, piece_copy(line));
}

static struct shard *shard_of(struct message line)
{
    return &shards[hash_of(text_of(line)) % shard_count];
}

/* ---- With locks ------------------------------------------------------------------------------ */

static bool count_with_lock(struct input_handler *self, struct message line,
                            struct channel_facade *facade)
{
    struct shard *shard = shard_of(line);
    (void)self;
    mutex_lock(&shard->lock);
    unsigned long times = count(shard, line);
    mutex_unlock(&shard->lock);
    answer(facade, line, times);
    return true;
}

/* ---- With strands ---------------------------------------------------------------------------- */

/* When it goes on, its next line may be posted before this returns. */
static void count_posted(struct channel_post *post, struct channel_facade *strand)
{
    struct client *client = container_of(post, struct client, post);
    struct channel_facade *facade = client->facade;
    struct message line = {client->copy, client->length};
    (void)strand;
    answer(facade, line, count(client->shard, line));
    channel_go_on(facade, &client->hold);
    channel_release(facade);
}

static void drop_posted(struct channel_post *post)
{
    channel_release(container_of(post, struct client, post)->facade);
}

/* Somebody is in the strand: that thread will count, and until then the client's next lines wait.
 */
static void post_it(struct client *client, struct message line,
                    struct channel_facade *facade) NO_LOCK_HELD
{
    client->facade = facade;
    client->post.run = count_posted;
    client->post.dropped = drop_posted;
    client->length = line.length < sizeof(client->copy) ? line.length : sizeof(client->copy);
    memcpy(client->copy, line.data, client->length);
    channel_retain(facade);
    channel_hold(facade, &client->hold);
    if (!channel_post(strand_facade(&client->shard->strand), &client->post))
        channel_release(facade);
}

static bool count_in_strand(struct input_handler *self, struct message line,
                            struct channel_facade *facade) NO_LOCK_HELD
{
    struct client *client = (struct client *)self;
    client->shard = shard_of(line);
    if (!strand_enter(&client->shard->strand)) {
        post_it(client, line, facade);
        return true;
    }
    unsigned long times = count(client->shard, line);
    strand_leave(&client->shard->strand);
    answer(facade, line, times);
    return true;
}

/* ---- Which of the four ----------------------------------------------------------------------- */

typedef bool handle_line(struct input_handler *self, struct message line,
                         struct channel_facade *facade);

static const struct way {
    const char *name;
    handle_line *handle;
    size_t shards;
} ways[] = {{"strand", count_in_strand, 1},
            {"strands", count_in_strand, SHARDS},
            {"lock", count_with_lock, 1},
            {"locks", count_with_lock, SHARDS}};

static const struct way *chosen_way;

static bool parse_way(const struct option *option, const char *text)
{
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strcmp(text, ways[i].name) == 0) {
            *(const struct way **)option->target = &ways[i];
            return true;
        }
    }
    return false;
}

static void add_options(struct options *options)
{
    options_add(options, (struct option){.name = "--sharing",
                                         .value = "WAY",
                                         .default_text = "strand",
                                         .help = "tally: lock, locks, strand or strands",
                                         .expects = "one of strand, strands, lock, locks",
                                         .parse = parse_way,
                                         .target = &chosen_way});
}

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    return chosen_way->handle(self, line, facade);
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input};

static void finish(void *data)
{
    (void)data;
    for (size_t i = 0; i < SHARDS; i++) {
        for (size_t slot = 0; slot < SLOTS; slot++) {
            while (shards[i].slots[slot] != NULL) {
                struct tally *tally = shards[i].slots[slot];
                shards[i].slots[slot] = tally->next;
                free(tally);
            }
        }
        mutex_destroy(&shards[i].lock);
    }
    free(shards);
}

static void *start(struct server *server)
{
    bool is_open = true;
    server_of_all = server;
    shard_count = chosen_way->shards;
    shards = calloc(SHARDS, sizeof(*shards));
    for (size_t i = 0; shards != NULL && i < SHARDS; i++) {
        mutex_init(&shards[i].lock);
        is_open = is_open && strand_open(&shards[i].strand, server, NULL);
    }
    if (shards != NULL && !is_open)
        finish(shards);
    return is_open ? shards : NULL;
}

const struct application tally_application = {
    .name = "tally",
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .options = add_options,
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
    .start = start,
    .finish = finish,
};
