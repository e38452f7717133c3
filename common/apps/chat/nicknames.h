/*
 * The nicknames of a chat: no two users have the same, and a name in capitals is the same name.
 *
 * Interface:
 * - One thread at a time: the chat's strand. A nickname is part of its user.
 * - They are found by a hash, so that one user more costs the same however many there are.
 */
#ifndef CHAT_NICKNAMES_H
#define CHAT_NICKNAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NICKNAME_SIZE = 25, /* of one that a user chooses, with the closing zero */

    /** A server among others, with the closing zero. */
    SERVER_NAME_SIZE = 24,

    /** `NICKNAME~SERVER`, which no user can choose, with the closing zero. */
    NICKNAME_TEXT_SIZE = NICKNAME_SIZE + SERVER_NAME_SIZE,
    NICKNAME_LISTS = 1024,
};

/** Starts as all zero: not taken. */
struct nickname {
    char text[NICKNAME_TEXT_SIZE];
    struct nickname *next; /* in its list, so do not copy the struct */
};

/** All zero: nobody has one. */
struct nicknames {
    struct nickname *lists[NICKNAME_LISTS];
    unsigned long next_number; /* for the next one that is made up */
};

/** Whether a user can choose that nickname. */
bool nickname_is_possible(const char *text);

/** Whether the text is one, or one with `~` and a server behind it. */
bool nickname_is_whole(const char *text);

/** Whether two texts are one name: `Ann` is `ann`. */
bool nickname_is_same(const char *a, const char *b);

/** FNV-1a of the name in small letters. */
uint32_t nickname_hash(const char *text);

/** Who has that name; NULL: nobody. */
const struct nickname *nicknames_find(const struct nicknames *all, const char *text);

/** Takes a nickname, in place of the one before, if there is one. False if another user has it. */
bool nicknames_take(struct nicknames *all, struct nickname *own, const char *text);

/** Takes one that nobody has: `user`, and a number, and what is to stand behind that. */
void nicknames_make_up(struct nicknames *all, struct nickname *own, const char *behind);

/** Gives a nickname back, so that another user may take it. */
void nicknames_give_back(struct nicknames *all, struct nickname *own);

#endif
