/*
 * All commands, and how a request is carried out.
 */
#include "common/apps/store/store_parts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* In the order in which most clients want them: a name is looked for from the front. */
const struct store_command store_commands[] = {
    {"get", 2, store_do_get, 0},
    {"set", -3, store_do_set, STORE_GROWS},
    {"incr", 2, store_do_incr, STORE_GROWS},
    {"lpush", -3, store_do_lpush, STORE_GROWS},
    {"rpush", -3, store_do_rpush, STORE_GROWS},
    {"lpop", -2, store_do_lpop, 0},
    {"rpop", -2, store_do_rpop, 0},
    {"mget", -2, store_do_mget, 0},
    {"mset", -3, store_do_mset, STORE_GROWS},
    {"del", -2, store_do_del, 0},
    {"exists", -2, store_do_exists, 0},
    {"expire", -3, store_do_expire, 0},
    {"pexpire", -3, store_do_pexpire, 0},
    {"persist", 2, store_do_persist, 0},
    {"ttl", 2, store_do_ttl, 0},
    {"pttl", 2, store_do_pttl, 0},
    {"type", 2, store_do_type, 0},
    {"getdel", 2, store_do_getdel, 0},
    {"append", 3, store_do_append, STORE_GROWS},
    {"strlen", 2, store_do_strlen, 0},
    {"decr", 2, store_do_decr, STORE_GROWS},
    {"incrby", 3, store_do_incrby, STORE_GROWS},
    {"decrby", 3, store_do_decrby, STORE_GROWS},
    {"llen", 2, store_do_llen, 0},
    {"lrange", 4, store_do_lrange, 0},
    {"ping", -1, store_do_ping, 0},
    {"echo", 2, store_do_echo, 0},
    {"select", 2, store_do_select, 0},
    {"dbsize", 1, store_do_dbsize, 0},
    {"flushall", -1, store_do_flushall, 0},
    {"info", -1, store_do_info, 0},
    {"config", -2, store_do_config, 0},
    {"command", -1, store_do_command, 0},
    {"client", -2, store_do_client, 0},
    {"reset", 1, store_do_reset, 0},
    {"quit", -1, store_do_quit, 0},
    {NULL, 0, NULL, 0},
};

bool store_word_is(struct message word, const char *name)
{
    return word.length == strlen(name) &&
           strncasecmp((const char *)word.data, name, word.length) == 0;
}

const struct store_command *store_find_command(struct message name)
{
    const struct store_command *command = store_commands;
    while (command->name != NULL && !store_word_is(name, command->name))
        command++;
    return command->name != NULL ? command : NULL;
}

/* ---- What several of them answer ----------------------------------------------------------- */

void store_reply_ok(struct store_call *call)
{
    store_reply_text(call->reply, "+OK\r\n");
}

void store_reply_wrong_type(struct store_call *call)
{
    store_reply_error(call->reply,
                      "WRONGTYPE Operation against a key holding the wrong kind of value");
}

void store_reply_syntax(struct store_call *call)
{
    store_reply_error(call->reply, "ERR syntax error");
}

void store_reply_no_integer(struct store_call *call)
{
    store_reply_error(call->reply, "ERR value is not an integer or out of range");
}

void store_reply_no_memory(struct store_call *call)
{
    store_reply_error(call->reply, "OOM command not allowed when used memory > 'maxmemory'.");
}

/* As C's text: to its first NUL, and to so many bytes. */
static int shown_length(struct message word, int most)
{
    return (int)strnlen((const char *)word.data,
                        word.length < (size_t)most ? word.length : (size_t)most);
}

void store_reply_arity(struct store_call *call)
{
    store_reply_error(call->reply, "ERR wrong number of arguments for '%s' command",
                      call->command->name);
}

void store_reply_unknown_subcommand(struct store_call *call)
{
    char name[32];
    size_t length = strlen(call->command->name);
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)(call->command->name[i] - (i < length ? 'a' - 'A' : 0));
    store_reply_error(call->reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                      shown_length(call->words[1], 128), (const char *)call->words[1].data, name);
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

/* ---- A request ----------------------------------------------------------------------------- */

/* Whether it would take more memory than the user gives. What is kept beside the words counts. */
static bool is_too_much(const struct store_call *call)
{
    size_t size = 0;
    if ((call->command->flags & STORE_GROWS) == 0)
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

void store_carry_out(struct store_client *client, size_t count, const struct message *words,
                     struct store_reply *reply)
{
    struct store_call call = {
        .store = client->store, .client = client, .reply = reply, .count = count, .words = words};
    if (count == 0)
        return;
    call.command = store_find_command(words[0]);
    call.store->commands++;
    if (call.command == NULL)
        reply_unknown(&call);
    else if (!has_arity(&call))
        store_reply_arity(&call);
    else if (is_too_much(&call))
        store_reply_no_memory(&call);
    else
        call.command->run(&call);
}
