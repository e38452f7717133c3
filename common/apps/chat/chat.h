/*
 * The chat, for what is attached to it: something that links its users with those elsewhere. The
 * chat of one machine is whole without that.
 *
 * Interface:
 * - All of it is the strand's: the verbs of a link are called there, and what a link calls it calls
 *   there. So neither needs a lock, and each may call the other from within its own calls.
 */
#ifndef CHAT_CHAT_H
#define CHAT_CHAT_H

#include "common/apps/chat/news.h"
#include "common/apps/chat/nicknames.h"
#include "common/apps/strand_group.h"
#include "common/server/server.h"

enum {
    /** `NAME on SERVER`, with the closing zero. */
    CHAT_ROW_SIZE = NICKNAME_TEXT_SIZE + 4 + SERVER_NAME_SIZE,
};

struct chat_link_verbs;

struct chat {
    struct strand_group users; /* first: this is what the handlers of users find */
    struct server *server;
    struct nicknames nicknames;
    struct news news;
    const struct chat_link_verbs *link; /* NULL: this chat stands alone */
    const char *name;                   /* of this server among the others; NULL: it stands alone */
    size_t max_line;                    /* of a user; bytes */
    int64_t talk_rate;                  /* bytes of a user a second; 0: any number */
    int64_t talk_saved;                 /* how many of them a user saves up at most */
    bool is_stopping;
};

/** A user. What a link keeps for each begins with this. */
struct chat_user {
    struct strand_member member;
    struct nickname nick;
    int64_t budget;             /* bytes; less than none: he waits */
    int64_t counted;            /* when the budget was last counted; ms of clock_ms() */
    struct channel_timer timer; /* when he may say more */
    bool waits;                 /* for that */
    bool is_slowed;             /* he was told */
    struct {
        char (*rows)[CHAT_ROW_SIZE]; /* NULL: there is no list to go on with */
        size_t count;
        size_t next;
    } list; /* what /who has not sent yet */
};

/** What a link does. */
struct chat_link_verbs {
    /** A user has come, and has a name that was made up. */
    void (*came)(struct chat *chat, struct chat_user *user);
    /** He leaves, still with his name. */
    void (*left)(struct chat *chat, struct chat_user *user);
    /** What he has said: printable, and without an end. */
    void (*said)(struct chat *chat, const struct chat_user *user, struct message text);
    /**
     * He wants a name that no other user here has: renames him and tells him, or tells him why not.
     * False: it will, and then has him go on (strand_member_go_on()).
     */
    bool (*wants)(struct chat *chat, struct chat_user *user, const char *nick);
    /** How many users there are elsewhere; *reachable: whether that is how it is now. */
    size_t (*count)(const struct chat *chat, bool *reachable);
    /** Writes at most so many of them, `NAME on SERVER`, and returns how many it has written. */
    size_t (*list)(const struct chat *chat, char (*rows)[CHAT_ROW_SIZE], size_t count);
    /** The server stops: before its users leave. */
    void (*stops)(struct chat *chat);
};

/** The handlers of users. An application that links a chat has these verbs. */
extern const struct input_handler_verbs chat_verbs;

/** Adds the options of every chat. */
void chat_options(struct options *options);

/** Opens a chat that is all zero; with a link, or NULL. False: errno is set, or 0 if it is told. */
bool chat_open(struct chat *chat, struct server *server, const struct chat_link_verbs *link);

/** The strand in which all of it happens. */
static inline struct channel_facade *chat_strand(struct chat *chat)
{
    return strand_facade(&chat->users.strand);
}

static inline struct chat_user *chat_first(struct chat *chat)
{
    return (struct chat_user *)strand_group_first(&chat->users);
}

/** NULL: that was the last one. */
static inline struct chat_user *chat_next(struct chat *chat, struct chat_user *user)
{
    return (struct chat_user *)strand_group_next(&chat->users, &user->member);
}

/** Calls the user so, and tells the others here. False: another user here has that name. */
bool chat_rename(struct chat *chat, struct chat_user *user, const char *nick) NO_LOCK_HELD;

/** The same with a name that is made up, which nobody has. */
void chat_make_up_name(struct chat *chat, struct chat_user *user) NO_LOCK_HELD;

/** `* you are NAME` */
void chat_tell_name(const struct chat_user *user);

/** Somebody else has that name. */
void chat_tell_taken(const struct chat_user *user, const char *nick);

/** A line for all users here; it gets its end. */
__attribute__((format(printf, 2, 3))) void chat_tell_all(struct chat *chat, const char *format,
                                                         ...) NO_LOCK_HELD;

/** `[nick] text` for all users here but one (NULL: for all). False: there is no memory. */
bool chat_say(struct chat *chat, const struct chat_user *except, const char *nick,
              struct message text) NO_LOCK_HELD;

#endif
