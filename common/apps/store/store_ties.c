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
    if (name.length > 0)
        memcpy(topic->name, name.data, name.length);
    table_add(table, &topic->node);
    return topic;
}

void store_drop_topic(struct store *store, struct store_topic *topic)
{
    if (topic->count > 0 || topic->is_ready)
        return;
    table_remove(topic->table, &topic->node);
    store_free(store, topic, sizeof(*topic) + topic->node.key.length);
}

bool store_tie_to(struct store_call *call, struct table *table, struct message name,
                  struct store_tie **ties)
{
    struct store_topic *topic = store_find_topic(table, name);
    if (topic == NULL)
        topic = make_topic(call, table, name);
    struct store_tie *tie = topic != NULL ? store_allocate(call, sizeof(*tie)) : NULL;
    if (topic != NULL && tie == NULL)
        store_drop_topic(call->store, topic);
    if (tie == NULL)
        return false;
    *tie = (struct store_tie){.client = call->client, .topic = topic, .next = *ties, .place = ties};
    if (tie->next != NULL)
        tie->next->place = &tie->next;
    *ties = tie;
    list_append(&topic->ties, &tie->link);
    topic->count++;
    return true;
}

void store_untie(struct store_tie *tie)
{
    struct store *store = tie->client->store;
    *tie->place = tie->next;
    if (tie->next != NULL)
        tie->next->place = tie->place;
    list_remove(&tie->link);
    tie->topic->count--;
    store_drop_topic(store, tie->topic);
    store_free(store, tie, sizeof(*tie));
}

void store_untie_all(struct store_tie **ties)
{
    while (*ties != NULL)
        store_untie(*ties);
}
