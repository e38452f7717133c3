/*
 * All commands, and how a request is carried out.
 */
#include "common/apps/store/store_parts.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* In the order in which most clients want them: a name is looked for from the front. */
const struct store_command store_commands[] = {
    {"get", 2, store_do_get, STORE_ON_STRING, NULL},
    {"set", -3, store_do_set, STORE_GROWS | STORE_ON_KEY, NULL},
    {"incr", 2, store_do_incr, STORE_GROWS | STORE_ON_KEY, NULL},
    {"lpush", -3, store_do_push, STORE_GROWS | STORE_ON_LIST | STORE_IN_FRONT, NULL},
    {"rpush", -3, store_do_push, STORE_GROWS | STORE_ON_LIST, NULL},
    {"lpop", -2, store_do_pop, STORE_ON_KEY | STORE_IN_FRONT, NULL},
    {"rpop", -2, store_do_pop, STORE_ON_KEY, NULL},
    {"mget", -2, store_do_mget, 0, NULL},
    {"mset", -3, store_do_mset, STORE_GROWS, NULL},
    {"del", -2, store_do_exists, STORE_DELETES, NULL},
    {"exists", -2, store_do_exists, 0, NULL},
    {"expire", -3, store_do_expire, STORE_ON_KEY, NULL},
    {"pexpire", -3, store_do_expire, STORE_ON_KEY | STORE_IN_MS, NULL},
    {"persist", 2, store_do_persist, STORE_ON_KEY, NULL},
    {"ttl", 2, store_do_ttl, STORE_ON_KEY, NULL},
    {"pttl", 2, store_do_ttl, STORE_ON_KEY | STORE_IN_MS, NULL},
    {"type", 2, store_do_type, STORE_ON_KEY, NULL},
    {"getdel", 2, store_do_get, STORE_ON_STRING | STORE_DELETES, NULL},
    {"append", 3, store_do_append, STORE_GROWS | STORE_ON_STRING, NULL},
    {"strlen", 2, store_do_strlen, STORE_ON_STRING, NULL},
    {"decr", 2, store_do_incr, STORE_GROWS | STORE_ON_KEY | STORE_DOWN, NULL},
    {"incrby", 3, store_do_incr, STORE_GROWS | STORE_ON_KEY, NULL},
    {"decrby", 3, store_do_incr, STORE_GROWS | STORE_ON_KEY | STORE_DOWN, NULL},
    {"llen", 2, store_do_llen, STORE_ON_LIST, NULL},
    {"lrange", 4, store_do_lrange, STORE_ON_KEY, NULL},
    {"blpop", -3, store_do_pop_or_wait, STORE_IN_FRONT, NULL},
    {"brpop", -3, store_do_pop_or_wait, 0, NULL},
    {"publish", 3, store_do_publish, 0, NULL},
    {"subscribe", -2, store_do_subscribe, STORE_GROWS | STORE_WHILE_SUBSCRIBED, NULL},
    {"unsubscribe", -1, store_do_unsubscribe, STORE_WHILE_SUBSCRIBED, NULL},
    {"multi", 1, store_do_multi, STORE_AT_ONCE, NULL},
    {"exec", 1, store_do_exec, STORE_AT_ONCE, NULL},
    {"discard", 1, store_do_discard, STORE_AT_ONCE, NULL},
    {"ping", -1, store_do_ping, STORE_WHILE_SUBSCRIBED, NULL},
    {"echo", 2, store_do_echo, 0, NULL},
    {"select", 2, store_do_select, 0, NULL},
    {"dbsize", 1, store_do_dbsize, 0, NULL},
    {"flushall", -1, store_do_flushall, 0, NULL},
    {"info", -1, store_do_info, 0, NULL},
    {"config", 3, store_do_config_get, 0, "get"},
    {"config", -2, NULL, STORE_FAMILY, NULL},
    {"command", -2, store_do_command_docs, 0, "docs"},
    {"command", -2, store_do_command, 0, "list"},
    {"command", -1, store_do_command, STORE_FAMILY, NULL},
    {"client", 3, store_do_client_setname, 0, "setname"},
    {"client", 2, store_do_client_getname, 0, "getname"},
    {"client", -2, NULL, STORE_FAMILY, NULL},
    {"reset", 1, store_do_reset, STORE_WHILE_SUBSCRIBED | STORE_AT_ONCE, NULL},
    {"quit", -1, store_do_quit, STORE_WHILE_SUBSCRIBED | STORE_AT_ONCE, NULL},
    {NULL, 0, NULL, 0, NULL},
};

bool store_word_is(struct message word, const char *name)
{
    return word.length == strlen(name) &&
           strncasecmp((const char *)word.data, name, word.length) == 0;
}

unsigned store_option(struct message word, const char *const *options)
{
    for (unsigned bit = 1; *options != NULL; options++, bit *= 2) {
        if (store_word_is(word, *options))
            return bit;
    }
    return 0;
}

static const struct store_command *find_command(size_t count, const struct message *words)
{
    for (const struct store_command *command = store_commands; command->name != NULL; command++) {
        if (store_word_is(words[0], command->name) &&
            (command->second == NULL || (count > 1 && store_word_is(words[1], command->second))))
            return command;
    }
    return NULL;
}

/* ---- Why a request is not carried out ------------------------------------------------------ */

/* An EXEC that is refused is over. */
void store_refuse(struct store_call *call, const char *before, const char *behind)
{
    const struct store_command *command = call->command;
    bool is_exec = command->run == store_do_exec;
    bool has_second = command->second != NULL;
    store_reply_error(call->reply, "%s %s '%s%s%s'%s",
                      is_exec ? "EXECABORT Transaction discarded because of:" : "ERR", before,
                      command->name, has_second ? "|" : "", has_second ? command->second : "",
                      behind);
}

void store_reply_arity(struct store_call *call)
{
    store_refuse(call, "wrong number of arguments for", " command");
}

/* As C's text: to its first NUL, and to so many bytes. */
static int shown_length(struct message word, int most)
{
    return (int)strnlen((const char *)word.data,
                        word.length < (size_t)most ? word.length : (size_t)most);
}

/* Shows the beginning of the words, as redis does. */
static void reply_unknown(struct store_call *call)
{
    enum { SHOWN = 128 };
    char shown[SHOWN + 8] = "";
    int length = 0;
    for (size_t i = 1; i < call->count && length < SHOWN; i++)
        length += snprintf(shown + length, sizeof(shown) - (size_t)length, "'%.*s' ",
                           shown_length(call->words[i], SHOWN - length),
                           (const char *)call->words[i].data);
    store_reply_error(call->reply, "ERR unknown command '%.*s', with args beginning with: %s",
                      shown_length(call->words[0], SHOWN), (const char *)call->words[0].data,
                      shown);
}

static void reply_unknown_second(struct store_call *call)
{
    char name[16] = "";
    for (size_t i = 0; call->command->name[i] != '\0'; i++)
        name[i] = (char)toupper((unsigned char)call->command->name[i]);
    store_reply_error(call->reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                      shown_length(call->words[1], 128), (const char *)call->words[1].data, name);
}

/* Whether it would take more memory than the user gives. What is kept beside the words counts. */
static bool is_too_much(const struct store_call *call)
{
    size_t size = 0;
    if (!store_has_flag(call, STORE_GROWS))
        return false;
    for (size_t i = 1; i < call->count; i++)
        size += call->words[i].length + sizeof(struct store_key);
    return call->store->used + size > call->store->limit;
}

static bool has_arity(const struct store_call *call)
{
    int arity = call->command->arity;
    return arity < 0 ? call->count >= (size_t)-arity : call->count == (size_t)arity;
}

/* False: the client was told why not. */
static bool may_run(struct store_call *call)
{
    if (call->command == NULL)
        reply_unknown(call);
    else if (store_has_flag(call, STORE_FAMILY) && call->count > 1)
        reply_unknown_second(call);
    else if (!has_arity(call))
        store_reply_arity(call);
    else if (is_too_much(call))
        store_reply_text(call->reply, STORE_NO_MEMORY);
    else if (call->client->tied > 0 && !store_has_flag(call, STORE_WHILE_SUBSCRIBED))
        store_refuse(call, "Can't execute",
                     ": only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                     "in this context");
    else
        return true;
    return false;
}

/* ---- A request ----------------------------------------------------------------------------- */

/* Behind MULTI, EXEC will refuse; and EXEC itself ends it. */
static void spoil(const struct store_call *call)
{
    call->client->multi.is_aborted = true;
    if (call->command != NULL && call->command->run == store_do_exec)
        store_forget_queue(call->client);
}

/*
 * A page in somebody's browser may have it send a POST to a store that listens on its machine, and
 * lines of the body would be requests. So the first line of it, or the field that each request of
 * HTTP has, ends the connection, as with redis.
 */
static bool is_http(struct message name)
{
    return store_word_is(name, "post") || store_word_is(name, "host:");
}

bool store_read(struct store_call *call, struct message bytes)
{
    struct request_words *words = &call->store->words;
    struct request_reader reader = {0};
    call->request = bytes;
    if (request_find(&reader, bytes, words, &call->request.length) == REQUEST_BAD) {
        store_reply_error(call->reply, "ERR Protocol error: %s", reader.fault);
        call->client->is_closed = true;
        return false;
    }
    call->count = words->count;
    call->words = words->at;
    call->command = words->count > 0 ? find_command(words->count, words->at) : NULL;
    return true;
}

void store_run(struct store_call *call)
{
    if (store_has_flag(call, STORE_ON_KEY | STORE_ON_STRING | STORE_ON_LIST))
        call->key = store_find(call->store, call->words[1]);
    if ((!store_has_flag(call, STORE_ON_STRING) || store_has_type(call, call->key, STORE_STRING)) &&
        (!store_has_flag(call, STORE_ON_LIST) || store_has_type(call, call->key, STORE_LIST)))
        call->command->run(call);
}

size_t store_carry_out(struct store_client *client, struct message bytes)
{
    struct store *store = client->store;
    struct store_call call = {.store = store, .client = client, .reply = &store->reply};
    if (!store_read(&call, bytes) || call.count == 0)
        return call.request.length;
    if (call.command == NULL && is_http(call.words[0]))
        client->is_closed = true;
    else if (!may_run(&call))
        spoil(&call);
    else if (client->multi.is_open && !store_has_flag(&call, STORE_AT_ONCE))
        store_queue(&call);
    else
        store_run(&call);
    store_serve(store);
    return call.request.length;
}
