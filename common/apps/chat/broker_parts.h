/*
 * What the files of the broker's client share, and nobody else needs.
 *
 *   broker.c           what the chat calls, and what is looked after as time passes
 *   broker_link.c      the two connections, and the commands that wait for answers
 *   broker_messages.c  what servers tell each other
 *   broker_leases.c    nicknames
 *
 * Interface: what happens under the lock, and has to be told without it, is collected in an outbox:
 * users are sent lines, posts are posted, and connections closed, by broker_deliver().
 */
#ifndef CHAT_BROKER_PARTS_H
#define CHAT_BROKER_PARTS_H

#include "common/apps/chat/broker.h"

#define BROKER_CHANNEL "chat"
#define BROKER_KEY     "chat:nick:"

enum {
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
};

struct broker_outbox {
    struct resp_text items; /* each a letter, a text and a line end; broker_put() */
    struct broker_user *answered;
    struct channel_facade *closing[2]; /* with references */
};

/**
 * Puts something for the users into the outbox: '+' and '-' and a name that has come or left, '='
 * and two names, of which the second is the new one, '*' and a text for all.
 */
void broker_put(struct broker_outbox *outbox, char what, const char *text);

void broker_deliver(struct broker *broker, struct broker_outbox *outbox) NO_LOCK_HELD;

/** All times derive from the lease; ms. */
int64_t broker_beat(const struct broker *broker);
int64_t broker_patience(const struct broker *broker);

/* ---- broker.c ---- */

void broker_go_up(struct broker *broker, struct broker_outbox *outbox) REQUIRES(&broker->lock);
void broker_go_down(struct broker *broker, struct broker_outbox *outbox) REQUIRES(&broker->lock);
void broker_lines_lost(struct broker *broker, uint64_t count) REQUIRES(&broker->lock);

/* ---- broker_link.c ---- */

void broker_link_init(struct broker *broker);

/** Begins to connect, in a handler's own context. */
void broker_connect(struct broker *broker, struct channel_facade *facade,
                    unsigned attempt) NO_LOCK_HELD;

/** The attempt has failed, or what it led to is over. Once for each. */
void broker_lose(struct broker *broker, unsigned attempt, const char *reason,
                 struct broker_outbox *outbox) REQUIRES(&broker->lock);

/** Sends a command. False: it cannot be, or too much waits; nothing was sent. */
bool broker_send(struct broker *broker, struct broker_command command, const struct resp_text *text)
    REQUIRES(&broker->lock);

/* ---- broker_messages.c ---- */

/** Publishes a message of a kind, and what it says. False: it is lost. */
bool broker_publish(struct broker *broker, char kind, const void *text, size_t length)
    REQUIRES(&broker->lock);

/** Tells the others that a user is here. */
void broker_publish_arrival(struct broker *broker, struct broker_user *user)
    REQUIRES(&broker->lock);

/** Sends a line of this server's, or counts it as lost. */
void broker_publish_line(struct broker *broker, const void *text, size_t length)
    REQUIRES(&broker->lock);

/** Tells the others who is here. */
void broker_publish_list(struct broker *broker) REQUIRES(&broker->lock);

/** What came through the subscription. */
void broker_hear(struct broker *broker, struct message message, struct broker_outbox *outbox)
    REQUIRES(&broker->lock);

/** Servers that were silent for too long are gone. */
void broker_expire(struct broker *broker, int64_t silent_since, struct broker_outbox *outbox)
    REQUIRES(&broker->lock);

/* ---- broker_leases.c ---- */

/** Has `answered` run in the user's context. */
void broker_answer(struct broker_user *user, enum broker_answer answer,
                   struct broker_outbox *outbox);

bool broker_send_claim(struct broker *broker, struct broker_user *user) REQUIRES(&broker->lock);
void broker_release_lease(struct broker *broker, const char *name, uint64_t since)
    REQUIRES(&broker->lock);
void broker_renew(struct broker *broker) REQUIRES(&broker->lock);
void broker_ask_for_wishes(struct broker *broker, struct broker_outbox *outbox)
    REQUIRES(&broker->lock);

/** The broker's answer to a claim, or BROKER_AWAY: there is none. Gives the reference back. */
void broker_claim_answered(struct broker *broker, struct broker_user *user,
                           enum broker_answer answer, struct broker_outbox *outbox)
    REQUIRES(&broker->lock);

/** A lease is another one's: a key of the broker's, as its answer names it. */
void broker_lease_lost(struct broker *broker, struct message key, struct broker_outbox *outbox)
    REQUIRES(&broker->lock);

#endif
