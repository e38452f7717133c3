/*
 * Keys, their values, and when they expire.
 *
 * A key with a time to live has a timer of the strand, which deletes it. Nobody sweeps through the
 * keys, and while no time is over nothing happens at all. And whoever asks for a key compares its
 * moment with the clock, because timers can be late.
 */
#include "common/apps/store/store_parts.h"

#include "common/base/clock.h"

#include <stdlib.h>
#include <string.h>

void *store_allocate(struct store_call *call, size_t size)
{
    void *memory = malloc(size);
    if (memory == NULL)
        store_reply_text(call->reply, STORE_NO_MEMORY);
    else
        call->store->used += size;
    return memory;
}

void store_free(struct store *store, void *memory, size_t size)
{
    store->used -= memory != NULL ? size : 0;
    free(memory);
}

/* ---- Values -------------------------------------------------------------------------------- */

struct store_item *store_make_item(struct store_call *call, struct message bytes,
                                   struct message more)
{
    size_t length = bytes.length + more.length;
    struct store_item *item = store_allocate(call, sizeof(*item) + length);
    if (item == NULL)
        return NULL;
    *item = (struct store_item){.length = length};
    list_init(&item->link);
    if (bytes.length > 0)
        memcpy(item->bytes, bytes.data, bytes.length);
    if (more.length > 0)
        memcpy(item->bytes + bytes.length, more.data, more.length);
    return item;
}

void store_free_item(struct store *store, struct store_item *item)
{
    if (item == NULL)
        return;
    list_remove(&item->link);
    store_free(store, item, sizeof(*item) + item->length);
}

void store_insert(struct store_key *key, struct store_item *item, bool in_front)
{
    list_insert_behind(in_front ? &key->items : key->items.previous, &item->link);
    key->length++;
}

void store_clear(struct store *store, struct store_key *key)
{
    for (struct list_link *link = key->items.next; link != &key->items;) {
        struct store_item *item = store_item_of(link);
        link = link->next;
        store_free_item(store, item);
    }
    key->length = 0;
}

/* ---- Keys ---------------------------------------------------------------------------------- */

struct store_key *store_find(struct store *store, struct message name)
{
    struct table_node *node = table_find(&store->keys, name);
    if (node == NULL)
        return NULL;
    struct store_key *key = container_of(node, struct store_key, node);
    if (key->expires == 0 || key->expires >= clock_ms())
        return key;
    store_delete(store, key);
    return NULL;
}

bool store_has_type(struct store_call *call, const struct store_key *key, enum store_type type)
{
    if (key == NULL || key->type == type)
        return true;
    store_reply_text(call->reply, STORE_WRONG_TYPE);
    return false;
}

struct store_key *store_add(struct store_call *call, struct message name, enum store_type type)
{
    struct store_key *key = store_allocate(call, sizeof(*key) + name.length);
    if (key == NULL)
        return NULL;
    *key = (struct store_key){.type = type, .node.key = {key->name, name.length}};
    list_init(&key->items);
    memcpy(key->name, name.data, name.length);
    table_add(&call->store->keys, &key->node);
    return key;
}

void store_delete(struct store *store, struct store_key *key)
{
    store_persist(store, key);
    store_clear(store, key);
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
    struct store *store = container_of(strand_of(facade), struct store, group.strand);
    store_delete(store, container_of(timer, struct store_key, timer));
}

void store_expire_at(struct store *store, struct store_key *key, int64_t moment)
{
    key->expires = moment;
    key->timer.fired = expire;
    channel_set_timer(strand_facade(&store->group.strand), &key->timer, moment + 1 - clock_ms());
}

void store_persist(struct store *store, struct store_key *key)
{
    if (key->expires != 0)
        channel_cancel_timer(strand_facade(&store->group.strand), &key->timer);
    key->expires = 0;
}

bool store_parse_time(struct store_call *call, struct message word, int64_t unit, int64_t min,
                      int64_t *moment)
{
    const int64_t latest = INT64_MAX - ((int64_t)1 << 41); /* redis adds the time of day */
    int64_t time;
    if (!request_number(word, &time)) {
        store_reply_text(call->reply, STORE_NO_INTEGER);
        return false;
    }
    if (time < min || time > latest / unit) {
        store_refuse(call, "invalid expire time in", " command");
        return false;
    }
    *moment = clock_ms() + time * unit;
    return true;
}

/* ---- Commands ------------------------------------------------------------------------------ */

/* How many of them there are, or were. */
void store_do_exists(struct store_call *call)
{
    int64_t count = 0;
    for (size_t i = 1; i < call->count; i++) {
        struct store_key *key = store_find(call->store, call->words[i]);
        count += key != NULL;
        if (key != NULL && store_has_flag(call, STORE_DELETES))
            store_delete(call->store, key);
    }
    store_reply_number(call->reply, count);
}

void store_do_type(struct store_call *call)
{
    static const char *const names[] = {[STORE_STRING] = "+string\r\n", [STORE_LIST] = "+list\r\n"};
    store_reply_text(call->reply, call->key != NULL ? names[call->key->type] : "+none\r\n");
}

/* When EXPIRE changes something: if each of those that are asked for holds. NX, XX, GT, LT. */
enum { IF_STAYS = 1, IF_EXPIRES = 2, IF_LATER = 4, IF_EARLIER = 8 };

/* False: the client was told. */
static bool parse_conditions(struct store_call *call, unsigned *asked)
{
    static const char *const names[] = {"NX", "XX", "GT", "LT", NULL};
    *asked = 0;
    for (size_t i = 3; i < call->count; i++) {
        unsigned condition = store_option(call->words[i], names);
        *asked |= condition;
        if (condition == 0) {
            store_reply_error(call->reply, "ERR Unsupported option %.*s",
                              (int)call->words[i].length, (const char *)call->words[i].data);
            return false;
        }
    }
    const char *fault =
        (*asked & IF_STAYS) != 0 && *asked != IF_STAYS
            ? "-ERR NX and XX, GT or LT options at the same time are not compatible\r\n"
        : (*asked & IF_LATER) != 0 && (*asked & IF_EARLIER) != 0
            ? "-ERR GT and LT options at the same time are not compatible\r\n"
            : "";
    store_reply_text(call->reply, fault);
    return fault[0] == '\0';
}

void store_do_expire(struct store_call *call)
{
    int64_t unit = store_has_flag(call, STORE_IN_MS) ? 1 : 1000;
    struct store_key *key = call->key;
    unsigned asked;
    int64_t moment;
    if (!parse_conditions(call, &asked) ||
        !store_parse_time(call, call->words[2], unit, INT64_MIN / unit, &moment))
        return;
    int64_t expires = key != NULL && key->expires != 0 ? key->expires : INT64_MAX;
    unsigned held = (expires == INT64_MAX ? IF_STAYS : IF_EXPIRES) |
                    (moment > expires ? IF_LATER : 0u) | (moment < expires ? IF_EARLIER : 0u);
    bool changes = key != NULL && (asked & ~held) == 0;
    store_reply_number(call->reply, changes);
    if (changes && moment <= clock_ms())
        store_delete(call->store, key);
    else if (changes)
        store_expire_at(call->store, key, moment);
}

void store_do_persist(struct store_call *call)
{
    bool changes = call->key != NULL && call->key->expires != 0;
    store_reply_number(call->reply, changes);
    if (changes)
        store_persist(call->store, call->key);
}

/* -1: it stays; -2: it is not there. */
void store_do_ttl(struct store_call *call)
{
    int64_t unit = store_has_flag(call, STORE_IN_MS) ? 1 : 1000;
    int64_t left = call->key != NULL ? -1 : -2;
    if (call->key != NULL && call->key->expires != 0) {
        left = call->key->expires - clock_ms();
        left = left > 0 ? (left + unit / 2) / unit : 0;
    }
    store_reply_number(call->reply, left);
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
