/*
 * Who waits for a key, or has subscribed to a channel: a topic has ties to its clients, in the
 * order in which they came, and a client to its topics. A topic is there while it has a tie.
 */
#include "common/apps/store/store_parts.h"

#include <string.h>

struct store_topic *store_find_topic(const struct table *table, struct message name)
{
    struct table_node *node = table_find(table, name);
    return node != NULL ? container_of(node, struct store_topic, node) : NULL;
}

static struct store_topic *make_topic(struct store_call *call, struct table *table,
                                      struct message name)
{
    struct store_topic *topic = store_allocate(call, sizeof(*topic) + name.length);
    if (topic == NULL)
        return NULL;
    *topic = (struct store_topic){.table = table, .node.key = {topic->name, name.length}};
    list_init(&topic->ties);
    list_init(&topic->ready);
    memcpy(topic->name, name.data, name.length);
    table_add(table, &topic->node);
    return topic;
}

void store_drop_topic(struct store *store, struct store_topic *topic)
{
    if (topic->count > 0 || !list_is_empty(&topic->ready))
        return;
    table_remove(topic->table, &topic->node);
    store_free(store, topic, sizeof(*topic) + topic->node.key.length);
}

bool store_tie_to(struct store_call *call, struct table *table, struct message name)
{
    struct store_client *client = call->client;
    struct store_tie *tie = store_allocate(call, sizeof(*tie));
    struct store_topic *topic = tie != NULL ? store_find_topic(table, name) : NULL;
    if (tie != NULL && topic == NULL)
        topic = make_topic(call, table, name);
    if (topic == NULL) {
        store_free(call->store, tie, sizeof(*tie));
        return false;
    }
    *tie = (struct store_tie){.topic = topic, .client = client};
    list_append(&topic->ties, &tie->of_topic);
    list_append(&client->ties, &tie->of_client);
    topic->count++;
    client->tied++;
    return true;
}

void store_untie(struct store_tie *tie)
{
    struct store *store = tie->client->store;
    list_remove(&tie->of_topic);
    list_remove(&tie->of_client);
    tie->topic->count--;
    tie->client->tied--;
    store_drop_topic(store, tie->topic);
    store_free(store, tie, sizeof(*tie));
}

void store_untie_all(struct store_client *client)
{
    while (!list_is_empty(&client->ties))
        store_untie(container_of(client->ties.next, struct store_tie, of_client));
}
