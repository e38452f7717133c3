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
 * Of passwords that come at the same moment, eight are looked at; the others are put off for a
 * second. Of all addresses and users together it is POP3_GUESSES_UNDER_WAY: a thousand are minutes
 * of work, and more of them in the queue would help nobody.
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
#include "common/base/lock.h"
#include "common/server/sockets.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    POP3_GUESSES_SETS = 256, /* a guesser has its place in one of them, and so has what is known */
    POP3_GUESSES_WAYS = 16,  /* entries in each */

    /** Passwords that are looked at, or wait for a helper, at a time; more are put off. */
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

/** A password that is being looked at. */
struct pop3_guess {
    uint64_t address;
    uint64_t user;
    uint64_t both;
    bool is_known;           /* the address, for the user */
    struct pop3_guess *next; /* another one that is looked at meanwhile */
};

struct pop3_guesses {
    struct mutex lock;
    uint64_t seed; /* of the keys, so that nobody can choose names that meet in one set */
    struct pop3_guesses_table guessers GUARDED_BY(&lock); /* addresses, and users */
    struct pop3_guesses_table known GUARDED_BY(&lock);    /* an address and a user that belong */
    struct pop3_guess *under_way GUARDED_BY(&lock);       /* those that have begun and not ended */
};

/** Nobody has guessed yet. The memory is all zero. */
void pop3_guesses_init(struct pop3_guesses *guesses, uint64_t seed);

void pop3_guesses_destroy(struct pop3_guesses *guesses);

/**
 * Whether to look at a password that an address sends for a user. 0: it may be looked at, and
 * pop3_guesses_end() has to be told what it was; `guess` stays where it is until then. Otherwise
 * the milliseconds for which it may not; `guess` means nothing then.
 */
int64_t pop3_guesses_begin(struct pop3_guesses *guesses, const struct endpoint *peer,
                           const char *user, int64_t now, struct pop3_guess *guess);

/** What the password was. */
void pop3_guesses_end(struct pop3_guesses *guesses, const struct pop3_guess *guess,
                      enum pop3_password found, int64_t now);

#endif
