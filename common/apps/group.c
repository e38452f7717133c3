#include "common/apps/group.h"

#include "common/base/container_of.h"

#include <assert.h>

enum {
    AT_A_TIME = 64, /* members that a send looks up while it holds the lock */
};

static struct group_member *member_of(struct list_link *link)
{
    return container_of(link, struct group_member, link);
}

void group_init(struct group *group)
{
    mutex_init(&group->lock);
    mutex_lock(&group->lock);
    list_init(&group->members);
    group->count = 0;
    mutex_unlock(&group->lock);
}

void group_destroy(struct group *group)
{
    assert(group_count(group) == 0);
    mutex_destroy(&group->lock);
}

void group_join(struct group *group, struct group_member *member, struct channel_facade *facade)
{
    assert(member->facade == NULL);
    channel_retain(facade);
    mutex_lock(&group->lock);
    member->facade = facade;
    list_insert_behind(&group->members, &member->link);
    group->count++;
    mutex_unlock(&group->lock);
}

void group_leave(struct group *group, struct group_member *member)
{
    struct channel_facade *facade = member->facade;
    if (facade == NULL)
        return;
    mutex_lock(&group->lock);
    member->facade = NULL;
    list_remove(&member->link);
    group->count--;
    mutex_unlock(&group->lock);
    channel_release(facade);
}

struct channel_facade *group_first(struct group *group, struct group_member **first)
{
    struct channel_facade *facade = NULL;
    mutex_lock(&group->lock);
    struct list_link *link = group->members.previous;
    for (; link != &group->members && facade == NULL; link = link->previous) {
        *first = member_of(link);
        facade = (*first)->facade; /* NULL is the place of a send */
    }
    if (facade != NULL)
        channel_retain(facade);
    mutex_unlock(&group->lock);
    return facade;
}

bool group_has(struct group *group, const struct group_member *member)
{
    mutex_lock(&group->lock);
    bool has = member->facade != NULL;
    mutex_unlock(&group->lock);
    return has;
}

size_t group_count(struct group *group)
{
    mutex_lock(&group->lock);
    size_t count = group->count;
    mutex_unlock(&group->lock);
    return count;
}

/*
 * A send keeps its place in the list by a link of its own, which is no member. So members can join
 * and leave while the lock is free, and those in front of the place have got the piece.
 */
static void begin(struct group *group, struct group_member *place)
{
    place->facade = NULL;
    mutex_lock(&group->lock);
    list_insert_behind(&group->members, &place->link);
    mutex_unlock(&group->lock);
}

/* The next facades behind the place, each with a reference. 0: that was all; the place is out. */
static size_t take_some(struct group *group, const struct group_member *except,
                        struct group_member *place, struct channel_facade *facades[])
{
    size_t count = 0;
    mutex_lock(&group->lock);
    struct list_link *next = place->link.next;
    list_remove(&place->link);
    for (; next != &group->members && count < AT_A_TIME; next = next->next) {
        struct group_member *member = member_of(next);
        if (member->facade == NULL || member == except)
            continue;
        channel_retain(member->facade);
        facades[count++] = member->facade;
    }
    if (count > 0)
        list_insert_behind(next->previous, &place->link);
    mutex_unlock(&group->lock);
    return count;
}

void group_send(struct group *group, const struct group_member *except, struct piece piece)
{
    struct group_member place;
    struct channel_facade *facades[AT_A_TIME];
    size_t count;
    begin(group, &place);
    while ((count = take_some(group, except, &place, facades)) > 0) {
        for (size_t i = 0; i < count; i++) {
            channel_enqueue(facades[i], piece);
            channel_release(facades[i]);
        }
    }
}
