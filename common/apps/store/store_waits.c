/*
 * BLPOP and BRPOP: an answer that waits for another client, or for a time to be over.
 *
 * Nothing waits but the client: its handler holds its messages, and it has ties to the keys. When a
 * request has put something into a list, those who wait for it are served behind that request, the
 * one that has waited longest first.
 */
#include "common/apps/store/store_parts.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sends the answer. What the client has sent behind its request is next. */
static void end_wait(struct store_client *client)
{
    store_reply_send(&client->store->reply);
    store_forget_wait(client);
    strand_member_go_on(&client->member);
}

void store_forget_wait(struct store_client *client)
{
    channel_cancel_timer(strand_facade(&client->store->group.strand), &client->timer);
    client->store->waiting -= client->waits;
    client->waits = false;
    store_untie_all(client);
}

static void wait_is_over(struct channel_timer *timer, struct channel_facade *facade)
{
    struct store_client *client = container_of(timer, struct store_client, timer);
    (void)facade;
    store_reply_begin(&client->store->reply, client->member.facade);
    store_reply_text(&client->store->reply, STORE_NULL_ARRAY);
    end_wait(client);
}

static void reply_pair(struct store *store, struct store_key *key, bool in_front)
{
    store_reply_array(&store->reply, 2);
    store_reply_bulk(&store->reply, key->node.key);
    store_reply_pop(store, key, in_front);
}

/* ---- Who is served ------------------------------------------------------------------------- */

void store_has_grown(struct store *store, const struct store_key *key)
{
    struct store_topic *topic = store_find_topic(&store->waits, key->node.key);
    if (topic != NULL && list_is_empty(&topic->ready))
        list_append(&store->ready, &topic->ready);
}

static void serve(struct store *store, struct store_topic *topic)
{
    struct store_key *key;
    while (topic->count > 0 && (key = store_find(store, topic->node.key)) != NULL &&
           key->type == STORE_LIST) {
        struct store_client *client =
            container_of(topic->ties.next, struct store_tie, of_topic)->client;
        store_reply_begin(&store->reply, client->member.facade);
        reply_pair(store, key, client->pops_in_front);
        end_wait(client);
    }
}

void store_serve(struct store *store)
{
    struct channel_facade *asking = store->reply.to;
    while (!list_is_empty(&store->ready)) {
        struct store_topic *topic = container_of(store->ready.next, struct store_topic, ready);
        serve(store, topic);
        list_remove(&topic->ready);
        store_drop_topic(store, topic);
        store_reply_begin(&store->reply, asking);
    }
}

/* ---- Commands ------------------------------------------------------------------------------ */

/* Seconds, with a fraction; as ms, rounded up. 0: without end. False: the client was told. */
static bool parse_timeout(struct store_call *call, struct message word, int64_t *timeout)
{
    char text[64] = "";
    char *end = text;
    long double ms = 0;
    errno = 0;
    if (word.length > 0 && word.length < sizeof(text) && !isspace(word.data[0])) {
        memcpy(text, word.data, word.length);
        ms = strtold(text, &end) * 1000;
    }
    if (end == text || end != text + word.length || isnan(ms) || errno == ERANGE) {
        store_reply_text(call->reply, "-ERR timeout is not a float or out of range\r\n");
        return false;
    }
    /* What is too long for redis has become negative there. */
    *timeout = ms < (long double)INT64_MAX ? (int64_t)ms : -1;
    *timeout += *timeout >= 0 && (long double)*timeout < ms;
    if (*timeout < 0)
        store_reply_text(call->reply, "-ERR timeout is negative\r\n");
    return *timeout >= 0;
}

static void wait(struct store_call *call, int64_t timeout)
{
    struct store_client *client = call->client;
    for (size_t i = 1; i + 1 < call->count; i++) {
        if (!store_tie_to(call, &call->store->waits, call->words[i])) {
            store_untie_all(client);
            return;
        }
    }
    client->waits = true;
    call->store->waiting++;
    client->pops_in_front = store_has_flag(call, STORE_IN_FRONT);
    client->timer.fired = wait_is_over;
    if (timeout > 0)
        channel_set_timer(strand_facade(&call->store->group.strand), &client->timer, timeout);
}

void store_do_pop_or_wait(struct store_call *call)
{
    int64_t timeout;
    if (!parse_timeout(call, call->words[call->count - 1], &timeout))
        return;
    for (size_t i = 1; i + 1 < call->count; i++) {
        struct store_key *key = store_find(call->store, call->words[i]);
        if (!store_has_type(call, key, STORE_LIST))
            return;
        if (key != NULL) {
            reply_pair(call->store, key, store_has_flag(call, STORE_IN_FRONT));
            return;
        }
    }
    if (call->is_in_exec)
        store_reply_text(call->reply, STORE_NULL_ARRAY);
    else
        wait(call, timeout);
}
