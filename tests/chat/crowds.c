/*
 * Chat with many users: everybody gets every line of everybody else, whole, once, and in the order
 * in which its sender said it.
 */
#include "crowd.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(chat_crowds, .timeout = 120);

/** Lines are numbered by sender; each receiver remembers which one has to come next. */
struct numbers {
    int senders;
    int *next; /* receiver by sender */
    char wrong[200];
};

static double long_deadline(void)
{
    return test_now() + 4 * test_deadline_ms() / 1000.0;
}

/** Counts `[nick] sender=S line=L`, in order for each S. */
static bool hear_number(struct crowd *crowd, int member, const char *line, size_t length)
{
    struct numbers *numbers = crowd->book;
    char text[100];
    int sender;
    int number;
    if (length == 0 || line[0] != '[') {
        return false;
    }
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    if (sscanf(text, "[%*[^]]] sender=%d line=%d", &sender, &number) != 2 || sender < 0 ||
        sender >= numbers->senders) {
        snprintf(numbers->wrong, sizeof numbers->wrong, "member %d got `%s`", member, text);
        return false;
    }
    int *next = &numbers->next[member * numbers->senders + sender];
    if (number != *next) {
        snprintf(numbers->wrong, sizeof numbers->wrong,
                 "member %d got line %d of sender %d, and line %d was next", member, number, sender,
                 *next);
    }
    *next = number + 1;
    return true;
}

/** Members 0 to senders-1 say so many lines each; all hear all of them. */
static void all_hear_all(int users, int senders, int lines, bool one_by_one)
{
    struct server_process server = server_start("--app chat --output-cap 16777216");
    struct crowd crowd = crowd_gather(&server, users);
    struct numbers numbers = {.senders = senders};
    numbers.next = calloc((size_t)(users * senders), sizeof *numbers.next);
    crowd.book = &numbers;
    crowd.hear = hear_number;
    server_await_counter(&server, "accepted", users);
    /* Whoever is connected is a user as soon as he has read his greeting. */
    for (int i = 0; i < users; i++) {
        client_await_reply(crowd.members[i].fd);
    }
    for (int line = 0; line < lines; line++) {
        for (int i = 0; i < senders; i++) {
            char text[64];
            snprintf(text, sizeof text, "sender=%d line=%d\n", i, line);
            client_send_text(crowd.members[i].fd, text);
        }
        if (one_by_one) {
            crowd_receive(&crowd, crowd.heard + 1, long_deadline());
        }
    }
    long wanted = (long)senders * lines * (users - 1);
    bool all = crowd_receive(&crowd, wanted, long_deadline());
    cr_assert_str_empty(numbers.wrong);
    cr_assert(all, "%d users are to hear %ld lines in all; they heard %ld (%d were let go)", users,
              wanted, crowd.heard, crowd.ended);
    crowd_receive(&crowd, wanted + 1, test_now() + 0.1); /* nothing twice */
    cr_assert_str_empty(numbers.wrong);
    cr_assert_eq(crowd.heard, wanted, "%ld lines were heard, %ld said", crowd.heard, wanted);
    cr_assert_eq(crowd.ended, 0, "%d connections were closed", crowd.ended);
    crowd_leave(&crowd);
    free(numbers.next);
    server_stop(&server);
}

Test(chat_crowds, two_users_a_thousand_lines_each)
{
    all_hear_all(2, 2, 1000, false);
}

Test(chat_crowds, a_hundred_users_all_talking)
{
    all_hear_all(100, 100, probe_sanitized() ? 3 : 5, false);
}

/* A thousand that join are half a million notices before the first word is said. */
Test(chat_crowds, a_thousand_users_hear_each_of_a_hundred_messages_once)
{
    all_hear_all(probe_sanitized() ? 200 : 1000, 10, 10, true);
}

/* ---- names ---- */

enum { RENAMED = 300 };

/** What the crowd has read of names. */
struct names {
    int are;        /* of those who were told that they are called so now */
    long notices;   /* about one other user, in all */
    long announced; /* what the first user has read: each about one, or about so many */
};

static bool hear_names(struct crowd *crowd, int member, const char *line, size_t length)
{
    struct names *names = crowd->book;
    char text[200];
    int is_now = -1;
    long renamed = 0;
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    const char *count = strstr(text, " took another name");
    sscanf(text, "* user%*d is now %n", &is_now);
    while (count != NULL && count > text && strchr("0123456789", count[-1]) == NULL)
        count--; /* over `people` */
    while (count != NULL && count > text && strchr("0123456789", count[-1]) != NULL)
        renamed = strtol(--count, NULL, 10);
    names->are += strncmp(text, "* you are n", 11) == 0;
    names->notices += is_now > 0;
    names->announced += member == 0 ? (is_now > 0) + renamed : 0;
    return false;
}

/*
 * A server is started again, everybody comes and says his name. One line for each to everybody else
 * would be 90,000 here and two million with 1,500 users; then a line of theirs waits for a minute.
 */
ServerTest(chat_crowds, a_crowd_that_says_its_names_is_told_within_the_budget,
           "--app chat --output-cap 16777216")
{
    enum { SAVED = 16384, RATE = 4096 }; /* common/apps/chat/news.h */
    struct names names = {0};
    double start = test_now();
    struct crowd crowd = crowd_gather(server, RENAMED);
    crowd.book = &names;
    crowd.hear = hear_names;
    for (int i = 0; i < RENAMED; i++) {
        client_await_reply(crowd.members[i].fd);
    }
    for (int i = 0; i < RENAMED; i++) {
        char text[64];
        snprintf(text, sizeof text, "/nick n%d\n", i);
        client_send_text(crowd.members[i].fd, text);
    }
    double end = long_deadline();
    while ((names.are < RENAMED || names.announced < RENAMED - 1) && test_now() < end) {
        crowd_receive(&crowd, 1, test_now() + 0.1);
    }
    cr_assert_eq(names.are, RENAMED);
    cr_assert(names.announced == RENAMED || names.announced == RENAMED - 1,
              "the first user has read of %ld new names", names.announced);
    double allowed = SAVED + RATE * (test_now() - start) + RENAMED;
    cr_assert_leq((double)names.notices, allowed, "%ld lines, and %.0f are allowed", names.notices,
                  allowed);
    crowd_leave(&crowd);
}

/* ---- long lines ---- */

enum { LONG = 6000, LONG_LINES = 15, LONG_USERS = 20 };

/** The line of a sender: its number, and then one letter over and over. */
static size_t long_line(char *text, int sender, int number)
{
    int length = sprintf(text, "%02d %04d ", sender, number);
    memset(text + length, 'a' + sender, LONG);
    text[length + LONG] = '\n';
    return (size_t)length + LONG + 1;
}

static bool hear_long(struct crowd *crowd, int member, const char *line, size_t length)
{
    struct numbers *numbers = crowd->book;
    static char expected[LONG + 64];
    if (length == 0 || line[0] != '[') {
        return false;
    }
    const char *text = memchr(line, ' ', length);
    int sender = text ? atoi(text + 1) : -1;
    if (sender < 0 || sender >= LONG_USERS) {
        snprintf(numbers->wrong, sizeof numbers->wrong, "member %d got `%.60s`", member, line);
        return true;
    }
    int *next = &numbers->next[member * numbers->senders + sender];
    size_t whole = long_line(expected, sender, (*next)++) - 1;
    text++;
    if (length != (size_t)(text - line) + whole || memcmp(text, expected, whole) != 0) {
        snprintf(numbers->wrong, sizeof numbers->wrong,
                 "member %d got a line of sender %d mixed up: `%.60s`", member, sender, line);
    }
    return true;
}

/* Prefix and text of one never lie among another's, however many write to one receiver. */
ServerTest(chat_crowds, long_lines_of_many_senders_are_not_mixed,
           "--app chat --output-cap 33554432 --output-high-mark 33554432 --workers 4")
{
    static char text[LONG + 64];
    struct crowd crowd = crowd_gather(server, LONG_USERS);
    struct numbers numbers = {.senders = LONG_USERS};
    numbers.next = calloc((size_t)(LONG_USERS * LONG_USERS), sizeof *numbers.next);
    crowd.book = &numbers;
    crowd.hear = hear_long;
    for (int i = 0; i < LONG_USERS; i++) {
        client_await_reply(crowd.members[i].fd);
    }
    for (int line = 0; line < LONG_LINES; line++) {
        for (int i = 0; i < LONG_USERS; i++) {
            client_send(crowd.members[i].fd, text, long_line(text, i, line));
        }
    }
    long wanted = (long)LONG_LINES * LONG_USERS * (LONG_USERS - 1);
    bool all = crowd_receive(&crowd, wanted, long_deadline());
    cr_assert_str_empty(numbers.wrong);
    cr_assert(all, "%ld lines of %ld were heard (%d were let go)", crowd.heard, wanted,
              crowd.ended);
    crowd_leave(&crowd);
    free(numbers.next);
}
