/*
 * Commands about the connection and the server.
 */
#include "common/apps/store/store_parts.h"

#include "common/base/clock.h"
#include "common/server/server.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- The connection ------------------------------------------------------------------------ */

/* What comes to a subscriber is an array, always. */
static void reply_pong_array(struct store_call *call)
{
    store_reply_array(call->reply, 2);
    store_reply_string(call->reply, "pong");
    if (call->count == 2)
        store_reply_bulk(call->reply, call->words[1]);
    else
        store_reply_string(call->reply, "");
}

void store_do_ping(struct store_call *call)
{
    if (call->count > 2)
        store_reply_arity(call);
    else if (call->client->subscribed > 0)
        reply_pong_array(call);
    else if (call->count == 2)
        store_reply_bulk(call->reply, call->words[1]);
    else
        store_reply_text(call->reply, "+PONG\r\n");
}

void store_do_echo(struct store_call *call)
{
    store_reply_bulk(call->reply, call->words[1]);
}

/* There is one database. */
void store_do_select(struct store_call *call)
{
    int64_t number;
    if (!request_number(call->words[1], &number))
        store_reply_no_integer(call);
    else if (number != 0)
        store_reply_error(call->reply, "ERR DB index is out of range");
    else
        store_reply_ok(call);
}

void store_do_quit(struct store_call *call)
{
    store_reply_ok(call);
    call->client->is_closed = true;
}

void store_do_reset(struct store_call *call)
{
    call->client->name[0] = '\0';
    call->client->subscribed = 0;
    store_untie_all(&call->client->subscriptions);
    store_forget_queue(call->client);
    store_reply_text(call->reply, "+RESET\r\n");
}

static void set_name(struct store_call *call)
{
    struct message name = call->words[2];
    for (size_t i = 0; i < name.length; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            store_reply_error(call->reply, "ERR Client names cannot contain spaces, newlines or "
                                           "special characters.");
            return;
        }
    }
    if (name.length >= STORE_NAME_SIZE) {
        store_reply_error(call->reply, "ERR Client names have at most %d characters",
                          STORE_NAME_SIZE - 1);
        return;
    }
    snprintf(call->client->name, STORE_NAME_SIZE, "%.*s", (int)name.length,
             (const char *)name.data);
    store_reply_ok(call);
}

void store_do_client(struct store_call *call)
{
    struct message what = call->words[1];
    const char *name = call->client->name;
    if (store_word_is(what, "ID") && call->count == 2)
        store_reply_number(call->reply, (int64_t)call->client->id);
    else if (store_word_is(what, "SETNAME") && call->count == 3)
        set_name(call);
    else if (!store_word_is(what, "GETNAME") || call->count != 2)
        store_reply_unknown_subcommand(call);
    else if (name[0] == '\0')
        store_reply_null(call->reply);
    else
        store_reply_string(call->reply, name);
}

/* ---- The server ---------------------------------------------------------------------------- */

/* A setting that a client may ask for, as redis calls it. */
struct setting {
    const char *name;
    char value[24];
};

static bool is_asked_for(const struct store_call *call, const char *name)
{
    bool is = false;
    for (size_t i = 2; i < call->count; i++)
        is = is || store_word_is(call->words[i], name) || store_word_is(call->words[i], "*");
    return is;
}

/* redis-benchmark asks for the first two. Nothing is written to a disk. */
void store_do_config(struct store_call *call)
{
    struct setting settings[] = {{"save", ""}, {"appendonly", "no"}, {"maxmemory", ""}};
    const size_t all = sizeof(settings) / sizeof(settings[0]);
    size_t count = 0;
    if (!store_word_is(call->words[1], "GET") || call->count < 3) {
        store_reply_unknown_subcommand(call);
        return;
    }
    snprintf(settings[2].value, sizeof(settings[2].value), "%zu", call->store->limit);
    for (size_t i = 0; i < all; i++)
        count += is_asked_for(call, settings[i].name);
    store_reply_array(call->reply, 2 * count);
    for (size_t i = 0; i < all; i++) {
        if (!is_asked_for(call, settings[i].name))
            continue;
        store_reply_string(call->reply, settings[i].name);
        store_reply_string(call->reply, settings[i].value);
    }
}

static size_t count_commands(void)
{
    size_t count = 0;
    while (store_commands[count].name != NULL)
        count++;
    return count;
}

/* Name and arity; then no flags, and no places of keys. */
static void reply_command(struct store_call *call, const struct store_command *command)
{
    store_reply_array(call->reply, 6);
    store_reply_string(call->reply, command->name);
    store_reply_number(call->reply, command->arity);
    store_reply_array(call->reply, 0);
    for (int i = 0; i < 3; i++)
        store_reply_number(call->reply, 0);
}

/* redis-cli asks for DOCS, and there are none: the array is empty. */
void store_do_command(struct store_call *call)
{
    size_t count = count_commands();
    bool is_list = call->count == 2 && store_word_is(call->words[1], "LIST");
    if (call->count == 2 && store_word_is(call->words[1], "COUNT")) {
        store_reply_number(call->reply, (int64_t)count);
    } else if (call->count == 1 || is_list) {
        store_reply_array(call->reply, count);
        for (size_t i = 0; i < count; i++) {
            if (is_list)
                store_reply_string(call->reply, store_commands[i].name);
            else
                reply_command(call, &store_commands[i]);
        }
    } else if (store_word_is(call->words[1], "DOCS")) {
        store_reply_array(call->reply, 0);
    } else {
        store_reply_unknown_subcommand(call);
    }
}

/* All sections, whichever are asked for. */
void store_do_info(struct store_call *call)
{
    const struct store *store = call->store;
    char text[512];
    snprintf(text, sizeof(text),
             "# Server\r\nserver_name:%s\r\nuptime_in_seconds:%" PRId64 "\r\n\r\n"
             "# Clients\r\nconnected_clients:%zu\r\n\r\n"
             "# Memory\r\nused_memory:%zu\r\nmaxmemory:%zu\r\n\r\n"
             "# Stats\r\ntotal_connections_received:%" PRIu64 "\r\n"
             "total_commands_processed:%" PRIu64 "\r\n\r\n"
             "# Keyspace\r\ndb0:keys=%zu,expires=%zu\r\n",
             store->server->name, (clock_ms() - store->opened) / 1000, store->group.count,
             store->used, store->limit, store->ids, store->commands, store->keys.count,
             store->expiring);
    store_reply_string(call->reply, text);
}
