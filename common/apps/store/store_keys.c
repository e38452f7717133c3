/*
 * Keys, and when they expire.
 *
 * A key with a time to live has a timer of the strand, which deletes it. Nobody sweeps through the
 * keys, and while no time is over nothing happens at all. And whoever asks for a key compares its
 * moment with the clock, because timers can be late.
 */
#include "common/apps/store/store_parts.h"

#include "common/base/clock.h"

#include <stdlib.h>
#include <string.h>

void *store_allocate(struct store *store, size_t size)
{
    void *memory = malloc(size);
    store->used += memory != NULL ? size : 0;
    return memory;
}

void store_free(struct store *store, void *memory, size_t size)
{
    store->used -= memory != NULL ? size : 0;
    free(memory);
}

/* ---- Keys ---------------------------------------------------------------------------------- */

struct store_key *store_find(struct store *store, struct message name)
{
    struct table_node *node = table_find(&store->keys, name);
    if (node == NULL)
        return NULL;
    struct store_key *key = container_of(node, struct store_key, node);
    if (key->expiry == NULL || key->expiry->moment >= clock_ms())
        return key;
    store_delete(store, key);
    return NULL;
}

bool store_find_typed(struct store_call *call, struct message name, enum store_type type,
                      struct store_key **key)
{
    *key = store_find(call->store, name);
    if (*key == NULL || (*key)->type == type)
        return true;
    store_reply_text(call->reply, STORE_WRONG_TYPE);
    return false;
}

struct store_key *store_add(struct store *store, struct message name, enum store_type type)
{
    struct store_key *key = store_allocate(store, sizeof(*key) + name.length);
    if (key == NULL)
        return NULL;
    memset(key, 0, sizeof(*key));
    key->type = type;
    if (type == STORE_LIST)
        list_init(&key->list.elements);
    if (name.length > 0)
        memcpy(key->name, name.data, name.length);
    key->node.key = (struct message){key->name, name.length};
    table_add(&store->keys, &key->node);
    return key;
}

void store_drop_value(struct store *store, struct store_key *key)
{
    if (key->type == STORE_STRING)
        store_free_string(store, key->string);
    else
        store_free_list(store, &key->list);
    key->string = NULL;
}

void store_delete(struct store *store, struct store_key *key)
{
    store_persist(store, key);
    store_drop_value(store, key);
    table_remove(&store->keys, &key->node);
    store_free(store, key, sizeof(*key) + key->node.key.length);
}

void store_delete_all(struct store *store)
{
    for (size_t i = 0; i < store->keys.size; i++) {
        while (store->keys.slots[i] != NULL)
            store_delete(store, container_of(store->keys.slots[i], struct store_key, node));
    }
}

/* ---- Expiry -------------------------------------------------------------------------------- */

static void expire(struct channel_timer *timer, struct channel_facade *facade)
{
    struct store_expiry *expiry = container_of(timer, struct store_expiry, timer);
    (void)facade;
    store_delete(expiry->store, expiry->key);
}

bool store_expire_at(struct store *store, struct store_key *key, int64_t moment)
{
    struct store_expiry *expiry = key->expiry;
    if (expiry == NULL) {
        expiry = store_allocate(store, sizeof(*expiry));
        if (expiry == NULL)
            return false;
        *expiry = (struct store_expiry){.timer.fired = expire, .store = store, .key = key};
        key->expiry = expiry;
        store->expiring++;
    }
    expiry->moment = moment;
    channel_set_timer(strand_facade(&store->group.strand), &expiry->timer, moment + 1 - clock_ms());
    return true;
}

void store_persist(struct store *store, struct store_key *key)
{
    if (key->expiry == NULL)
        return;
    channel_cancel_timer(strand_facade(&store->group.strand), &key->expiry->timer);
    store_free(store, key->expiry, sizeof(*key->expiry));
    key->expiry = NULL;
    store->expiring--;
}

static void say_invalid(struct store_call *call)
{
    store_reply_error(call->reply, "ERR invalid expire time in '%s' command", call->command->name);
}

/* A time from now on, below 0 as well. */
static bool parse_moment(struct store_call *call, struct message word, int64_t unit,
                         int64_t *moment)
{
    const int64_t latest = INT64_MAX - ((int64_t)1 << 41); /* redis adds the time of day */
    int64_t time;
    if (!request_number(word, &time)) {
        store_reply_text(call->reply, STORE_NO_INTEGER);
        return false;
    }
    if (time > INT64_MAX / unit || time < INT64_MIN / unit || time * unit > latest) {
        say_invalid(call);
        return false;
    }
    *moment = clock_ms() + time * unit;
    return true;
}

bool store_parse_lifetime(struct store_call *call, struct message word, int64_t unit,
                          int64_t *moment)
{
    int64_t time;
    if (request_number(word, &time) && time <= 0) {
        say_invalid(call);
        return false;
    }
    return parse_moment(call, word, unit, moment);
}

/* ---- Commands ------------------------------------------------------------------------------ */

void store_do_del(struct store_call *call)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->count; i++) {
        struct store_key *key = store_find(call->store, call->words[i]);
        if (key == NULL)
            continue;
        store_delete(call->store, key);
        count++;
    }
    store_reply_number(call->reply, count);
}

void store_do_exists(struct store_call *call)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->count; i++)
        count += store_find(call->store, call->words[i]) != NULL;
    store_reply_number(call->reply, count);
}

void store_do_type(struct store_call *call)
{
    const struct store_key *key = store_find(call->store, call->words[1]);
    if (key == NULL)
        store_reply_text(call->reply, "+none\r\n");
    else
        store_reply_text(call->reply, key->type == STORE_STRING ? "+string\r\n" : "+list\r\n");
}

void store_do_expire(struct store_call *call)
{
    int64_t unit = store_has_flag(call, STORE_IN_MS) ? 1 : 1000;
    int64_t moment;
    if (call->count > 3) {
        store_reply_error(call->reply, "ERR Unsupported option %.*s", (int)call->words[3].length,
                          (const char *)call->words[3].data);
        return;
    }
    if (!parse_moment(call, call->words[2], unit, &moment))
        return;
    struct store_key *key = store_find(call->store, call->words[1]);
    if (key != NULL && moment <= clock_ms()) {
        store_delete(call->store, key);
    } else if (key != NULL && !store_expire_at(call->store, key, moment)) {
        store_reply_text(call->reply, STORE_NO_MEMORY);
        return;
    }
    store_reply_number(call->reply, key != NULL);
}

void store_do_persist(struct store_call *call)
{
    struct store_key *key = store_find(call->store, call->words[1]);
    bool changes = key != NULL && key->expiry != NULL;
    if (changes)
        store_persist(call->store, key);
    store_reply_number(call->reply, changes);
}

/* ms; -1: it stays; -2: it is not there. */
static int64_t time_left(struct store_call *call)
{
    const struct store_key *key = store_find(call->store, call->words[1]);
    if (key == NULL)
        return -2;
    if (key->expiry == NULL)
        return -1;
    int64_t left = key->expiry->moment - clock_ms();
    return left > 0 ? left : 0;
}

void store_do_ttl(struct store_call *call)
{
    int64_t left = time_left(call);
    bool is_whole = left < 0 || store_has_flag(call, STORE_IN_MS);
    store_reply_number(call->reply, is_whole ? left : left / 1000 + (left % 1000 >= 500));
}

void store_do_dbsize(struct store_call *call)
{
    store_reply_number(call->reply, (int64_t)call->store->keys.count);
}

void store_do_flushall(struct store_call *call)
{
    if (call->count > 1) {
        store_reply_text(call->reply, STORE_SYNTAX);
        return;
    }
    store_delete_all(call->store);
    store_reply_text(call->reply, STORE_OK);
}
