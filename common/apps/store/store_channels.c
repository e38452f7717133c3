/*
 * Channels: what one client publishes, all that have subscribed get.
 */
#include "common/apps/store/store_parts.h"

#include "common/bytes/shared_message.h"

#include <stdio.h>
#include <string.h>

static struct store_tie *tie_in(struct store_topic *channel, const struct store_client *client)
{
    for (struct list_link *link = channel->ties.next; link != &channel->ties; link = link->next) {
        struct store_tie *tie = container_of(link, struct store_tie, link);
        if (tie->client == client)
            return tie;
    }
    return NULL;
}

/*
 * The client's tie to a channel; NULL: there is none. Of the client's channels and the channel's
 * clients the fewer are looked through: somebody who subscribes to 60,000 channels would hold up
 * all others if each of them was compared with those before.
 */
static struct store_tie *tie_to(struct store_client *client, struct message name)
{
    struct store_topic *channel = store_find_topic(&client->store->channels, name);
    struct store_tie *tie = client->subscriptions;
    if (channel == NULL || channel->count < client->subscribed)
        return channel != NULL ? tie_in(channel, client) : NULL;
    while (tie != NULL && tie->topic != channel)
        tie = tie->next;
    return tie;
}

static void reply_change(struct store_call *call, const char *what, const struct message *name)
{
    store_reply_array(call->reply, 3);
    store_reply_string(call->reply, what);
    if (name != NULL)
        store_reply_bulk(call->reply, *name);
    else
        store_reply_text(call->reply, STORE_NULL);
    store_reply_number(call->reply, (int64_t)call->client->subscribed);
}

void store_do_subscribe(struct store_call *call)
{
    struct store_client *client = call->client;
    for (size_t i = 1; i < call->count; i++) {
        if (tie_to(client, call->words[i]) == NULL) {
            if (!store_tie_to(call, &call->store->channels, call->words[i], &client->subscriptions))
                return;
            client->subscribed++;
        }
        reply_change(call, "subscribe", &call->words[i]);
    }
}

static void unsubscribe(struct store_call *call, struct store_tie *tie)
{
    struct message name = tie->topic->node.key;
    call->client->subscribed--;
    reply_change(call, "unsubscribe", &name);
    store_untie(tie);
}

void store_do_unsubscribe(struct store_call *call)
{
    struct store_client *client = call->client;
    if (call->count == 1 && client->subscriptions == NULL)
        reply_change(call, "unsubscribe", NULL);
    while (call->count == 1 && client->subscriptions != NULL)
        unsubscribe(call, client->subscriptions);
    for (size_t i = 1; i < call->count; i++) {
        struct store_tie *tie = tie_to(client, call->words[i]);
        if (tie != NULL)
            unsubscribe(call, tie);
        else
            reply_change(call, "unsubscribe", &call->words[i]);
    }
}

/* Once, for all of them. */
static struct shared_message *make_message(struct message channel, struct message text)
{
    char heads[2][64];
    int first =
        snprintf(heads[0], sizeof(heads[0]), "*3\r\n$7\r\nmessage\r\n$%zu\r\n", channel.length);
    int second = snprintf(heads[1], sizeof(heads[1]), "\r\n$%zu\r\n", text.length);
    const struct message parts[] = {{(unsigned char *)heads[0], (size_t)first},
                                    channel,
                                    {(unsigned char *)heads[1], (size_t)second},
                                    text,
                                    {(const unsigned char *)"\r\n", 2}};
    struct shared_message *message =
        shared_message_create((size_t)first + channel.length + (size_t)second + text.length + 2);
    size_t at = 0;
    for (size_t i = 0; message != NULL && i < sizeof(parts) / sizeof(parts[0]); i++) {
        memcpy(message->data + at, parts[i].data, parts[i].length);
        at += parts[i].length;
    }
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
    if (call->client->subscribed > 0)
        store_reply_send(call->reply); /* its own answers were first */
    for (const struct list_link *link = channel->ties.next; link != &channel->ties;
         link = link->next)
        channel_enqueue(container_of(link, struct store_tie, link)->client->member.facade,
                        piece_shared(message));
    shared_message_release(message);
    store_reply_number(call->reply, (int64_t)channel->count);
}
