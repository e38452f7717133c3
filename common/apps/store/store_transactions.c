/*
 * MULTI and EXEC: requests that are queued, and then carried out together. In a strand that is no
 * more than a loop: nobody else is in the store meanwhile.
 */
#include "common/apps/store/store_parts.h"

#include <string.h>

/* A copy of a request: its words, and behind these their bytes. */
struct store_queued {
    struct store_queued *next;
    size_t size;
    const struct store_command *command;
    size_t count;
    struct message words[];
};

void store_forget_queue(struct store_client *client)
{
    while (client->queue != NULL) {
        struct store_queued *queued = client->queue;
        client->queue = queued->next;
        store_free(client->store, queued, queued->size);
    }
    client->last_queued = &client->queue;
    client->queued = 0;
    client->is_in_multi = false;
    client->is_aborted = false;
}

void store_queue(struct store_call *call)
{
    struct store_client *client = call->client;
    size_t size = sizeof(struct store_queued) + call->count * sizeof(struct message);
    for (size_t i = 0; i < call->count; i++)
        size += call->words[i].length;
    bool has_room = call->store->used + size <= call->store->limit;
    struct store_queued *queued = has_room ? store_allocate(call, size) : NULL;
    if (!has_room)
        store_reply_text(call->reply, STORE_NO_MEMORY);
    if (queued == NULL) {
        client->is_aborted = true;
        return;
    }
    *queued = (struct store_queued){.size = size, .command = call->command, .count = call->count};
    unsigned char *bytes = (unsigned char *)&queued->words[call->count];
    for (size_t i = 0; i < call->count; i++) {
        memcpy(bytes, call->words[i].data, call->words[i].length);
        queued->words[i] = (struct message){bytes, call->words[i].length};
        bytes += call->words[i].length;
    }
    *client->last_queued = queued;
    client->last_queued = &queued->next;
    client->queued++;
    store_reply_text(call->reply, "+QUEUED\r\n");
}

void store_do_multi(struct store_call *call)
{
    struct store_client *client = call->client;
    if (client->is_in_multi) {
        store_reply_text(call->reply, "-ERR MULTI calls can not be nested\r\n");
        return;
    }
    store_forget_queue(client);
    client->is_in_multi = true;
    store_reply_text(call->reply, STORE_OK);
}

void store_do_discard(struct store_call *call)
{
    if (!call->client->is_in_multi) {
        store_reply_text(call->reply, "-ERR DISCARD without MULTI\r\n");
        return;
    }
    store_forget_queue(call->client);
    store_reply_text(call->reply, STORE_OK);
}

void store_do_exec(struct store_call *call)
{
    struct store_client *client = call->client;
    if (!client->is_in_multi) {
        store_reply_text(call->reply, "-ERR EXEC without MULTI\r\n");
        return;
    }
    if (client->is_aborted) {
        store_reply_text(call->reply,
                         "-EXECABORT Transaction discarded because of previous errors.\r\n");
        store_forget_queue(client);
        return;
    }
    store_reply_array(call->reply, client->queued);
    struct store_call each = *call;
    each.is_in_exec = true;
    for (const struct store_queued *queued = client->queue; queued != NULL; queued = queued->next) {
        each.command = queued->command;
        each.count = queued->count;
        each.words = queued->words;
        store_run(&each);
    }
    store_forget_queue(client);
}
