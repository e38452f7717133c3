/*
 * A group: connections that are sent the same things, such as all users of a chat.
 *
 * Interface:
 * - All calls are safe from any thread, and none waits for a peer. A handler joins in `started` or
 *   later, and leaves in `stopping` or `stopped` at the latest.
 * - The group keeps a reference to each member's facade. A member may end during a send: then its
 *   facade drops the message.
 * - group_send() takes the group's lock for 64 members at a time, and never calls a facade's
 *   enqueue under it. It needs no memory, so it cannot fail.
 * - What one thread sends reaches every member in that order. If two threads send at the same time,
 *   members may get the two messages in different orders.
 */
#ifndef COMMON_GROUP_H
#define COMMON_GROUP_H

#include "common/base/list.h"
#include "common/base/lock.h"
#include "common/server/channel_facade.h"

struct group {
    struct mutex lock;
    struct list_link members GUARDED_BY(&lock); /* the newest first */
    size_t count GUARDED_BY(&lock);
};

/** Embedded in what the application keeps for a connection. Starts as all zero: in no group. */
struct group_member {
    struct list_link link;
    struct channel_facade *facade; /* with a reference; NULL: no member */
};

void group_init(struct group *group);

/** Every member has to have left. */
void group_destroy(struct group *group);

/** From now on the member is sent what the group is sent. It must be in no group yet. */
void group_join(struct group *group, struct group_member *member, struct channel_facade *facade);

/**
 * A send that begins after this returns leaves the member out; one that is under way may still give
 * it its message. Nothing happens if it is in no group.
 */
void group_leave(struct group *group, struct group_member *member);

/**
 * The facade of the member that joined first, with a reference, which is the caller's to give back;
 * *first becomes the member, which stays in memory as long as the reference is held. NULL: there is
 * no member.
 */
struct channel_facade *group_first(struct group *group, struct group_member **first);

/** Whether it is a member at this moment. */
bool group_has(struct group *group, const struct group_member *member);

/** How many members there are at this moment. */
size_t group_count(struct group *group);

/**
 * Sends a piece to all members but one (NULL: to all). A member from the beginning of the call to
 * its end gets it exactly once; one that joins meanwhile does not get it. Of a shared
 * message the members' queues hold references, and the caller keeps its own.
 */
void group_send(struct group *group, const struct group_member *except, struct piece piece);

#endif
