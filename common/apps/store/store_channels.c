/*
 * Channels: what one client publishes, all that have subscribed get.
 */
#include "common/apps/store/store_parts.h"

#include "common/bytes/shared_message.h"

#include <stdio.h>
#include <string.h>

/*
 * The client's tie to a channel; NULL: there is none. Of the client's channels and the channel's
 * clients the fewer are looked through: somebody who subscribes to 60,000 channels would hold up
 * all others if each of them was compared with those before.
 */
static struct store_tie *tie_to(struct store_client *client, struct message name)
{
    struct store_topic *channel = store_find_topic(&client->store->channels, name);
    if (channel == NULL)
        return NULL;
    bool by_client = client->tied < channel->count;
    struct list_link *ties = by_client ? &client->ties : &channel->ties;
    for (struct list_link *link = ties->next; link != ties; link = link->next) {
        struct store_tie *tie = by_client ? container_of(link, struct store_tie, of_client)
                                          : container_of(link, struct store_tie, of_topic);
        if (tie->client == client && tie->topic == channel)
            return tie;
    }
    return NULL;
}

/* `count` is how many channels the client has now. */
static void reply_change(struct store_call *call, const char *what, struct message name,
                         size_t count)
{
    store_reply_array(call->reply, 3);
    store_reply_string(call->reply, what);
    store_reply_bulk(call->reply, name);
    store_reply_number(call->reply, (int64_t)count);
}

void store_do_subscribe(struct store_call *call)
{
    struct store_client *client = call->client;
    for (size_t i = 1; i < call->count; i++) {
        if (tie_to(client, call->words[i]) == NULL &&
            !store_tie_to(call, &call->store->channels, call->words[i]))
            return;
        reply_change(call, "subscribe", call->words[i], client->tied);
    }
}

static void unsubscribe(struct store_call *call, struct store_tie *tie)
{
    reply_change(call, "unsubscribe", tie->topic->node.key, call->client->tied - 1);
    store_untie(tie);
}

void store_do_unsubscribe(struct store_call *call)
{
    struct store_client *client = call->client;
    if (call->count == 1 && client->tied == 0)
        reply_change(call, "unsubscribe", (struct message){0}, 0);
    while (call->count == 1 && client->tied > 0)
        unsubscribe(call, container_of(client->ties.next, struct store_tie, of_client));
    for (size_t i = 1; i < call->count; i++) {
        struct store_tie *tie = tie_to(client, call->words[i]);
        if (tie != NULL)
            unsubscribe(call, tie);
        else
            reply_change(call, "unsubscribe", call->words[i], client->tied);
    }
}

/* Once, for all of them. */
static struct shared_message *make_message(struct message channel, struct message text)
{
    char head[64];
    char middle[32];
    size_t first =
        (size_t)snprintf(head, sizeof(head), "*3\r\n$7\r\nmessage\r\n$%zu\r\n", channel.length);
    size_t second = (size_t)snprintf(middle, sizeof(middle), "\r\n$%zu\r\n", text.length);
    struct shared_message *message =
        shared_message_create(first + channel.length + second + text.length + 2);
    if (message == NULL)
        return NULL;
    unsigned char *end = mempcpy(message->data, head, first);
    end = mempcpy(end, channel.data, channel.length);
    end = mempcpy(end, middle, second);
    end = mempcpy(end, text.data, text.length);
    memcpy(end, "\r\n", 2);
    return message;
}

/* A client that does not read is disconnected here, and leaves the channel later. */
void store_do_publish(struct store_call *call)
{
    const struct store_topic *channel = store_find_topic(&call->store->channels, call->words[1]);
    if (channel == NULL) {
        store_reply_number(call->reply, 0);
        return;
    }
    struct shared_message *message = make_message(call->words[1], call->words[2]);
    if (message == NULL) {
        store_reply_text(call->reply, STORE_NO_MEMORY);
        return;
    }
    if (call->client->tied > 0)
        store_reply_send(call->reply); /* its own answers were first */
    for (const struct list_link *link = channel->ties.next; link != &channel->ties;
         link = link->next)
        channel_enqueue(container_of(link, struct store_tie, of_topic)->client->member.facade,
                        piece_shared(message));
    shared_message_release(message);
    store_reply_number(call->reply, (int64_t)channel->count);
}
