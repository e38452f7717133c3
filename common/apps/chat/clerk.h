/*
 * The clerk of a chat: the user in whose connection the chat's own chores are done.
 *
 * What is to be done later needs a timer, and a timer needs a connection. A chat has no connection
 * of its own, so one of its users lends his: the one that came first, who may well stay longest. If
 * he leaves, the next one is the clerk; if there is nobody, the chores wait for the first who
 * comes.
 *
 * Interface:
 * - Any thread, with no lock held, but clerk_init() and clerk_destroy().
 * - A user joins the group first, then calls clerk_came(); and leaves the group in `stopping`, then
 *   calls clerk_left(). In between, and until his memory goes, his seat belongs to the clerk.
 * - Two chores never run at the same time, and each has the clerk's own context: it may call what a
 *   handler may, channel_connect() among it, and clerk_ask() again.
 */
#ifndef CHAT_CLERK_H
#define CHAT_CLERK_H

#include "common/apps/group.h"
#include "common/server/channel_calls.h"

struct clerk;

enum clerk_chore {
    CHORE_NEWS,   /* tells what happened while the budget was used up */
    CHORE_BROKER, /* looks after the way to the other servers */
    CLERK_CHORES,
};

/** What a user lends. All zero but the member is a seat that was not used yet. */
struct clerk_seat {
    struct group_member member; /* of the users' group */
    struct channel_post post;
    struct clerk *clerk;
};

/** Runs a chore. The facade is that of the clerk's connection. */
typedef void clerk_function(void *self, struct channel_facade *facade);

/** Where the clerk's timer is. */
enum clerk_phase {
    CLERK_NONE,    /* nobody is the clerk */
    CLERK_SOUGHT,  /* a thread is looking for one */
    CLERK_POSTED,  /* the post to the clerk has not arrived yet */
    CLERK_WORKING, /* it runs in the clerk's context, and will set the timer */
    CLERK_WAITING, /* the timer is set */
};

struct clerk {
    struct group *users;
    struct {
        clerk_function *run;
        void *self;
    } chores[CLERK_CHORES];
    struct mutex lock;
    enum clerk_phase phase GUARDED_BY(&lock);
    int64_t due[CLERK_CHORES] GUARDED_BY(&lock); /* ms of clock_ms(); INT64_MAX: not asked for */
    int64_t set_for GUARDED_BY(&lock);           /* what the timer is set for */
    struct clerk_seat *seat GUARDED_BY(&lock);   /* of the clerk; NULL: there is none */
    struct channel_facade *facade GUARDED_BY(&lock); /* the same one's, with a reference */
    bool is_new GUARDED_BY(&lock); /* the timer was never set in that connection */
    struct channel_timer timer;    /* there; its context alone touches it */
};

void clerk_init(struct clerk *clerk, struct group *users);

void clerk_destroy(struct clerk *clerk);

/** Says what a chore is, before the first user comes. */
void clerk_learn(struct clerk *clerk, enum clerk_chore chore, clerk_function *run, void *self);

/**
 * Has a chore run at that moment, in ms of clock_ms(), once; sooner if it was asked for sooner. It
 * comes later if there is no user, or if the clerk's connection is busy.
 */
void clerk_ask(struct clerk *clerk, enum clerk_chore chore, int64_t moment) NO_LOCK_HELD;

/** A user has joined the group: his seat may be needed. */
void clerk_came(struct clerk *clerk) NO_LOCK_HELD;

/** A user has left the group. His connection is stopping, so it has forgotten its timers. */
void clerk_left(struct clerk *clerk, const struct clerk_seat *seat) NO_LOCK_HELD;

#endif
