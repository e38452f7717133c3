/*
 * Commands on lists.
 */
#include "common/apps/store/store_parts.h"

#include <string.h>

/* ---- Lists --------------------------------------------------------------------------------- */

static size_t size_of(const struct store_element *element)
{
    return sizeof(*element) + element->length;
}

static struct message bytes_of(const struct store_element *element)
{
    return (struct message){element->bytes, element->length};
}

/* A copy of bytes. NULL without memory. */
static struct store_element *make_element(struct store *store, struct message bytes)
{
    struct store_element *element = store_allocate(store, sizeof(*element) + bytes.length);
    if (element == NULL)
        return NULL;
    *element = (struct store_element){.length = bytes.length};
    if (bytes.length > 0)
        memcpy(element->bytes, bytes.data, bytes.length);
    return element;
}

static struct store_element *element_of(struct list_link *link)
{
    return container_of(link, struct store_element, link);
}

static void push(struct store_list *list, struct store_element *element, bool in_front)
{
    list_insert_behind(in_front ? &list->elements : list->elements.previous, &element->link);
    list->length++;
}

static void drop(struct store *store, struct store_list *list, struct store_element *element)
{
    list_remove(&element->link);
    list->length--;
    store_free(store, element, size_of(element));
}

void store_free_list(struct store *store, struct store_list *list)
{
    while (!list_is_empty(&list->elements))
        drop(store, list, element_of(list->elements.next));
}

void store_reply_pop(struct store *store, struct store_key *key, bool in_front)
{
    struct store_list *list = &key->list;
    struct store_element *element =
        element_of(in_front ? list->elements.next : list->elements.previous);
    store_reply_bulk(&store->reply, bytes_of(element));
    drop(store, list, element);
    if (list->length == 0)
        store_delete(store, key);
}

/* ---- Commands ------------------------------------------------------------------------------ */

void store_do_push(struct store_call *call)
{
    struct store_key *key;
    if (!store_find_typed(call, call->words[1], STORE_LIST, &key))
        return;
    if (key == NULL)
        key = store_add(call->store, call->words[1], STORE_LIST);
    for (size_t i = 2; key != NULL && i < call->count; i++) {
        struct store_element *element = make_element(call->store, call->words[i]);
        if (element == NULL) {
            store_reply_text(call->reply, STORE_NO_MEMORY);
            if (key->list.length == 0)
                store_delete(call->store, key);
            return;
        }
        push(&key->list, element, store_has_flag(call, STORE_IN_FRONT));
    }
    if (key == NULL) {
        store_reply_text(call->reply, STORE_NO_MEMORY);
        return;
    }
    store_reply_number(call->reply, (int64_t)key->list.length);
    store_has_grown(call->store, key);
}

/* With a count the answer is an array, of all that there are at most. */
void store_do_pop(struct store_call *call)
{
    struct store_key *key;
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
    if (!store_find_typed(call, call->words[1], STORE_LIST, &key))
        return;
    if (key == NULL) {
        if (has_count)
            store_reply_text(call->reply, STORE_NULL_ARRAY);
        else
            store_reply_text(call->reply, STORE_NULL);
        return;
    }
    size_t pops = key->list.length < (uint64_t)count ? key->list.length : (size_t)count;
    if (has_count)
        store_reply_array(call->reply, pops);
    for (size_t i = 0; i < pops; i++)
        store_reply_pop(call->store, key, store_has_flag(call, STORE_IN_FRONT));
}

void store_do_llen(struct store_call *call)
{
    struct store_key *key;
    if (store_find_typed(call, call->words[1], STORE_LIST, &key))
        store_reply_number(call->reply, key != NULL ? (int64_t)key->list.length : 0);
}

/* The element with that number, from the end that is nearer. */
static struct list_link *element_at(struct store_list *list, size_t index)
{
    bool from_front = index < list->length / 2;
    struct list_link *link = &list->elements;
    for (size_t steps = from_front ? index + 1 : list->length - index; steps > 0; steps--)
        link = from_front ? link->next : link->previous;
    return link;
}

void store_do_lrange(struct store_call *call)
{
    struct store_key *key;
    int64_t from;
    int64_t to;
    if (!request_number(call->words[2], &from) || !request_number(call->words[3], &to)) {
        store_reply_text(call->reply, STORE_NO_INTEGER);
        return;
    }
    if (!store_find_typed(call, call->words[1], STORE_LIST, &key))
        return;
    if (key == NULL) {
        store_reply_array(call->reply, 0);
        return;
    }
    int64_t length = (int64_t)key->list.length;
    from = from < 0 ? from + length : from;
    to = to < 0 ? to + length : to;
    from = from < 0 ? 0 : from;
    to = to >= length ? length - 1 : to;
    size_t count = from <= to ? (size_t)(to - from) + 1 : 0;
    store_reply_array(call->reply, count);
    struct list_link *link = count > 0 ? element_at(&key->list, (size_t)from) : NULL;
    for (; count > 0; count--, link = link->next)
        store_reply_bulk(call->reply, bytes_of(element_of(link)));
}
