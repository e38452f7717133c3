/*
 * The nicknames of a chat: no two users have the same.
 *
 * Interface:
 * - Any thread. A nickname is part of its user; its user's handler alone changes it, and may read
 *   it without a lock.
 * - They are found by a hash, so that one user more costs the same however many there are.
 */
#ifndef CHAT_NICKNAMES_H
#define CHAT_NICKNAMES_H

#include "common/base/lock.h"

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
    struct nickname *next; /* in its list: under the lock, so do not copy the struct */
};

struct nicknames {
    struct mutex lock;
    struct nickname *lists[NICKNAME_LISTS] GUARDED_BY(&lock);
    size_t count GUARDED_BY(&lock);
    unsigned long next_number GUARDED_BY(&lock); /* for the next one that is made up */
};

void nicknames_init(struct nicknames *all);

void nicknames_destroy(struct nicknames *all);

/** Whether a user can choose that nickname. */
bool nickname_is_possible(const char *text);

/** Whether the text is one, or one with `~` and a server behind it. */
bool nickname_is_whole(const char *text);

/** FNV-1a. */
uint32_t nickname_hash(const char *text);

/** Whether a user has that nickname at this moment. */
bool nicknames_have(struct nicknames *all, const char *text);

/** Takes a nickname, in place of the one before, if there is one. False if another user has it. */
bool nicknames_take(struct nicknames *all, struct nickname *own, const char *text);

/** Takes one that nobody has: `user`, and a number, and what is to stand behind that. */
void nicknames_make_up(struct nicknames *all, struct nickname *own, const char *behind);

/** Gives a nickname back, so that another user may take it. */
void nicknames_give_back(struct nicknames *all, struct nickname *own);

size_t nicknames_count(struct nicknames *all);

/**
 * Writes at most `count` of them, each into a row of so many bytes and with that behind it, in any
 * order. Returns how many were written.
 */
size_t nicknames_copy(struct nicknames *all, char *rows, size_t row_size, size_t count,
                      const char *behind);

#endif
