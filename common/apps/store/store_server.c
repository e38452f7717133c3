/*
 * Commands about the connection and the server.
 */
#include "common/apps/store/store_parts.h"

#include <stdio.h>
#include <string.h>

/* ---- The connection ------------------------------------------------------------------------ */

/* What comes to a subscriber is an array, always. */
void store_do_ping(struct store_call *call)
{
    const struct message nothing = {(const unsigned char *)"", 0};
    bool is_subscriber = call->client->tied > 0;
    if (call->count > 2) {
        store_reply_arity(call);
    } else if (call->count == 1 && !is_subscriber) {
        store_reply_text(call->reply, "+PONG\r\n");
    } else {
        if (is_subscriber)
            store_reply_text(call->reply, "*2\r\n$4\r\npong\r\n");
        store_reply_bulk(call->reply, call->count == 2 ? call->words[1] : nothing);
    }
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
        store_reply_text(call->reply, STORE_NO_INTEGER);
    else
        store_reply_text(call->reply, number == 0 ? STORE_OK : "-ERR DB index is out of range\r\n");
}

void store_do_quit(struct store_call *call)
{
    store_reply_text(call->reply, STORE_OK);
    call->client->is_closed = true;
}

void store_do_reset(struct store_call *call)
{
    call->client->name[0] = '\0';
    store_untie_all(call->client);
    store_forget_queue(call->client);
    store_reply_text(call->reply, "+RESET\r\n");
}

void store_do_client_setname(struct store_call *call)
{
    struct message name = call->words[2];
    bool is_name = name.length < STORE_NAME_SIZE;
    for (size_t i = 0; i < name.length; i++)
        is_name = is_name && name.data[i] > ' ' && name.data[i] <= '~';
    if (!is_name) {
        store_reply_text(call->reply, "-ERR Client names cannot contain spaces, newlines or "
                                      "special characters.\r\n");
        return;
    }
    snprintf(call->client->name, STORE_NAME_SIZE, "%.*s", (int)name.length,
             (const char *)name.data);
    store_reply_text(call->reply, STORE_OK);
}

void store_do_client_getname(struct store_call *call)
{
    if (call->client->name[0] == '\0')
        store_reply_text(call->reply, STORE_NULL);
    else
        store_reply_string(call->reply, call->client->name);
}

/* ---- The server ---------------------------------------------------------------------------- */

/* redis-benchmark asks for the first two. Nothing is written to a disk. */
void store_do_config_get(struct store_call *call)
{
    char limit[24];
    snprintf(limit, sizeof(limit), "%zu", call->store->limit);
    const char *value = store_word_is(call->words[2], "save")         ? ""
                        : store_word_is(call->words[2], "appendonly") ? "no"
                        : store_word_is(call->words[2], "maxmemory")  ? limit
                                                                      : NULL;
    store_reply_array(call->reply, value != NULL ? 2 : 0);
    if (value != NULL) {
        store_reply_bulk(call->reply, call->words[2]);
        store_reply_string(call->reply, value);
    }
}

/* COMMAND says of each its name and arity, then no flags, and no places of keys; LIST its name. */
void store_do_command(struct store_call *call)
{
    bool is_list = call->command->second != NULL;
    size_t count = 0;
    if (is_list && call->count > 2) {
        store_reply_text(call->reply, STORE_SYNTAX);
        return;
    }
    for (const struct store_command *each = store_commands; each->name != NULL; each++)
        count += each->second == NULL;
    store_reply_array(call->reply, count);
    for (const struct store_command *each = store_commands; each->name != NULL; each++) {
        if (each->second != NULL)
            continue;
        if (!is_list)
            store_reply_array(call->reply, 6);
        store_reply_string(call->reply, each->name);
        if (!is_list) {
            store_reply_number(call->reply, each->arity);
            store_reply_text(call->reply, "*0\r\n:0\r\n:0\r\n:0\r\n");
        }
    }
}

/* redis-cli asks for them when it starts, and there are none. */
void store_do_command_docs(struct store_call *call)
{
    store_reply_array(call->reply, 0);
}

/* All sections, whichever are asked for. */
void store_do_info(struct store_call *call)
{
    const struct store *store = call->store;
    char text[256];
    snprintf(text, sizeof(text),
             "# Clients\r\nconnected_clients:%zu\r\nblocked_clients:%zu\r\n\r\n"
             "# Memory\r\nused_memory:%zu\r\nmaxmemory:%zu\r\n\r\n"
             "# Keyspace\r\ndb0:keys=%zu\r\n",
             store->group.count, store->waiting, store->used, store->limit, store->keys.count);
    store_reply_string(call->reply, text);
}
