/*
 * The group of a strand: connections whose messages are handled in a strand (strand.h), one at a
 * time. So what they share needs no lock, the members can be walked, and what is sent to several
 * comes to all of them in one order. (The members of group.h have no such order: two of their
 * handlers may send at the same time.)
 *
 * A server that numbers its clients' lines is no more than this:
 *
 *   static bool said(struct strand_group *group, struct strand_member *member, struct message line)
 *   {
 *       struct counter *counter = container_of(group, struct counter, group);
 *       counter->lines++;
 *       channel_printf(member->facade, "line %zu\n", counter->lines);
 *       return true;
 *   }
 *
 * Interface:
 * - An application gives `&strand_member_verbs` as its verbs, the size of a struct that begins with
 *   a strand_member as its handler_size, and a `start` that opens the group and returns it, or a
 *   struct that begins with it. It needs OFFERS_STRANDS and OFFERS_OUTPUT_FROM_ELSEWHERE. One that
 *   has more verbs of its own makes a table. What that leaves out of the four functions below is
 *   filled in. A `handle_input` or `started` of its own in the place has to call the one below, and
 *   is NO_LOCK_HELD, too. Behind a `left` or `stopping` of its own the one below is called in any
 *   case, so a member that has joined always leaves:
 *
 *   static const struct input_handler_verbs verbs = {.next_message = next_message,
 *                                                    .handle_input = strand_member_handle_input,
 *                                                    .started = strand_member_started,
 *                                                    .left = strand_member_left,
 *                                                    .stopping = strand_member_stopping};
 *
 *   A table for a factory of channel_connect(), or for channel_set_handler(), is used as it is: it
 *   needs all four, and a `stopping` of its own that does not call the one below keeps its member
 *   and the memory for good.
 *
 * - The verbs of the group are the strand's own calls: they come one at a time, see what those
 *   before them did, and may use all that belongs to the group and to any member. They may make
 *   the calls of any member's facade that any thread may make (channel_facade.h), and of the
 *   strand's facade its own: timers, tasks, connections.
 * - A member's messages are handled in their order, one at a time, and what is enqueued for it
 *   comes in that order too. If the strand is free, the call comes at once, in the member's own
 *   run, and costs two atomic steps. If not, the message is copied, the connection holds
 *   (channel_hold()), and whoever is in the strand makes the call and has it go on. So a member
 *   waits with one message at most, and its other bytes stay where they are.
 * - A member is in its connection's memory, which stays until `left` has returned.
 */
#ifndef COMMON_STRAND_GROUP_H
#define COMMON_STRAND_GROUP_H

#include "common/apps/application.h"
#include "common/base/list.h"
#include "common/server/strand.h"

struct strand_group;
struct strand_member;

/** What the group hears. Each may be NULL. */
struct strand_group_verbs {
    /** What its strand hears beside that: container_of(self, struct strand_group, strand). */
    struct strand_verbs strand;

    /** A connection has begun, and is a member from now on. */
    void (*joined)(struct strand_group *group, struct strand_member *member);

    /**
     * A message has come; its bytes are valid until this returns. False: its answer waits, and so
     * do the member's other messages, until strand_member_go_on(). NULL: the message is
     * dropped.
     */
    bool (*said)(struct strand_group *group, struct strand_member *member, struct message message);

    /**
     * A member whose answer waits has sent its last byte, or the server stops
     * (channel_end_reason()). NULL: its connection is closed. Once for each answer that waits.
     */
    void (*gone)(struct strand_group *group, struct strand_member *member);

    /**
     * Its connection ends, and it is no member any more. What is enqueued for it may still leave.
     * Nobody may keep the member's address. For each `joined` once.
     */
    void (*left)(struct strand_group *group, struct strand_member *member);
};

struct strand_group {
    struct strand strand;
    struct strand *runs_in; /* its own strand, or another group's */
    const struct strand_group_verbs *verbs;
    struct list_link members; /* the oldest first */
    size_t count;             /* how many that are */
};

/** What an application keeps for a connection begins with this. All zero at first. */
struct strand_member {
    struct input_handler handler;
    struct channel_facade *facade; /* from `joined` to `left` */
    struct strand_group *group;    /* may be set before; NULL: what `start` has returned */

    /* The strand's. */
    struct list_link link;
    uint8_t answer; /* of the message that came last */
    bool is_gone;   /* `gone` was called for it */

    /* From the connection to the strand, and back. */
    struct channel_post joining;
    struct channel_post saying;
    struct channel_post going;
    struct channel_post leaving;
    struct channel_hold hold;
    struct message message;
    unsigned char *copy; /* of its bytes; NULL: they are where they came */
    bool is_leaving;     /* `leaving` was posted */
};

/**
 * Opens a group and its strand. In the application's `start`, by the thread of main(). All else
 * that is in the struct of a group is left as it is. False: the stage offers no strands, or the
 * application has no room for its members, and the reason stands on standard error.
 */
bool strand_group_open(struct strand_group *group, struct server *server,
                       const struct strand_group_verbs *verbs);

/**
 * Opens a group whose verbs are calls of another group's strand, which is opened before: for
 * connections of another kind that share what those clients share. The application opens these by
 * channel_connect(), and sets the group of each when it makes the handler. The group has no strand
 * of its own, and `verbs->strand` is not called.
 */
void strand_group_open_in(struct strand_group *group, struct strand_group *other,
                          const struct strand_group_verbs *verbs);

/** The member that joined first; NULL: there is none. The strand's own calls only. */
struct strand_member *strand_group_first(struct strand_group *group);

/** The member that joined next; NULL: it was the last. The strand's own calls only. */
struct strand_member *strand_group_next(struct strand_group *group, struct strand_member *member);

/** Sends a piece to all members but one (NULL: to all). The strand's own calls only. */
void strand_group_send(struct strand_group *group, const struct strand_member *except,
                       struct piece piece);

/**
 * The answer for which a member waits has been enqueued, or there is none: its next message is
 * handled. If it does not wait: nothing. The strand's own calls only: also `said` and `left` of
 * another member.
 */
void strand_member_go_on(struct strand_member *member);

/** A handler that is a member, and whose messages are lines. */
extern const struct input_handler_verbs strand_member_verbs;

/* What it is made of, for a table of verbs with more in it. */
void strand_member_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD;
bool strand_member_handle_input(struct input_handler *self, struct message message,
                                struct channel_facade *facade) NO_LOCK_HELD;
void strand_member_left(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD;
void strand_member_stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD;

#endif
