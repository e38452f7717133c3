/*
 * The way of a chat to the chats on other servers, over a broker: redis, or valkey, which is the
 * same. Each server publishes what its users say and who comes and goes, and subscribes to what the
 * others publish, in one channel. A nickname is a key of the broker's that expires: a lease, which
 * the server of its user renews.
 *
 *   user --say--> broker.c --PUBLISH--> redis --message--> broker.c --chat_say--> other users
 *
 * What is published through redis is delivered at most once: who is not connected at that moment
 * never gets it. So a server numbers its lines, and the others know from the gap how many they have
 * missed. It tells how often somebody came or left, too, and who has missed that asks for a list.
 *
 *   broker.c           what the chat calls, and what is looked after as time passes
 *   broker_link.c      the two connections, and the commands that wait for answers
 *   broker_messages.c  what servers tell each other
 *   broker_names.c     nicknames, and their leases
 *
 * Rules of the house:
 * - The chat of one server never waits for the broker. What cannot be published is lost, counted
 *   (COUNTER_LINES_LOST, COUNTER_LINES_MISSED), and said to the users, once.
 * - No more than BROKER_WAITING_MAX bytes wait for the broker's answers.
 * - Nobody trusts the broker: what comes has limits, names are names, and lines are printable.
 * - There is a connection to the broker only once a user has come.
 *
 * Interface:
 * - The chat knows nothing of all this: the broker is a link of it (chat.h), and an application
 *   that begins with a chat. All of it happens in the chat's strand, so nothing has a lock.
 */
#ifndef BROKER_BROKER_H
#define BROKER_BROKER_H

#include "common/apps/broker/resp.h"
#include "common/apps/broker/roster.h"
#include "common/apps/chat/chat.h"
#include "common/server/host_port.h"

#define BROKER_CHANNEL "chat"
#define BROKER_KEY     "chat:nick:"

enum {
    /** Commands that wait for their answers, at most. */
    BROKER_COMMANDS_MAX = 8192,

    /** Their bytes; less with a small --output-cap. */
    BROKER_WAITING_MAX = 512 * 1024,

    /** What a line that passes through the broker has around it, at most; bytes. */
    BROKER_LINE_ROOM = 512,

    BROKER_PASSWORD_SIZE = 512,

    /** How long users wait until they are told that there is nobody; ms. */
    BROKER_TRYING_MS = 500,

    /** How long a user waits for an answer about a nickname; ms. */
    BROKER_CLAIM_MS = 1000,

    /** Between attempts to connect; ms. */
    BROKER_PAUSE_MIN = 100,
    BROKER_PAUSE_MAX = 5000,

    /** Lines of the first moment, until it is known whether there is a broker; bytes. */
    BROKER_EARLY_MAX = 65536,

    /** Between two lists of who is here, at least; ms. */
    BROKER_LIST_PAUSE = 200,

    /** Names in one message of a list, bytes; and in one command, their number. */
    BROKER_LIST_SIZE = 400,
    BROKER_RENEWED_AT_ONCE = 64,

    /** `NAME.INCARNATION`; and that with a moment behind it, which is what a lease holds. */
    BROKER_OWNER_SIZE = SERVER_NAME_SIZE + 20,
    BROKER_LEASE_SIZE = 2 * BROKER_OWNER_SIZE,

    /** What a name is leased by. */
    BROKER_KEY_SIZE = sizeof(BROKER_KEY) + NICKNAME_TEXT_SIZE,
};

/** What became of a nickname that was asked for. */
enum broker_answer {
    BROKER_GRANTED,
    BROKER_TAKEN, /* somebody else has it */
    BROKER_AWAY,  /* there is nobody to ask */
    BROKER_LOST,  /* the one that the user had: somebody has had it for longer */
};

/** A user of the chat, and what the broker keeps of him. All zero to begin with. */
struct broker_user {
    struct chat_user user;
    bool is_here;
    bool is_published; /* the others were told that he is here */
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
    struct chat chat;                     /* first */
    struct host_port_addresses addresses; /* each attempt has the next one */
    struct log_limit log_limit;
    char name[SERVER_NAME_SIZE];
    uint64_t incarnation;
    char password[BROKER_PASSWORD_SIZE];
    size_t waiting_max;
    int64_t lease;
    enum {
        BROKER_TRYING, /* nobody knows yet */
        BROKER_DOWN,   /* users were told */
        BROKER_UP,
    } state;

    /* The connections: members of a group of their own, in the chat's strand. */
    struct strand_group ends;
    struct input_handler_factory subscriber;
    struct input_handler_factory commander;
    struct channel_facade *subscription; /* each NULL when it ends */
    struct channel_facade *commands;
    struct channel_post not_connected; /* any thread's; it stands for what the next one says */
    _Atomic uint64_t failure;          /* the number of the attempt, and an errno */
    unsigned attempt;                  /* the number of the present one, or of the last */
    bool is_attempted;                 /* it is under way, or has led to a connection */
    int64_t attempt_began;
    int64_t next_attempt;
    int64_t pause; /* before the next attempt but one, at most */
    int64_t up_since;
    uint64_t random;

    struct broker_command *waiting; /* a ring */
    size_t first;
    size_t count;
    size_t waiting_bytes;
    struct resp_text early; /* lines said while nobody knows: `NICK TEXT\n` */

    struct roster roster;
    uint64_t lines;  /* that users of this server have said */
    uint64_t events; /* how often one has come, left or changed his name */
    uint64_t lost;   /* lines from here that nobody was told of yet */
    uint64_t missed; /* lines from elsewhere */
    uint64_t lost_before;

    /* Moments in ms of clock_ms(); 0: there was none. */
    struct channel_timer timer; /* of the next look */
    int64_t trying_since;       /* with users */
    int64_t next_beat;
    int64_t next_renewal;
    int64_t list_sent;
    int64_t no_echo_since; /* of what we publish */
    int64_t looked;        /* when it was looked after last */
    int64_t awake_since;   /* without a long pause; what was before is excused */
    bool list_wanted;
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
 * Opens a broker that is all zero, and its chat. Reads the password and looks up the address, which
 * may take its time; connects to nobody. False: errno is set, or 0 if standard error says why.
 */
bool broker_open(struct broker *broker, const struct broker_choice *choice, struct server *server);

/** Every handler has heard `stopped`. It may not be opened, but all zero. */
void broker_close(struct broker *broker);

static inline struct broker_user *broker_first(struct broker *broker)
{
    return (struct broker_user *)chat_first(&broker->chat);
}

static inline struct broker_user *broker_next(struct broker *broker, struct broker_user *user)
{
    return (struct broker_user *)chat_next(&broker->chat, &user->user);
}

/** All times derive from the lease; ms. Others hear from each server so often, ... */
static inline int64_t broker_beat(const struct broker *broker)
{
    return broker->lease / 4;
}

/** ... and the broker is given up when it has not answered for so long. */
static inline int64_t broker_patience(const struct broker *broker)
{
    return broker->lease / 2;
}

/* ---- broker.c ---- */

extern const struct chat_link_verbs broker_verbs;

/** The timer's: looks at everything that is a matter of time. */
void broker_look(struct broker *broker) NO_LOCK_HELD;

void broker_go_up(struct broker *broker) NO_LOCK_HELD;
void broker_go_down(struct broker *broker) NO_LOCK_HELD;
void broker_lines_lost(struct broker *broker, uint64_t count);

/* ---- broker_link.c ---- */

void broker_link_open(struct broker *broker);

/** Begins to connect. */
void broker_connect(struct broker *broker) NO_LOCK_HELD;

/** The attempt has failed, or what it led to is over. Once for each. */
void broker_lose(struct broker *broker, unsigned attempt, const char *reason) NO_LOCK_HELD;

/** Sends a command. False: it cannot be, or too much waits; nothing was sent. */
bool broker_send(struct broker *broker, struct broker_command command,
                 const struct resp_text *text);

/* ---- broker_messages.c ---- */

/** Publishes a message of a kind, and what it says. False: it is lost. */
bool broker_publish(struct broker *broker, char kind, const void *text, size_t length);

/** Tells the others that a user is here. */
void broker_publish_arrival(struct broker *broker, struct broker_user *user);

/** Sends a line of this server's, or counts it as lost. */
void broker_publish_line(struct broker *broker, const void *text, size_t length);

/** Tells the others who is here. */
void broker_publish_list(struct broker *broker);

/** What came through the subscription. */
void broker_hear(struct broker *broker, struct message message) NO_LOCK_HELD;

/** Servers that were silent for too long are gone. */
void broker_expire(struct broker *broker, int64_t silent_since) NO_LOCK_HELD;

/* ---- broker_names.c ---- */

/** As the chat's link. The answer comes in twice BROKER_CLAIM_MS at most: many may ask at once. */
bool broker_wants(struct chat *chat, struct chat_user *user, const char *nick) NO_LOCK_HELD;

bool broker_send_claim(struct broker *broker, struct broker_user *user);

/** Those who wait for a name, and it is too late, go by another one; or all who wait (`all`). */
void broker_answer_overdue(struct broker *broker, bool all) NO_LOCK_HELD;

/** Gives a name back to the broker, if its lease began then. */
void broker_release_lease(struct broker *broker, const char *name, uint64_t since);

void broker_renew(struct broker *broker);
void broker_ask_for_wishes(struct broker *broker) NO_LOCK_HELD;

/** The broker's answer to a claim, or BROKER_AWAY: there is none. Gives the reference back. */
void broker_claim_answered(struct broker *broker, struct broker_user *user,
                           enum broker_answer answer) NO_LOCK_HELD;

/** A lease is another one's: a key of the broker's, as its answer names it. */
void broker_lease_lost(struct broker *broker, struct message key) NO_LOCK_HELD;

#endif
