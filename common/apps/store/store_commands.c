/*
 * All commands, and how a request is carried out.
 */
#include "common/apps/store/store_parts.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* In the order in which most clients want them: a name is looked for from the front. */
const struct store_command store_commands[] = {
    {"get", 2, store_do_get, 0, NULL},
    {"set", -3, store_do_set, STORE_GROWS, NULL},
    {"incr", 2, store_do_incr, STORE_GROWS, NULL},
    {"lpush", -3, store_do_push, STORE_GROWS | STORE_IN_FRONT, NULL},
    {"rpush", -3, store_do_push, STORE_GROWS, NULL},
    {"lpop", -2, store_do_pop, STORE_IN_FRONT, NULL},
    {"rpop", -2, store_do_pop, 0, NULL},
    {"mget", -2, store_do_mget, 0, NULL},
    {"mset", -3, store_do_mset, STORE_GROWS, NULL},
    {"del", -2, store_do_del, 0, NULL},
    {"exists", -2, store_do_exists, 0, NULL},
    {"expire", -3, store_do_expire, 0, NULL},
    {"pexpire", -3, store_do_expire, STORE_IN_MS, NULL},
    {"persist", 2, store_do_persist, 0, NULL},
    {"ttl", 2, store_do_ttl, 0, NULL},
    {"pttl", 2, store_do_ttl, STORE_IN_MS, NULL},
    {"type", 2, store_do_type, 0, NULL},
    {"getdel", 2, store_do_getdel, 0, NULL},
    {"append", 3, store_do_append, STORE_GROWS, NULL},
    {"strlen", 2, store_do_strlen, 0, NULL},
    {"decr", 2, store_do_decr, STORE_GROWS, NULL},
    {"incrby", 3, store_do_incrby, STORE_GROWS, NULL},
    {"decrby", 3, store_do_decrby, STORE_GROWS, NULL},
    {"llen", 2, store_do_llen, 0, NULL},
    {"lrange", 4, store_do_lrange, 0, NULL},
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
    {"config", -2, store_do_config, 0, "GET "},
    {"command", -1, store_do_command, 0, "COUNT LIST DOCS "},
    {"client", -2, store_do_client, 0, "ID SETNAME GETNAME "},
    {"reset", 1, store_do_reset, STORE_WHILE_SUBSCRIBED | STORE_AT_ONCE, NULL},
    {"quit", -1, store_do_quit, STORE_WHILE_SUBSCRIBED | STORE_AT_ONCE, NULL},
    {NULL, 0, NULL, 0, NULL},
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

enum { FAULT_SIZE = 512 };

static const char arity_text[] = "ERR wrong number of arguments for '%s' command";
static const char memory_text[] = "OOM command not allowed when used memory > 'maxmemory'.";

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
    store_reply_error(call->reply, "%s", memory_text);
}

/* As C's text: to its first NUL, and to so many bytes. */
static int shown_length(struct message word, int most)
{
    return (int)strnlen((const char *)word.data,
                        word.length < (size_t)most ? word.length : (size_t)most);
}

void store_reply_arity(struct store_call *call)
{
    store_reply_error(call->reply, arity_text, call->command->name);
}

static bool has_subcommand(const struct store_call *call)
{
    const char *at = call->command->subcommands;
    if (at == NULL || call->count < 2)
        return true;
    for (size_t length; *at != '\0'; at += length + 1) {
        length = strcspn(at, " ");
        if (call->words[1].length == length &&
            strncasecmp((const char *)call->words[1].data, at, length) == 0)
            return true;
    }
    return false;
}

static void say_unknown_subcommand(const struct store_call *call, char text[FAULT_SIZE])
{
    char name[32];
    size_t length = strlen(call->command->name);
    for (size_t i = 0; i <= length; i++)
        name[i] = (char)(call->command->name[i] - (i < length ? 'a' - 'A' : 0));
    snprintf(text, FAULT_SIZE, "ERR unknown subcommand '%.*s'. Try %s HELP.",
             shown_length(call->words[1], 128), (const char *)call->words[1].data, name);
}

void store_reply_unknown_subcommand(struct store_call *call)
{
    char text[FAULT_SIZE];
    say_unknown_subcommand(call, text);
    store_reply_error(call->reply, "%s", text);
}

/* Shows the beginning of the words, as redis does. */
static void say_unknown(const struct store_call *call, char text[FAULT_SIZE])
{
    enum { SHOWN = 128 };
    char shown[SHOWN + 8] = "";
    int length = 0;
    for (size_t i = 1; i < call->count && length < SHOWN; i++)
        length += snprintf(shown + length, sizeof(shown) - (size_t)length, "'%.*s' ",
                           shown_length(call->words[i], SHOWN - length),
                           (const char *)call->words[i].data);
    snprintf(text, FAULT_SIZE, "ERR unknown command '%.*s', with args beginning with: %s",
             shown_length(call->words[0], SHOWN), (const char *)call->words[0].data, shown);
}

/* ---- A request ----------------------------------------------------------------------------- */

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

/* Why it does not run; text[0] is NUL if it does. */
static void find_fault(const struct store_call *call, char text[FAULT_SIZE])
{
    const struct store_command *command = call->command;
    bool is_subscriber = call->client->subscribed > 0;
    text[0] = '\0';
    if (command == NULL)
        say_unknown(call, text);
    else if (!has_subcommand(call))
        say_unknown_subcommand(call, text);
    else if (!has_arity(call))
        snprintf(text, FAULT_SIZE, arity_text, command->name);
    else if (is_too_much(call))
        snprintf(text, FAULT_SIZE, "%s", memory_text);
    else if (is_subscriber && !store_has_flag(call, STORE_WHILE_SUBSCRIBED))
        snprintf(text, FAULT_SIZE,
                 "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "
                 "RESET are allowed in this context",
                 command->name);
}

/* Behind MULTI, EXEC will refuse; and EXEC itself ends it. */
static void refuse(struct store_call *call, const char *fault)
{
    call->client->is_aborted = true;
    if (call->command == NULL || call->command->run != store_do_exec) {
        store_reply_error(call->reply, "%s", fault);
        return;
    }
    store_reply_error(call->reply, "EXECABORT Transaction discarded because of: %s",
                      fault + strlen("ERR "));
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

void store_carry_out(struct store_client *client, size_t count, const struct message *words,
                     struct store_reply *reply)
{
    struct store_call call = {
        .store = client->store, .client = client, .reply = reply, .count = count, .words = words};
    char fault[FAULT_SIZE];
    if (count == 0)
        return;
    call.command = store_find_command(words[0]);
    if (call.command == NULL && is_http(words[0])) {
        client->is_closed = true;
        return;
    }
    call.store->commands++;
    find_fault(&call, fault);
    if (fault[0] != '\0')
        refuse(&call, fault);
    else if (client->is_in_multi && !store_has_flag(&call, STORE_AT_ONCE))
        store_queue(&call);
    else
        call.command->run(&call);
    store_serve(call.store);
}
