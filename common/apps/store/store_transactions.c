/*
 * MULTI and EXEC: requests that are queued, and then carried out together. In a strand that is no
 * more than a loop: nobody else is in the store meanwhile.
 */
#include "common/apps/store/store_parts.h"

#include <stdlib.h>
#include <string.h>

void store_forget_queue(struct store_client *client)
{
    store_free(client->store, client->multi.bytes, client->multi.length);
    client->multi = (struct store_multi){0};
}

/* The bytes are kept as they came, and read again by EXEC. */
void store_queue(struct store_call *call)
{
    struct store *store = call->store;
    struct store_multi *multi = &call->client->multi;
    struct message request = call->request;
    unsigned char *bytes = NULL;
    if (store->used + request.length <= store->limit)
        bytes = realloc(multi->bytes, multi->length + request.length);
    if (bytes == NULL) {
        multi->is_aborted = true;
        store_reply_text(call->reply, STORE_NO_MEMORY);
        return;
    }
    memcpy(bytes + multi->length, request.data, request.length);
    multi->bytes = bytes;
    multi->length += request.length;
    multi->count++;
    store->used += request.length;
    store_reply_text(call->reply, "+QUEUED\r\n");
}

void store_do_multi(struct store_call *call)
{
    if (call->client->multi.is_open) {
        store_reply_text(call->reply, "-ERR MULTI calls can not be nested\r\n");
        return;
    }
    call->client->multi = (struct store_multi){.is_open = true};
    store_reply_text(call->reply, STORE_OK);
}

void store_do_discard(struct store_call *call)
{
    if (!call->client->multi.is_open) {
        store_reply_text(call->reply, "-ERR DISCARD without MULTI\r\n");
        return;
    }
    store_forget_queue(call->client);
    store_reply_text(call->reply, STORE_OK);
}

static void carry_out_all(struct store_call *call, const struct store_multi *multi)
{
    struct store_call each = *call;
    size_t done = 0;
    each.is_in_exec = true;
    store_reply_array(call->reply, multi->count);
    while (done < multi->length) {
        store_read(&each, (struct message){multi->bytes + done, multi->length - done});
        store_run(&each);
        done += each.request.length;
    }
}

void store_do_exec(struct store_call *call)
{
    const struct store_multi *multi = &call->client->multi;
    if (!multi->is_open) {
        store_reply_text(call->reply, "-ERR EXEC without MULTI\r\n");
        return;
    }
    if (multi->is_aborted)
        store_reply_text(call->reply,
                         "-EXECABORT Transaction discarded because of previous errors.\r\n");
    else
        carry_out_all(call, multi);
    store_forget_queue(call->client);
}
