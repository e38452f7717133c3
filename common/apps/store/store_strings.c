/*
 * Commands on values that are bytes: such a key has one item.
 */
#include "common/apps/store/store_parts.h"

#include <inttypes.h>
#include <stdio.h>

/* NULL: there is none. A key that is being made has none yet. */
static struct message value_of(const struct store_key *key)
{
    if (key == NULL || key->length == 0)
        return (struct message){0};
    return store_bytes_of(store_item_of(key->items.next));
}

/*
 * Gives a key this item, whatever it had, or makes it (NULL); when it expires stays as it is. With
 * `gets` the answer is what it had. NULL without memory: nothing has changed, and the client was
 * told.
 */
static struct store_key *put(struct store_call *call, struct message name, struct store_key *key,
                             struct store_item *item, bool gets)
{
    if (item != NULL && key == NULL)
        key = store_add(call, name, STORE_STRING);
    if (item == NULL || key == NULL) {
        store_free_item(call->store, item);
        return NULL;
    }
    if (gets)
        store_reply_bulk(call->reply, value_of(key));
    store_clear(call->store, key);
    key->type = STORE_STRING;
    store_insert(key, item, true);
    return key;
}

/* ---- SET ----------------------------------------------------------------------------------- */

/* As their names are in parse_options(). */
enum { SET_NX = 1, SET_XX = 2, SET_GET = 4, SET_KEEPTTL = 8, SET_EX = 16, SET_PX = 32 };

/* Whether two or more of these are there. */
static bool exclude(unsigned options)
{
    return (options & (options - 1)) != 0;
}

/* *moment is when it expires, set if EX or PX is there. False: the client was told. */
static bool parse_options(struct store_call *call, unsigned *options, int64_t *moment)
{
    static const char *const names[] = {"NX", "XX", "GET", "KEEPTTL", "EX", "PX", NULL};
    const struct message *time = NULL;
    *options = 0;
    for (size_t i = 3; i < call->count; i++) {
        unsigned option = store_option(call->words[i], names);
        bool has_time = (option & (SET_EX | SET_PX)) != 0;
        *options |= option;
        if (option == 0 || (has_time && ++i == call->count) ||
            exclude(*options & (SET_NX | SET_XX)) ||
            exclude(*options & (SET_KEEPTTL | SET_EX | SET_PX))) {
            store_reply_text(call->reply, STORE_SYNTAX);
            return false;
        }
        time = has_time ? &call->words[i] : time;
    }
    return time == NULL ||
           store_parse_time(call, *time, (*options & SET_EX) != 0 ? 1000 : 1, 1, moment);
}

void store_do_set(struct store_call *call)
{
    unsigned options;
    int64_t moment = 0;
    struct store_key *key = call->key;
    if (!parse_options(call, &options, &moment))
        return;
    bool gets = (options & SET_GET) != 0;
    if (gets && !store_has_type(call, key, STORE_STRING))
        return;
    if ((options & (key != NULL ? SET_NX : SET_XX)) != 0) {
        store_reply_bulk(call->reply, value_of(gets ? key : NULL));
        return;
    }
    key = put(call, call->words[1], key, store_make_item(call, call->words[2], (struct message){0}),
              gets);
    if (key == NULL)
        return;
    if (moment != 0)
        store_expire_at(call->store, key, moment);
    else if ((options & SET_KEEPTTL) == 0)
        store_persist(call->store, key);
    if (!gets)
        store_reply_text(call->reply, STORE_OK);
}

/* ---- Others -------------------------------------------------------------------------------- */

void store_do_get(struct store_call *call)
{
    store_reply_bulk(call->reply, value_of(call->key));
    if (call->key != NULL && store_has_flag(call, STORE_DELETES))
        store_delete(call->store, call->key);
}

void store_do_mget(struct store_call *call)
{
    store_reply_array(call->reply, call->count - 1);
    for (size_t i = 1; i < call->count; i++) {
        const struct store_key *key = store_find(call->store, call->words[i]);
        bool is_string = key != NULL && key->type == STORE_STRING;
        store_reply_bulk(call->reply, value_of(is_string ? key : NULL));
    }
}

void store_do_mset(struct store_call *call)
{
    if (call->count % 2 == 0) {
        store_reply_arity(call);
        return;
    }
    for (size_t i = 1; i < call->count; i += 2) {
        struct store_item *item = store_make_item(call, call->words[i + 1], (struct message){0});
        struct store_key *key =
            put(call, call->words[i], store_find(call->store, call->words[i]), item, false);
        if (key == NULL)
            return;
        store_persist(call->store, key);
    }
    store_reply_text(call->reply, STORE_OK);
}

void store_do_strlen(struct store_call *call)
{
    store_reply_number(call->reply, (int64_t)value_of(call->key).length);
}

void store_do_append(struct store_call *call)
{
    struct message value = value_of(call->key);
    struct message more = call->words[2];
    size_t length = value.length + more.length;
    if (length > REQUEST_MAX)
        store_reply_text(call->reply,
                         "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
    else if (put(call, call->words[1], call->key, store_make_item(call, value, more), false) !=
             NULL)
        store_reply_number(call->reply, (int64_t)length);
}

void store_do_incr(struct store_call *call)
{
    bool is_down = store_has_flag(call, STORE_DOWN);
    int64_t number = 0;
    int64_t more = 1;
    char text[24];
    const char *fault = NULL;
    if (call->count > 2 && !request_number(call->words[2], &more))
        fault = STORE_NO_INTEGER;
    else if (is_down && more == INT64_MIN)
        fault = "-ERR decrement would overflow\r\n";
    else if (call->key != NULL && call->key->type != STORE_STRING)
        fault = STORE_WRONG_TYPE;
    else if (call->key != NULL && !request_number(value_of(call->key), &number))
        fault = STORE_NO_INTEGER;
    else if (__builtin_add_overflow(number, is_down ? -more : more, &number))
        fault = "-ERR increment or decrement would overflow\r\n";
    if (fault != NULL) {
        store_reply_text(call->reply, fault);
        return;
    }
    int length = snprintf(text, sizeof(text), "%" PRId64, number);
    struct message bytes = {(const unsigned char *)text, (size_t)length};
    if (put(call, call->words[1], call->key, store_make_item(call, bytes, (struct message){0}),
            false) != NULL)
        store_reply_number(call->reply, number);
}
