/*
 * How fast passwords can be guessed: the table, with a clock that the test turns.
 */
#include "common/apps/pop3/pop3_guesses.h"

#include "support/with.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pop3_guesses, .timeout = 120);

enum {
    SECOND = 1000,
    MINUTE = 60 * SECOND,
    DAY = 24 * 60 * MINUTE,
};

static struct pop3_guesses *guesses;
static int64_t now;

static void begin(struct pop3_guesses *empty)
{
    guesses = memset(empty, 0, sizeof *empty);
    pop3_guesses_init(guesses, 42);
    now = 1000000;
}

/* A test that begins with an empty table. */
#define GuessTest(suite, name)                                                                     \
    TestWith(suite, name, struct pop3_guesses, empty, begin(empty), pop3_guesses_destroy(empty))

/** How long a password is not looked at. If it is, it is right or wrong, at the same moment. */
static int64_t attempt(const char *address, const char *user, bool right)
{
    struct endpoint peer;
    struct pop3_guess guess = {0};
    cr_assert(endpoint_parse(&peer, address, 1));
    int64_t wait = pop3_guesses_begin(guesses, &peer, user, now, &guess);
    if (wait == 0) {
        pop3_guesses_end(guesses, &guess, right ? POP3_PASSWORD_RIGHT : POP3_PASSWORD_WRONG, now);
    }
    cr_assert_not(guess.is_in_line, "nobody else is looked at");
    return wait;
}

#define wrong(address, user) attempt(address, user, false)
#define right(address, user) attempt(address, user, true)

/** Gives wrong passwords, each as soon as it is looked at. How long that took in all. */
static int64_t guess_for(const char *address, const char *user, int passwords)
{
    int64_t start = now;
    for (int i = 0; i < passwords; i++) {
        int64_t wait = wrong(address, user);
        now += wait;
        cr_assert(wait == 0 || wrong(address, user) == 0, "it waited for %lld ms", (long long)wait);
    }
    return now - start;
}

GuessTest(pop3_guesses, the_delay_doubles_to_fifteen_seconds)
{
    static const int64_t delays[] = {0, 0, 1, 2, 4, 8, 15, 15, 15};
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++) {
        cr_assert_eq(wrong("10.0.0.1", "ann"), 0, "wrong password %zu", i + 1);
        int64_t delay = delays[i] * SECOND;
        if (delay > 0) {
            cr_assert_eq(wrong("10.0.0.1", "ann"), delay, "after %zu wrong passwords", i + 1);
            now += delay - 1;
            cr_assert_eq(right("10.0.0.1", "ann"), 1, "a right one has to wait as well");
            now += 1;
        }
    }
}

/* Whoever asks during a delay is only told to wait: the delay does not become longer. */
GuessTest(pop3_guesses, what_is_not_looked_at_does_not_count)
{
    guess_for("10.0.0.1", "ann", 3);
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(wrong("10.0.0.1", "ann"), SECOND);
    }
    now += SECOND;
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
}

GuessTest(pop3_guesses, an_address_is_limited_whatever_users_it_tries)
{
    for (int i = 0; i < 3; i++) {
        char user[32];
        snprintf(user, sizeof user, "user%d", i);
        cr_assert_eq(wrong("10.0.0.1", user), 0);
    }
    cr_assert_eq(wrong("10.0.0.1", "somebody-else"), SECOND);
    cr_assert_eq(wrong("10.0.0.2", "somebody-else"), 0,
                 "another address has nothing to do with it");
}

GuessTest(pop3_guesses, a_user_is_limited_whatever_addresses_try)
{
    for (int i = 0; i < 3; i++) {
        char address[32];
        snprintf(address, sizeof address, "10.0.0.%d", i);
        cr_assert_eq(wrong(address, "ann"), 0);
    }
    cr_assert_eq(wrong("10.0.0.9", "ann"), SECOND);
    cr_assert_eq(wrong("10.0.0.9", "bob"), 0, "another user has nothing to do with it");
}

/* What one subscriber has: of IPv6 it is a network of 64 bits. */
GuessTest(pop3_guesses, an_address_is_one_of_ipv4_or_a_network_of_ipv6)
{
    cr_assert_eq(wrong("2001:db8:0:1::1", "a"), 0);
    cr_assert_eq(wrong("2001:db8:0:1::2", "b"), 0);
    cr_assert_eq(wrong("2001:db8:0:1:ffff::3", "c"), 0);
    cr_assert_eq(wrong("2001:db8:0:1::4", "d"), SECOND);
    cr_assert_eq(wrong("2001:db8:0:2::4", "d"), 0);
    cr_assert_eq(wrong("10.0.0.1", "e"), 0);
    cr_assert_eq(wrong("::ffff:10.0.0.1", "f"), 0);
    cr_assert_eq(wrong("10.0.0.1", "g"), 0);
    cr_assert_eq(wrong("::ffff:10.0.0.1", "h"), SECOND);
    cr_assert_eq(wrong("::ffff:10.0.0.2", "h"), 0);
}

/* On many connections: all at once are no more than one after the other. */
GuessTest(pop3_guesses, guesses_at_the_same_time_are_let_through_one_by_one)
{
    struct endpoint peer;
    struct pop3_guess first = {0};
    struct pop3_guess second = {0};
    cr_assert(endpoint_parse(&peer, "10.0.0.1", 1));
    guess_for("10.0.0.1", "ann", 7);
    now += 15 * SECOND;
    cr_assert_eq(pop3_guesses_begin(guesses, &peer, "ann", now, &first), 0);
    cr_assert_eq(pop3_guesses_begin(guesses, &peer, "ann", now, &second), 15 * SECOND);
    pop3_guesses_end(guesses, &first, POP3_PASSWORD_WRONG, now + SECOND);
    cr_assert_eq(pop3_guesses_begin(guesses, &peer, "ann", now + SECOND, &second), 15 * SECOND);
}

enum { CROWD = 100 };

/** They ask in their order; how many of them are looked at together. */
static int ask(struct pop3_guess crowd[CROWD], const char *address_format, const char *user_format)
{
    int looked_at = 0;
    for (int i = 0; i < CROWD; i++) {
        struct endpoint peer;
        char address[32];
        char user[32];
        snprintf(address, sizeof address, address_format, i);
        snprintf(user, sizeof user, user_format, i);
        cr_assert(endpoint_parse(&peer, address, 1));
        int64_t wait = pop3_guesses_begin(guesses, &peer, user, now, &crowd[i]);
        looked_at += wait == 0;
        cr_assert_eq(wait != 0, crowd[i].is_in_line, "nobody was wrong");
    }
    return looked_at;
}

/** How many of 100 passwords are looked at that come at once, before any of them is found wrong. */
static int looked_at_together(const char *address_format, const char *user_format)
{
    struct pop3_guess crowd[CROWD] = {0};
    int looked_at = ask(crowd, address_format, user_format);
    for (int i = 0; i < CROWD; i++) {
        pop3_guesses_end(guesses, &crowd[i], POP3_PASSWORD_NOT_TOLD, now);
    }
    return looked_at;
}

/* A hash may take long, and nobody has guessed wrong yet: there is no delay that could hold. */
GuessTest(pop3_guesses, of_the_first_guesses_few_are_let_through_at_once)
{
    cr_assert_eq(looked_at_together("10.0.0.1", "ann"), 8);
    cr_assert_eq(looked_at_together("10.0.0.1", "user%d"), 8);
    cr_assert_eq(looked_at_together("10.0.0.%d", "ann"), 8);
    cr_assert_eq(looked_at_together("10.0.0.%d", "user%d"), 100);
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    cr_assert_eq(looked_at_together("10.0.0.1", "ann"), 8, "known, and still not all at once");
}

/* A hundred people behind one address, whom a restart of the server has made to come again. */
GuessTest(pop3_guesses, a_crowd_that_is_right_comes_in_by_its_order)
{
    enum { TAKES = 20, HELPERS = 2 }; /* ms to look at a password, and so many at a time */
    struct pop3_guess crowd[CROWD] = {0};
    struct pop3_guess *begun[CROWD];
    int64_t asks[CROWD];
    struct endpoint peer;
    char user[32];
    int count = 0;
    int came = 0;
    cr_assert(endpoint_parse(&peer, "10.0.0.1", 1));
    for (int i = 0; i < CROWD; i++) {
        asks[i] = now;
    }
    for (int64_t start = now; came < CROWD; now++) {
        cr_assert_lt(now - start, 2 * CROWD * TAKES / HELPERS, "%d have come", came);
        for (int i = 0; i < CROWD; i++) {
            if (asks[i] > now || crowd[i].is_under_way) {
                continue;
            }
            snprintf(user, sizeof user, "user%d", i);
            int64_t wait = pop3_guesses_begin(guesses, &peer, user, now, &crowd[i]);
            cr_assert(wait == 0 || crowd[i].is_in_line, "nobody was wrong");
            cr_assert(wait > 0 || i - came < 8, "number %d overtakes more than eight", i);
            asks[i] = wait > 0 ? now + wait : INT64_MAX;
            begun[count] = &crowd[i];
            count += wait == 0;
        }
        cr_assert_leq(count - came, 8);
        for (int i = 0; i < HELPERS && (now - start) % TAKES == TAKES - 1 && came < count; i++) {
            pop3_guesses_end(guesses, begun[came++], POP3_PASSWORD_RIGHT, now);
        }
    }
}

/* Those behind do not wait for one that has gone. */
GuessTest(pop3_guesses, one_may_leave_the_line)
{
    struct pop3_guess crowd[CROWD] = {0};
    cr_assert_eq(ask(crowd, "10.0.0.1", "ann"), 8);
    for (int i = 8; i < CROWD - 1; i++) {
        pop3_guesses_end(guesses, &crowd[i], POP3_PASSWORD_NOT_TOLD, now);
    }
    struct endpoint peer;
    cr_assert(endpoint_parse(&peer, "10.0.0.1", 1));
    cr_assert_gt(pop3_guesses_begin(guesses, &peer, "ann", now, &crowd[CROWD - 1]), 0);
    pop3_guesses_end(guesses, &crowd[0], POP3_PASSWORD_NOT_TOLD, now);
    cr_assert_eq(pop3_guesses_begin(guesses, &peer, "ann", now, &crowd[CROWD - 1]), 0);
    pop3_guesses_end(guesses, &crowd[CROWD - 1], POP3_PASSWORD_NOT_TOLD, now);
    for (int i = 1; i < 8; i++) {
        pop3_guesses_end(guesses, &crowd[i], POP3_PASSWORD_NOT_TOLD, now);
    }
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
}

/* If those who were first are wrong, those in line wait for the delay like everybody else. */
GuessTest(pop3_guesses, wrong_passwords_of_those_ahead_count_for_those_in_line)
{
    struct pop3_guess crowd[CROWD] = {0};
    struct endpoint peer;
    cr_assert_eq(ask(crowd, "10.0.0.1", "ann"), 8);
    for (int i = 0; i < 8; i++) {
        pop3_guesses_end(guesses, &crowd[i], POP3_PASSWORD_WRONG, now);
    }
    cr_assert(endpoint_parse(&peer, "10.0.0.1", 1));
    for (int i = 8; i < CROWD; i++) {
        cr_assert_eq(pop3_guesses_begin(guesses, &peer, "ann", now, &crowd[i]), 15 * SECOND);
        cr_assert_not(crowd[i].is_in_line);
    }
    now += 15 * SECOND;
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
}

/* What others send at this moment does not count for somebody at a known address. */
GuessTest(pop3_guesses, a_crowd_of_strangers_keeps_nobody_out_of_where_she_was)
{
    struct pop3_guess crowd[8] = {0};
    struct pop3_guess ninth = {0};
    struct endpoint stranger;
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    cr_assert(endpoint_parse(&stranger, "10.6.6.6", 1));
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++) {
        cr_assert_eq(pop3_guesses_begin(guesses, &stranger, "ann", now, &crowd[i]), 0);
    }
    cr_assert_gt(pop3_guesses_begin(guesses, &stranger, "ann", now, &ninth), 0);
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    pop3_guesses_end(guesses, &ninth, POP3_PASSWORD_NOT_TOLD, now);
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++) {
        pop3_guesses_end(guesses, &crowd[i], POP3_PASSWORD_NOT_TOLD, now);
    }
    cr_assert_eq(wrong("10.6.6.6", "ann"), 0);
}

GuessTest(pop3_guesses, wrong_passwords_are_forgotten)
{
    guess_for("10.0.0.1", "ann", 10);
    now += 15 * SECOND + 15 * MINUTE;
    cr_assert_eq(guess_for("10.0.0.1", "ann", 3), 0);
}

GuessTest(pop3_guesses, a_right_password_forgives_the_user_and_not_the_address)
{
    guess_for("10.0.0.1", "ann", 6);
    now += 8 * SECOND;
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    cr_assert_eq(guess_for("10.0.0.2", "ann", 3), 0, "she begins anew");
    cr_assert_eq(wrong("10.0.0.1", "bob"), 0);
    cr_assert_eq(wrong("10.0.0.1", "bob"), 15 * SECOND, "that address has guessed seven times");
}

/* Otherwise one guess every 15 seconds would be enough to lock somebody out. */
GuessTest(pop3_guesses, a_user_gets_in_from_where_she_was_while_others_guess)
{
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    guess_for("10.6.6.6", "ann", 20);
    cr_assert_gt(right("10.0.0.2", "ann"), 0, "from elsewhere she has to wait");
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    now += DAY - 1;
    cr_assert_eq(right("10.0.0.1", "ann"), 0, "known for a day");
    guess_for("10.6.6.6", "ann", 20);
    now += DAY;
    guess_for("10.6.6.6", "ann", 20);
    cr_assert_gt(right("10.0.0.1", "ann"), 0, "and not for longer");
}

/* A neighbour behind the same address gains nothing by it. */
GuessTest(pop3_guesses, a_known_address_is_limited_by_its_own_wrong_passwords)
{
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    cr_assert_eq(guess_for("10.0.0.1", "ann", 8), 30 * SECOND);
    cr_assert_eq(right("10.0.0.1", "ann"), 15 * SECOND);
    cr_assert_eq(right("10.0.0.2", "ann"), 0, "that is between the two");
}

/** A user's name whose bytes make up for what tells users from addresses, if that is only xored. */
static const char *name_like_address(char name[5], const unsigned char address[4], char kind)
{
    memcpy(name, address, 4);
    name[0] = (char)(name[0] ^ kind ^ 'u');
    name[4] = '\0';
    return name;
}

/* Otherwise anybody could have the passwords of a stranger's address not looked at. */
GuessTest(pop3_guesses, no_name_of_a_user_counts_for_an_address)
{
    static const unsigned char address[] = {10, 20, 30, 40};
    char name[5];
    guess_for("192.0.2.1", name_like_address(name, address, '4'), 8);
    cr_assert_eq(wrong("10.20.30.40", "ann"), 0);
}

/* A guesser with a mailbox of his own: to log in there buys no guess at others. */
GuessTest(pop3_guesses, a_login_to_an_own_mailbox_does_not_end_the_delay_of_the_address)
{
    cr_assert_eq(right("10.6.6.6", "mallory"), 0);
    guess_for("10.6.6.6", "ann", 8);
    cr_assert_eq(wrong("10.6.6.6", "bob"), 15 * SECOND);
    cr_assert_eq(right("10.6.6.6", "mallory"), 0);
    cr_assert_eq(wrong("10.6.6.6", "bob"), 15 * SECOND);
}

/* Her mail program looks for mail every minute. */
GuessTest(pop3_guesses, a_login_from_a_known_address_forgives_strangers_nothing)
{
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    guess_for("10.6.6.6", "ann", 8);
    cr_assert_eq(right("10.0.0.1", "ann"), 0);
    cr_assert_eq(wrong("10.6.6.7", "ann"), 15 * SECOND);
}

/* They push out what is in one set of 256, where perhaps one of these users has her place, too. */
GuessTest(pop3_guesses, logins_from_many_addresses_leave_others_theirs)
{
    enum { USERS = 64, FLOOD = 4 * POP3_GUESSES_SETS * POP3_GUESSES_WAYS };
    int locked_out = 0;
    char user[32];
    for (int i = 0; i < USERS; i++) {
        snprintf(user, sizeof user, "user%d", i);
        cr_assert_eq(right("10.0.0.1", user), 0);
    }
    for (int i = 0; i < FLOOD; i++) {
        char address[32];
        snprintf(address, sizeof address, "2001:db8:%x:%x::1", i >> 8, i & 255);
        cr_assert_eq(right(address, "mallory"), 0);
    }
    for (int i = 0; i < USERS; i++) {
        snprintf(user, sizeof user, "user%d", i);
        guess_for("10.6.6.6", user, 3);
        locked_out += right("10.0.0.1", user) > 0;
    }
    cr_assert_leq(locked_out, 4, "%d of %d users are not known any more", locked_out, USERS);
}

/* The table is full: whoever has guessed longest is remembered longest. */
GuessTest(pop3_guesses, a_flood_of_addresses_does_not_wash_away_a_guesser)
{
    enum { FLOOD = 4 * POP3_GUESSES_SETS * POP3_GUESSES_WAYS };
    guess_for("192.0.2.1", "ann", 8);
    for (int i = 0; i < FLOOD; i++) {
        char address[32];
        char user[32];
        snprintf(address, sizeof address, "10.%d.%d.%d", i >> 16, i >> 8 & 255, i & 255);
        snprintf(user, sizeof user, "flood%d", i);
        wrong(address, user);
    }
    cr_assert_eq(wrong("192.0.2.1", "bob"), 15 * SECOND);
    cr_assert_eq(wrong("192.0.2.2", "ann"), 15 * SECOND);
}

/* However many addresses they come from: otherwise each would look through a list of all others. */
GuessTest(pop3_guesses, so_many_are_under_way_and_no_more)
{
    static struct pop3_guess guess[POP3_GUESSES_UNDER_WAY + 1];
    struct endpoint peer;
    for (int i = 0; i <= POP3_GUESSES_UNDER_WAY; i++) {
        char address[32];
        char user[32];
        snprintf(address, sizeof address, "10.1.%d.%d", i / 256, i % 256);
        snprintf(user, sizeof user, "user%d", i);
        cr_assert(endpoint_parse(&peer, address, 1));
        cr_assert_eq(pop3_guesses_begin(guesses, &peer, user, now, &guess[i]) != 0,
                     i == POP3_GUESSES_UNDER_WAY, "number %d", i);
    }
    pop3_guesses_end(guesses, &guess[7], POP3_PASSWORD_NOT_TOLD, now);
    cr_assert_eq(right("10.2.0.1", "ann"), 0);
    for (int i = 0; i <= POP3_GUESSES_UNDER_WAY; i++) {
        if (i != 7) {
            pop3_guesses_end(guesses, &guess[i], POP3_PASSWORD_NOT_TOLD, now);
        }
    }
}
