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

enum {
    NICKNAME_SIZE = 25, /* with the closing zero */
    NICKNAME_LISTS = 1024,
};

/** Starts as all zero: not taken. */
struct nickname {
    char text[NICKNAME_SIZE];
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

/** Whether the text can be a nickname. */
bool nickname_is_possible(const char *text);

/** Takes a nickname, in place of the one before, if there is one. False if somebody has it. */
bool nicknames_take(struct nicknames *all, struct nickname *own, const char *text);

/** Takes one that nobody has: `user`, and a number. */
void nicknames_make_up(struct nicknames *all, struct nickname *own);

/** Gives it back. */
void nicknames_give_back(struct nicknames *all, struct nickname *own);

/** A copy of all of them, sorted, for the caller to free; NULL without memory. */
char (*nicknames_copy(struct nicknames *all, size_t *count))[NICKNAME_SIZE];

#endif
