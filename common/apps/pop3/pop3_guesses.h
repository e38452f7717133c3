/*
 * Limits how fast passwords can be guessed.
 *
 * After each wrong password from the same address, or for the same user, the next one is looked at
 * only when a delay is over. The first two wrong ones cost nothing, because people mistype; then
 * the delay is 1, 2, 4, 8 and at last 15 seconds. During a delay a right password is not looked at
 * either, or else its answer would tell that it is right: it waits for the end of the delay, by a
 * timer (pop3_login.c). A password that is not looked at costs no hash, and does not make the delay
 * longer, so a mail program that asks again and again does no harm.
 *
 * A hundred people behind one address may log in at the same moment, all with the right password.
 * Eight are looked at; the others have done nothing wrong, so they are not refused but stand in
 * line, and are let through in the order in which they came. Of all addresses and users together
 * POP3_GUESSES_UNDER_WAY are looked at: a thousand are minutes of work, and more of them in the
 * helpers' queue would help nobody.
 *
 * A right password from a new address forgives the user the wrong ones. One from an address that is
 * known already forgives nothing, since it was not limited by them (see below).
 *
 * A limit for each user alone would let anybody lock a user out: one guess every 15 seconds, from
 * wherever it may be. So an address from which a user has logged in within the last day is known
 * for that user. The two together are limited by their own wrong passwords only, and not by those
 * of others.
 *
 * Interface:
 * - All calls are safe from any thread; the table has a lock of its own, and nothing blocks.
 * - The caller says what time it is, in milliseconds of a clock that never runs backwards.
 * - The tables are of a fixed size. An entry is forgotten a quarter of an hour after its last delay
 *   has ended. If there are more, those with the fewest wrong passwords go first, so that a flood
 *   of new addresses does not wash away the entry of one that has guessed for long.
 * - An address is an IPv4 address, or the first 64 bits of an IPv6 address: that much is what one
 *   subscriber gets.
 * - A name that is no user's is treated like any other: nobody learns from a delay who is there.
 */
#ifndef COMMON_APPS_POP3_GUESSES_H
#define COMMON_APPS_POP3_GUESSES_H

#include "common/apps/pop3/pop3_users.h"
#include "common/base/list.h"
#include "common/base/lock.h"
#include "common/server/sockets.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    POP3_GUESSES_SETS = 256, /* a guesser has its place in one of them, and so has what is known */
    POP3_GUESSES_WAYS = 16,  /* entries in each */

    /** Passwords that are looked at, or wait for a helper, at a time; more stand in line. */
    POP3_GUESSES_UNDER_WAY = 1024,
};

/** What is known of an address, a user, or the two together. */
struct pop3_guesses_entry {
    uint64_t key;
    int64_t forgotten; /* at this moment; an empty entry is forgotten already */
    int64_t next;      /* a password is looked at from this moment on */
    unsigned wrong;    /* passwords */
};

struct pop3_guesses_table {
    struct pop3_guesses_entry sets[POP3_GUESSES_SETS][POP3_GUESSES_WAYS];
};

/** A password that wants to be looked at. All zero before it asks first. */
struct pop3_guess {
    uint64_t address;
    uint64_t user;
    uint64_t both;
    bool is_known;         /* the address, for the user */
    bool is_in_line;       /* behind others, and not yet looked at */
    bool is_under_way;     /* it is looked at, or waits for a helper */
    struct list_link link; /* in pop3_guesses.all while either holds */
};

struct pop3_guesses {
    struct mutex lock;
    uint64_t seed; /* of the keys, so that nobody can choose names that meet in one set */
    struct pop3_guesses_table guessers GUARDED_BY(&lock); /* addresses, and users */
    struct pop3_guesses_table known GUARDED_BY(&lock);    /* an address and a user that belong */
    struct list_link all GUARDED_BY(&lock); /* in line or under way, in the order they came in */
    size_t under_way GUARDED_BY(&lock);     /* how many of them are */
};

/** Nobody has guessed yet. The memory is all zero. */
void pop3_guesses_init(struct pop3_guesses *guesses, uint64_t seed);

void pop3_guesses_destroy(struct pop3_guesses *guesses);

/**
 * Whether to look at a password that an address sends for a user. 0: it may be looked at. Otherwise
 * the milliseconds after which to ask again with the same guess: either because of wrong passwords
 * or, if guess->is_in_line then, only because others came first. One that is in line or may be
 * looked at stays where it is in memory until pop3_guesses_end().
 */
int64_t pop3_guesses_begin(struct pop3_guesses *guesses, const struct endpoint *peer,
                           const char *user, int64_t now, struct pop3_guess *guess);

/** What the password was; POP3_PASSWORD_NOT_TOLD also if it leaves the line. */
void pop3_guesses_end(struct pop3_guesses *guesses, struct pop3_guess *guess,
                      enum pop3_password found, int64_t now);

#endif
