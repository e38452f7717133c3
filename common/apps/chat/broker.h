/*
 * The way of a chat to the chats on other servers, over a broker: redis, or valkey, which is the
 * same. Each server publishes what its users say and who comes and goes, and subscribes to what the
 * others publish, in one channel. A nickname is a key of the broker's that expires: a lease, which
 * the server of its user renews.
 *
 *   user --say--> broker.c --PUBLISH--> redis --message--> broker.c --group_send--> other users
 *
 * What is published through redis is delivered at most once: who is not connected at that moment
 * never gets it. So a server numbers its lines, and the others know from the gap how many they have
 * missed. It tells how often somebody came or left, too, and who has missed that asks for a list.
 *
 * Rules of the house:
 * - The chat of one server never waits for the broker. What cannot be published is lost, counted
 *   (COUNTER_LINES_LOST, COUNTER_LINES_MISSED), and said to the users, once.
 * - No more than BROKER_WAITING_MAX bytes wait for the broker's answers.
 * - Nobody trusts the broker: what comes has limits, names are names, and lines are printable.
 * - There is a connection to the broker only once a user has come: see clerk.h.
 *
 * Interface:
 * - Any thread, with no lock held. A user's own calls come in his handler's context.
 */
#ifndef CHAT_BROKER_H
#define CHAT_BROKER_H

#include "common/apps/chat/clerk.h"
#include "common/apps/chat/news.h"
#include "common/apps/chat/nicknames.h"
#include "common/apps/chat/resp.h"
#include "common/apps/chat/roster.h"
#include "common/server/host_port.h"
#include "common/server/input_handler.h"
#include "common/server/server.h"

enum {
    /** Commands that wait for their answers, at most. */
    BROKER_COMMANDS_MAX = 8192,

    /** Their bytes; less with a small --output-cap. */
    BROKER_WAITING_MAX = 512 * 1024,

    /** What a line that passes through the broker has around it, at most; bytes. */
    BROKER_LINE_ROOM = 512,

    BROKER_PASSWORD_SIZE = 512,
};

/** What became of a nickname that was asked for. */
enum broker_answer {
    BROKER_GRANTED,
    BROKER_TAKEN, /* somebody else has it */
    BROKER_AWAY,  /* there is nobody to ask */
    BROKER_LOST,  /* the one that the user had: somebody has had it for longer */
};

/** What the broker keeps of each user; in the user's memory, and all zero to begin with. */
struct broker_user {
    struct list_link link;
    struct broker *broker;
    struct channel_facade *facade;
    bool is_here;
    bool is_published; /* the others were told that he is here */
    char name[NICKNAME_TEXT_SIZE];
    bool is_leased;
    uint64_t since; /* when the lease was granted first; ms, by the clock of his server */

    /* A nickname that is asked for. */
    char wanted[NICKNAME_SIZE];
    uint64_t wanted_since;
    int64_t asked; /* when; ms of clock_ms() */
    enum {
        CLAIM_NONE,
        CLAIM_WAITS, /* until it is known whether there is a broker, or until others have theirs */
        CLAIM_ASKED, /* the broker's answer has not come */
        CLAIM_OVERDUE, /* the user was told that there is none */
    } claim;
    bool is_wish;             /* he goes by another name meanwhile; nobody waits */
    char wish[NICKNAME_SIZE]; /* what he would be called if the broker were there; "": as he is */
    struct channel_post post; /* with an answer */
    bool is_posted;           /* it is under way, or being handled */
    enum broker_answer answer;
    struct broker_user *next_answered;
};

/** How it is between us and the others. */
enum broker_state {
    BROKER_TRYING, /* nobody knows yet */
    BROKER_DOWN,   /* users were told */
    BROKER_UP,
};

/** A command that waits for its answer. */
struct broker_command {
    enum {
        COMMAND_LINE, /* PUBLISH of a line */
        COMMAND_CLAIM,
        COMMAND_RENEW,
        COMMAND_OTHER,
    } kind;
    uint32_t bytes;
    int64_t sent;             /* ms of clock_ms() */
    struct broker_user *user; /* who claims; there is a reference to his facade */
};

struct broker {
    struct server *server;
    struct group *users;
    struct nicknames *nicknames; /* of the users here; its lock is taken under this one */
    struct news *news;
    struct clerk *clerk;
    struct host_port_addresses addresses; /* each attempt has the next one */
    struct log_limit log_limit;
    char name[SERVER_NAME_SIZE];
    uint64_t incarnation;
    char password[BROKER_PASSWORD_SIZE];
    size_t max_line;
    size_t waiting_max;
    int64_t lease;
    void (*answered)(struct channel_post *post, struct channel_facade *facade);
    struct input_handler_factory subscriber;
    struct input_handler_factory commander;

    struct mutex lock;
    enum broker_state state GUARDED_BY(&lock);
    bool is_stopping GUARDED_BY(&lock);  /* the server is */
    bool was_told GUARDED_BY(&lock);     /* users know that the others are out of reach */
    unsigned attempt GUARDED_BY(&lock);  /* the number of the present one, or of the last */
    bool is_attempted GUARDED_BY(&lock); /* it is under way, or has led to a connection */
    int64_t attempt_began GUARDED_BY(&lock);
    int64_t next_attempt GUARDED_BY(&lock);
    int64_t pause GUARDED_BY(&lock);        /* before the next attempt but one, at most */
    int64_t trying_since GUARDED_BY(&lock); /* with users; 0: there were none */
    int64_t up_since GUARDED_BY(&lock);
    uint64_t random GUARDED_BY(&lock);
    struct channel_facade *subscription GUARDED_BY(&lock); /* each with a reference, or NULL */
    struct channel_facade *commands GUARDED_BY(&lock);

    struct broker_command *waiting GUARDED_BY(&lock); /* a ring */
    size_t first GUARDED_BY(&lock);
    size_t count GUARDED_BY(&lock);
    size_t waiting_bytes GUARDED_BY(&lock);
    struct resp_text early GUARDED_BY(&lock); /* lines said while nobody knows: `NICK TEXT\n` */

    struct list_link all GUARDED_BY(&lock); /* users */
    size_t user_count GUARDED_BY(&lock);
    struct roster roster GUARDED_BY(&lock);
    uint64_t lines GUARDED_BY(&lock);  /* that users of this server have said */
    uint64_t events GUARDED_BY(&lock); /* how often one has come, left or changed his name */
    uint64_t lost GUARDED_BY(&lock);   /* lines from here that nobody was told of yet */
    uint64_t missed GUARDED_BY(&lock); /* lines from elsewhere */
    uint64_t lost_before GUARDED_BY(&lock);
    int64_t next_beat GUARDED_BY(&lock);
    int64_t next_renewal GUARDED_BY(&lock);
    int64_t list_sent GUARDED_BY(&lock);
    bool list_wanted GUARDED_BY(&lock);
    int64_t no_echo_since GUARDED_BY(&lock); /* of what we publish; 0: it has come */
    int64_t looked GUARDED_BY(&lock);        /* when it was looked after last */
    int64_t awake_since GUARDED_BY(&lock);   /* without a long pause; what was before is excused */
};

/** Where a chat finds those on other servers. */
struct broker_choice {
    const char *address;       /* --broker, HOST:PORT; NULL: nowhere */
    const char *name;          /* --broker-name, of this server; NULL: one is made up */
    const char *password_file; /* --broker-password-file; NULL: the broker wants no password */
    int64_t lease;             /* --broker-lease; ms */
};

/** Adds --broker and what belongs to it. */
void broker_options(struct options *options, struct broker_choice *broker);

/**
 * Reads the password and looks up the address, which may take its time; connects to nobody. False
 * if one of them is not to be had, and standard error says why. `answered` is run in a user's
 * context when broker_user.answer holds what became of his wish.
 */
bool broker_open(struct broker *broker, const struct broker_choice *choice, struct server *server,
                 struct group *users, struct nicknames *nicknames, struct news *news,
                 struct clerk *clerk,
                 void (*answered)(struct channel_post *post, struct channel_facade *facade));

/** Every handler has heard `stopped`. */
void broker_close(struct broker *broker);

/** A user has joined. True: he has to be told that the others are out of reach. */
bool broker_came(struct broker *broker, struct broker_user *user, struct channel_facade *facade,
                 const char *name) NO_LOCK_HELD;

void broker_left(struct broker *broker, struct broker_user *user) NO_LOCK_HELD;

/** Passes on what a user has said: printable, and without an end. */
void broker_say(struct broker *broker, const struct broker_user *user,
                struct message text) NO_LOCK_HELD;

/**
 * Asks for a nickname. True: `answered` will come, in twice the time of a claim (BROKER_CLAIM_MS)
 * at most: many may ask at once, and wait for each other. False: there is nobody to ask.
 */
bool broker_claim(struct broker *broker, struct broker_user *user, const char *nick) NO_LOCK_HELD;

/** An answer has been dealt with. */
void broker_dealt_with(struct broker *broker, struct broker_user *user);

/**
 * The user is called so from now on. `wish`: what he would be called if the broker were there;
 * NULL: the name is the one that the last answer granted.
 */
void broker_renamed(struct broker *broker, struct broker_user *user, const char *name,
                    const char *wish) NO_LOCK_HELD;

/**
 * A name was granted, but another user of this server is called so. The wish, if it was one, is
 * over, and that user's lease is renewed soon.
 */
void broker_declined(struct broker *broker, struct broker_user *user);

/** Users of other servers, as roster_copy(); *reachable: whether that is how it is now. */
size_t broker_who(struct broker *broker, char (*rows)[ROSTER_ROW_SIZE], size_t count,
                  bool *reachable);

/** How many they are. */
size_t broker_count(struct broker *broker);

/** The server stops: when its last user has left, the others are told so. */
void broker_stop(struct broker *broker) NO_LOCK_HELD;

#endif
