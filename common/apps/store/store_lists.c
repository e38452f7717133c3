/*
 * Commands on lists: such a key has an item for each element, and is deleted with the last one.
 */
#include "common/apps/store/store_parts.h"

void store_reply_pop(struct store *store, struct store_key *key, bool in_front)
{
    struct store_item *item = store_item_of(in_front ? key->items.next : key->items.previous);
    store_reply_bulk(&store->reply, store_bytes_of(item));
    store_free_item(store, item);
    if (--key->length == 0)
        store_delete(store, key);
}

void store_do_push(struct store_call *call)
{
    struct store_key *key = call->key;
    for (size_t i = 2; i < call->count; i++) {
        struct store_item *item = store_make_item(call, call->words[i], (struct message){0});
        if (item != NULL && key == NULL)
            key = store_add(call, call->words[1], STORE_LIST);
        if (item == NULL || key == NULL) {
            store_free_item(call->store, item);
            return;
        }
        store_insert(key, item, store_has_flag(call, STORE_IN_FRONT));
        store_has_grown(call->store, key);
    }
    store_reply_number(call->reply, key != NULL ? (int64_t)key->length : 0);
}

/* With a count the answer is an array, of all that there are at most. */
void store_do_pop(struct store_call *call)
{
    struct store_key *key = call->key;
    int64_t count = 1;
    bool has_count = call->count > 2;
    if (call->count > 3) {
        store_reply_arity(call);
        return;
    }
    if (has_count && (!request_number(call->words[2], &count) || count < 0)) {
        store_reply_text(call->reply, "-ERR value is out of range, must be positive\r\n");
        return;
    }
    if (!store_has_type(call, key, STORE_LIST))
        return;
    if (key == NULL) {
        store_reply_text(call->reply, has_count ? STORE_NULL_ARRAY : STORE_NULL);
        return;
    }
    size_t pops = key->length < (uint64_t)count ? key->length : (size_t)count;
    if (has_count)
        store_reply_array(call->reply, pops);
    for (; pops > 0; pops--)
        store_reply_pop(call->store, key, store_has_flag(call, STORE_IN_FRONT));
}

void store_do_llen(struct store_call *call)
{
    store_reply_number(call->reply, call->key != NULL ? (int64_t)call->key->length : 0);
}

/* The element with that number, from the end that is nearer. */
static const struct list_link *element_at(const struct store_key *key, size_t index)
{
    bool from_front = index < key->length / 2;
    const struct list_link *link = &key->items;
    for (size_t steps = from_front ? index + 1 : key->length - index; steps > 0; steps--)
        link = from_front ? link->next : link->previous;
    return link;
}

void store_do_lrange(struct store_call *call)
{
    const struct store_key *key = call->key;
    int64_t from;
    int64_t to;
    if (!request_number(call->words[2], &from) || !request_number(call->words[3], &to)) {
        store_reply_text(call->reply, STORE_NO_INTEGER);
        return;
    }
    if (!store_has_type(call, key, STORE_LIST))
        return;
    int64_t length = key != NULL ? (int64_t)key->length : 0;
    from = from < 0 ? from + length : from;
    to = to < 0 ? to + length : to;
    from = from < 0 ? 0 : from;
    to = to >= length ? length - 1 : to;
    size_t count = key != NULL && from <= to ? (size_t)(to - from) + 1 : 0;
    store_reply_array(call->reply, count);
    const struct list_link *link = count > 0 ? element_at(key, (size_t)from) : NULL;
    for (; count > 0; count--, link = link->next)
        store_reply_bulk(call->reply, store_bytes_of(store_item_of(link)));
}
