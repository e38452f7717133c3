/*
 * Commands on values that are bytes.
 */
#include "common/apps/store/store_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Values -------------------------------------------------------------------------------- */

static struct message bytes_of(const struct store_string *string)
{
    return (struct message){string->bytes, string->length};
}

static size_t size_of(const struct store_string *string)
{
    return sizeof(*string) + string->room;
}

/* A copy of bytes, with room for so many. NULL without memory. */
static struct store_string *make_string(struct store *store, struct message bytes, size_t room)
{
    struct store_string *string = store_allocate(store, sizeof(*string) + room);
    if (string == NULL)
        return NULL;
    string->length = bytes.length;
    string->room = room;
    if (bytes.length > 0)
        memcpy(string->bytes, bytes.data, bytes.length);
    return string;
}

/*
 * Gives a key these bytes, whatever it had, or makes it; when it expires stays as it is. NULL
 * without memory: nothing has changed.
 */
static struct store_key *put(struct store *store, struct message name, struct message bytes)
{
    struct store_string *string = make_string(store, bytes, bytes.length);
    if (string == NULL)
        return NULL;
    struct store_key *key = store_find(store, name);
    if (key == NULL)
        key = store_add(store, name, STORE_STRING);
    if (key == NULL) {
        store_free(store, string, size_of(string));
        return NULL;
    }
    store_drop_value(store, key);
    key->type = STORE_STRING;
    key->string = string;
    return key;
}

void store_free_string(struct store *store, struct store_string *string)
{
    if (string != NULL)
        store_free(store, string, size_of(string));
}

/* The value, or that there is none. */
static void reply_value(struct store_call *call, const struct store_key *key)
{
    if (key == NULL)
        store_reply_text(call->reply, STORE_NULL);
    else
        store_reply_bulk(call->reply, bytes_of(key->string));
}

/* ---- SET ----------------------------------------------------------------------------------- */

/* What stands behind the value. */
struct set_options {
    bool only_new; /* NX */
    bool only_old; /* XX */
    bool get;
    bool keeps;     /* KEEPTTL */
    int64_t unit;   /* of the time: ms; 0: there is none */
    int64_t moment; /* when it expires, if there is one */
};

/* One word; for a time *i becomes the next one. False: it does not belong there. */
static bool parse_word(struct store_call *call, size_t *i, struct set_options *options,
                       const struct message **time)
{
    struct message word = call->words[*i];
    int64_t unit = store_word_is(word, "EX") ? 1000 : store_word_is(word, "PX");
    if (store_word_is(word, "NX") && !options->only_old) {
        options->only_new = true;
    } else if (store_word_is(word, "XX") && !options->only_new) {
        options->only_old = true;
    } else if (store_word_is(word, "GET")) {
        options->get = true;
    } else if (store_word_is(word, "KEEPTTL") && options->unit == 0) {
        options->keeps = true;
    } else if (unit > 0 && !options->keeps && (options->unit == 0 || options->unit == unit) &&
               *i + 1 < call->count) {
        options->unit = unit;
        *time = &call->words[++*i];
    } else {
        return false;
    }
    return true;
}

static bool parse_options(struct store_call *call, struct set_options *options)
{
    const struct message *time = NULL;
    *options = (struct set_options){0};
    for (size_t i = 3; i < call->count; i++) {
        if (!parse_word(call, &i, options, &time)) {
            store_reply_text(call->reply, STORE_SYNTAX);
            return false;
        }
    }
    return time == NULL || store_parse_lifetime(call, *time, options->unit, &options->moment);
}

/* Has it expire as the options say. False without memory. */
static bool set_expiry(struct store *store, struct store_key *key,
                       const struct set_options *options)
{
    if (options->unit > 0)
        return store_expire_at(store, key, options->moment);
    if (!options->keeps)
        store_persist(store, key);
    return true;
}

void store_do_set(struct store_call *call)
{
    struct set_options options;
    if (!parse_options(call, &options))
        return;
    struct store_key *key = store_find(call->store, call->words[1]);
    if (options.get && key != NULL && key->type != STORE_STRING) {
        store_reply_text(call->reply, STORE_WRONG_TYPE);
        return;
    }
    if (options.get)
        reply_value(call, key);
    if (key != NULL ? options.only_new : options.only_old) {
        if (!options.get)
            store_reply_text(call->reply, STORE_NULL);
        return;
    }
    key = put(call->store, call->words[1], call->words[2]);
    if (key != NULL && !set_expiry(call->store, key, &options)) {
        store_delete(call->store, key);
        key = NULL;
    }
    if (options.get)
        call->client->is_closed =
            key == NULL; /* it has an answer, which would say that it is set */
    else if (key == NULL)
        store_reply_text(call->reply, STORE_NO_MEMORY);
    else
        store_reply_text(call->reply, STORE_OK);
}

/* ---- Others that get and set --------------------------------------------------------------- */

void store_do_get(struct store_call *call)
{
    struct store_key *key;
    if (store_find_typed(call, call->words[1], STORE_STRING, &key))
        reply_value(call, key);
}

void store_do_getdel(struct store_call *call)
{
    struct store_key *key;
    if (!store_find_typed(call, call->words[1], STORE_STRING, &key))
        return;
    reply_value(call, key);
    if (key != NULL)
        store_delete(call->store, key);
}

void store_do_mget(struct store_call *call)
{
    store_reply_array(call->reply, call->count - 1);
    for (size_t i = 1; i < call->count; i++) {
        const struct store_key *key = store_find(call->store, call->words[i]);
        reply_value(call, key != NULL && key->type == STORE_STRING ? key : NULL);
    }
}

void store_do_mset(struct store_call *call)
{
    if (call->count % 2 == 0) {
        store_reply_arity(call);
        return;
    }
    for (size_t i = 1; i < call->count; i += 2) {
        struct store_key *key = put(call->store, call->words[i], call->words[i + 1]);
        if (key == NULL) {
            store_reply_text(call->reply, STORE_NO_MEMORY);
            return;
        }
        store_persist(call->store, key);
    }
    store_reply_text(call->reply, STORE_OK);
}

void store_do_strlen(struct store_call *call)
{
    struct store_key *key;
    if (store_find_typed(call, call->words[1], STORE_STRING, &key))
        store_reply_number(call->reply, key != NULL ? (int64_t)key->string->length : 0);
}

/* ---- APPEND -------------------------------------------------------------------------------- */

/* Room for so many bytes, and for as many again half, so that many appends cost few copies. */
static bool make_room(struct store *store, struct store_key *key, size_t length)
{
    if (length <= key->string->room)
        return true;
    bool is_tight = store->used + length * 2 > store->limit;
    struct store_string *larger =
        make_string(store, bytes_of(key->string), is_tight ? length : length + length / 2);
    if (larger == NULL)
        return false;
    store_free_string(store, key->string);
    key->string = larger;
    return true;
}

void store_do_append(struct store_call *call)
{
    struct message more = call->words[2];
    struct store_key *key;
    if (!store_find_typed(call, call->words[1], STORE_STRING, &key))
        return;
    size_t length = (key != NULL ? key->string->length : 0) + more.length;
    if (key != NULL && length > REQUEST_MAX) {
        store_reply_text(call->reply,
                         "-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n");
        return;
    }
    if (key == NULL ? put(call->store, call->words[1], more) == NULL
                    : !make_room(call->store, key, length)) {
        store_reply_text(call->reply, STORE_NO_MEMORY);
        return;
    }
    if (key != NULL && more.length > 0)
        memcpy(key->string->bytes + key->string->length, more.data, more.length);
    if (key != NULL)
        key->string->length = length;
    store_reply_number(call->reply, (int64_t)length);
}

/* ---- Numbers ------------------------------------------------------------------------------- */

static void add_to(struct store_call *call, int64_t more)
{
    struct store_key *key;
    int64_t number = 0;
    char text[24];
    if (!store_find_typed(call, call->words[1], STORE_STRING, &key))
        return;
    if (key != NULL && !request_number(bytes_of(key->string), &number)) {
        store_reply_text(call->reply, STORE_NO_INTEGER);
        return;
    }
    if (more > 0 ? number > INT64_MAX - more : number < INT64_MIN - more) {
        store_reply_text(call->reply, "-ERR increment or decrement would overflow\r\n");
        return;
    }
    int length = snprintf(text, sizeof(text), "%" PRId64, number + more);
    struct message bytes = {(const unsigned char *)text, (size_t)length};
    if (put(call->store, call->words[1], bytes) == NULL)
        store_reply_text(call->reply, STORE_NO_MEMORY);
    else
        store_reply_number(call->reply, number + more);
}

void store_do_incr(struct store_call *call)
{
    add_to(call, 1);
}

void store_do_decr(struct store_call *call)
{
    add_to(call, -1);
}

void store_do_incrby(struct store_call *call)
{
    int64_t more;
    if (request_number(call->words[2], &more))
        add_to(call, more);
    else
        store_reply_text(call->reply, STORE_NO_INTEGER);
}
