/*
 * Who is on the other servers of a chat, as far as this one has heard.
 *
 * Interface:
 * - One thread at a time: the chat's strand.
 * - What the others say is not to be trusted: there is room for so many servers and users and no
 *   more, and what does not fit is not remembered.
 */
#ifndef BROKER_ROSTER_H
#define BROKER_ROSTER_H

#include "common/apps/chat/chat.h"
#include "common/base/list.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ROSTER_SERVERS_MAX = 1024,
    ROSTER_USERS_MAX = 1000000,
    ROSTER_LISTS = 1024,
};

/** Another server. One that was started again is another one. */
struct roster_server {
    struct roster_server *next;
    char name[SERVER_NAME_SIZE];
    uint64_t incarnation;
    int64_t lease;        /* how long it may be silent; ms */
    int64_t heard;        /* when it last was not; ms of clock_ms() */
    uint64_t lines;       /* how many it had sent, when it said so last */
    uint64_t events;      /* the same of arrivals, departures and changes of names */
    int64_t asked;        /* when it was last asked who is there; 0: not yet */
    bool is_known;        /* we know all its users */
    bool was_known;       /* we have known all of them once */
    bool is_gone;         /* it was silent for too long: its users have left, as far as we know */
    bool is_namesake;     /* users were told that it has our name */
    int64_t behind_since; /* what it says came before something else; 0: it does not; clock_ms() */
    uint64_t ignored;     /* lines since then */
    struct list_link users; /* all that are on it, so that its end costs no more than they do */
    unsigned round;         /* of the list that it sends */
};

struct roster_user {
    struct roster_user *next;   /* of those whose names have the same hash */
    struct roster_user **place; /* what points to this one */
    struct roster_server *server;
    struct list_link beside; /* in the server's list */
    unsigned round;          /* of the list that named it last */
    char name[];
};

/** All zero: nobody. */
struct roster {
    struct roster_server *servers;
    size_t server_count;
    size_t user_count;
    struct roster_user *lists[ROSTER_LISTS];
};

/** Called with each name that goes. */
typedef void roster_function(void *self, const char *name);

void roster_destroy(struct roster *roster);

/** NULL: it is not there. */
struct roster_server *roster_find(struct roster *roster, uint64_t incarnation);

/** In the place of one that is gone, if need be. NULL: there is no room, or no memory. */
struct roster_server *roster_add(struct roster *roster, const char *name, uint64_t incarnation);

/** Nothing is heard of it any more: all its users go, and it is remembered while there is room. */
void roster_silence(struct roster *roster, struct roster_server *server, roster_function *left,
                    void *self);

/** It goes, and all its users do. */
void roster_remove(struct roster *roster, struct roster_server *server, roster_function *left,
                   void *self);

/** A user is there, of the server's present round. False if he was already, or there is no room. */
bool roster_user_came(struct roster *roster, struct roster_server *server, const char *name);

/** False if he was not there. */
bool roster_user_left(struct roster *roster, struct roster_server *server, const char *name);

/** Those of the server go that are of an earlier round than its present one. */
void roster_sweep(struct roster *roster, struct roster_server *server, roster_function *left,
                  void *self);

/** Writes at most `count` rows, `NAME on SERVER`, and returns how many were written. */
size_t roster_copy(const struct roster *roster, char (*rows)[CHAT_ROW_SIZE], size_t count);

#endif
