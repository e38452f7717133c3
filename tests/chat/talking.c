/*
 * Chat: what one user says, all others hear, and nothing else.
 */
#include "chat_user.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(chat_talking, .timeout = 120);

ServerTest(chat_talking, the_server_says_that_it_is_a_chat, "--app chat")
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s: chat on 127.0.0.1:%d", server_name(), server->port);
    cr_assert_str_eq(server->ready_line, wanted);
}

ServerTest(chat_talking, greeting_tells_the_nickname, "--app chat")
{
    char nick[CHAT_NICK_SIZE];
    int user = chat_join(server, nick);
    client_send_text(user, "/who\n");
    chat_expect_line(user, "* 1 here");
    char wanted[64];
    snprintf(wanted, sizeof wanted, "* %s", nick);
    chat_expect_line(user, wanted);
}

ServerTest(chat_talking, nobody_gets_a_nickname_that_somebody_has, "--app chat")
{
    enum { USERS = 20 };
    static char nicks[USERS][CHAT_NICK_SIZE];
    int users[USERS];
    for (int i = 0; i < USERS; i++) {
        users[i] = chat_join(server, nicks[i]);
        for (int j = 0; j < i; j++) {
            cr_assert_str_neq(nicks[i], nicks[j], "two users were called the same");
        }
    }
    /* Not even if a user has taken the name that would be made up next. */
    chat_join_as(server, "user30");
    for (int i = 0; i < USERS; i++) {
        char nick[CHAT_NICK_SIZE];
        int user = chat_join(server, nick);
        cr_assert_str_neq(nick, "user30", "a nickname was given to two");
        client_close(user);
        client_close(users[i]);
    }
}

ServerTest(chat_talking, two_users, "--app chat")
{
    char nick[2][CHAT_NICK_SIZE];
    int one = chat_join(server, nick[0]);
    int two = chat_join(server, nick[1]);
    chat_expect_heard(one, nick[0], two);
    chat_expect_heard(two, nick[1], one);
}

/* The sender hears no echo: the next thing that he reads is the answer to his next command. */
ServerTest(chat_talking, everybody_else_hears_it_and_the_sender_does_not, "--app chat")
{
    enum { USERS = 10 };
    int users[USERS];
    for (int i = 0; i < USERS; i++) {
        char nick[CHAT_NICK_SIZE];
        snprintf(nick, sizeof nick, "u%d", i);
        users[i] = chat_join_as(server, nick);
    }
    for (int i = 0; i < USERS; i++) {
        char said[64];
        char heard[80];
        snprintf(said, sizeof said, "this is %d speaking\n", i);
        snprintf(heard, sizeof heard, "[u%d] this is %d speaking", i, i);
        client_send_text(users[i], said);
        for (int j = 0; j < USERS; j++) {
            if (j != i) {
                chat_expect_line(users[j], heard);
            }
        }
        client_send_text(users[i], "/nothing\n");
        chat_expect_line(users[i], "ERR no such command; /help tells which there are");
    }
}

ServerTest(chat_talking, lines_of_one_sender_arrive_in_order, "--app chat --output-cap 16777216")
{
    enum { LINES = 5000 };
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    client_send(one, lines, length);
    for (int i = 0; i < LINES; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "[one] line %06d", i);
        chat_expect_line(two, wanted);
    }
    free(lines);
}

ServerTest(chat_talking, joining_and_leaving_is_told, "--app chat")
{
    char nick[CHAT_NICK_SIZE];
    char text[80];
    int stays = chat_join_as(server, "stays");
    for (int how = 0; how < 4; how++) {
        int comes = chat_join(server, nick);
        snprintf(text, sizeof text, "* %s is here", nick);
        chat_await_line(stays, text);
        snprintf(text, sizeof text, "* %s has left", nick);
        switch (how) {
        case 0: client_half_close(comes); break;
        case 1: client_reset(comes); break;
        case 2: client_close(comes); break;
        default: client_send_text(comes, "/quit\n"); break;
        }
        chat_await_line(stays, text);
        if (how == 0 || how == 3) {
            client_close(comes);
        }
    }
}

/* ---- line ends ---- */

/* Hitchens' chat ate the bare line end, and let what followed it wait for the next event. */
ServerTest(chat_talking, erratum_02_bare_line_end_does_not_stall_what_follows, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    static const char *const sent[] = {"\r\nhello\n", "\nhello\n", "\n\n\r\n\nhello\r\n",
                                       "\r\nhello\n\r\n"};
    for (size_t i = 0; i < sizeof sent / sizeof sent[0]; i++) {
        client_send_text(one, sent[i]);
        chat_expect_line(two, "[one] hello");
    }
    client_expect_silence(two, 50);
}

ServerTest(chat_talking, erratum_02_thousands_of_bare_line_ends, "--app chat")
{
    enum { BLANKS = 20000 };
    static char blanks[BLANKS];
    memset(blanks, '\n', sizeof blanks);
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    client_send(one, blanks, sizeof blanks);
    client_send_text(one, "still here\n");
    chat_expect_line(two, "[one] still here");
}

ServerTest(chat_talking, a_line_may_come_byte_by_byte, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    for (const char *c = "slowly\r\n"; *c != '\0'; c++) {
        client_send(one, c, 1);
        client_await_delivered(one);
    }
    chat_expect_line(two, "[one] slowly");
}

ServerTest(chat_talking, what_was_said_before_leaving_is_heard_and_half_a_line_is_not, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    client_send_text(one, "farewell\nhalf a li");
    client_half_close(one);
    chat_expect_line(two, "[one] farewell");
    chat_await_line(two, "* one has left");
    client_expect_silence(two, 50);
}

/* ---- what is said ---- */

/* What was sent, and what the others hear. */
static const struct relayed {
    const char *sent;
    size_t length;
    const char *heard;
} relayed[] = {
#define RELAYED(sent, heard)                                                                       \
    {                                                                                              \
        sent, sizeof(sent) - 1, heard                                                              \
    }
    RELAYED("plain text, ~ and !", "plain text, ~ and !"),
    RELAYED("nul \0 inside", "nul ? inside"),
    RELAYED("\x1b[2J\x1b]0;owned\x07", "?[2J?]0;owned?"),
    RELAYED("bell\a back\b tab\t vt\v ff\f del\x7f", "bell? back? tab? vt? ff? del?"),
    RELAYED("carriage\rreturn", "carriage?return"),
    RELAYED("\x01\x02\x03\x1f", "????"),
    RELAYED("c1 \xc2\x9b"
            "31m and \xc2\x80 and \xc2\x9f",
            "c1 ??31m and ?? and ??"),
    RELAYED("raw c1 \x9b"
            "31m and \x90q and \x80\x9f",
            "raw c1 ?31m and ?q and ??"),
    /* What is no UTF-8: a character that is cut short, one that is longer than it need be, a
     * surrogate, one above U+10FFFF, and bytes that occur in no character. */
    RELAYED("\xe2\x9b and \xf0\x90\x9b", "\xe2? and \xf0??"),
    RELAYED("\xc0\x9b and \xe0\x82\x9b and \xf0\x80\x82\x9b", "\xc0? and \xe0?? and \xf0???"),
    RELAYED("\xed\xa0\x9b and \xf4\x90\x80\x9b", "\xed\xa0? and \xf4???"),
    RELAYED("\xf8\x88\x80\x80\x9b and \xff\x9b", "\xf8???? and \xff?"),
    RELAYED("latin-1 caf\xe9, \xa9", "latin-1 caf\xe9, \xa9"),
    RELAYED("\xe2\x82\xac \xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf \xdf\x9b",
            "\xe2\x82\xac \xed\x9f\xbf \xee\x80\x80 \xf4\x8f\xbf\xbf \xdf\x9b"),
    RELAYED("gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"),
    RELAYED("\xe4\xbd\xa0\xe5\xa5\xbd", "\xe4\xbd\xa0\xe5\xa5\xbd"),
    RELAYED("\xf0\x9f\x90\x8d and \xc2\xa0 and \xc2\xa9",
            "\xf0\x9f\x90\x8d and \xc2\xa0 and \xc2\xa9"),
    RELAYED(" [one] spaces stay ", " [one] spaces stay "),
};

/** Whether there is something in the text that a terminal could take as an order. */
static bool has_control(const char *text, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < length; i++) {
        bool c1 = bytes[i] == 0xc2 && i + 1 < length && bytes[i + 1] >= 0x80 && bytes[i + 1] < 0xa0;
        if (bytes[i] < ' ' || bytes[i] == 0x7f || c1) {
            return true;
        }
    }
    return false;
}

ServerTest(chat_talking, control_characters_are_not_relayed_and_other_text_is, "--app chat")
{
    static struct chat_line line;
    static const char prefix[] = "[one] ";
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    for (size_t i = 0; i < sizeof relayed / sizeof relayed[0]; i++) {
        client_send(one, relayed[i].sent, relayed[i].length);
        client_send_text(one, "\n");
        do {
            cr_assert_eq(chat_try_line(two, &line, test_deadline()), CLIENT_GOT,
                         "text %zu does not arrive", i);
        } while (line.text[0] == '*');
        cr_assert(strncmp(line.text, prefix, strlen(prefix)) == 0, "text %zu: `%s`", i, line.text);
        cr_assert_not(has_control(line.text, line.length), "text %zu: `%s`", i, line.text);
        if (relayed[i].heard) {
            cr_assert_str_eq(line.text + strlen(prefix), relayed[i].heard, "text %zu", i);
        }
    }
}

/* A C1 control character may come in two reads; what is relayed is the line, not the reads. */
ServerTest(chat_talking, control_character_in_two_segments, "--app chat")
{
    static struct chat_line line;
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    client_send(one, "x\xc2", 2);
    client_await_delivered(one);
    client_send(one, "\x9b!\n", 3);
    do {
        cr_assert_eq(chat_try_line(two, &line, test_deadline()), CLIENT_GOT);
    } while (line.text[0] == '*');
    cr_assert_not(has_control(line.text, line.length), "`%s`", line.text);
}

enum { MOST = 1000 };

ServerTest(chat_talking, longest_line_is_heard_and_a_longer_one_ends_the_sender,
           "--app chat --max-line %d", MOST)
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    size_t length;
    char *longest = line_of(MOST, "\r\n", &length);
    char *longer = line_of(MOST + 1, "\n", &length);
    char wanted[MOST + 32];
    snprintf(wanted, sizeof wanted, "[one] %.*s", MOST, longest);
    client_send_text(one, longest);
    chat_expect_line(two, wanted);
    client_send_text(one, "before\n");
    client_send_text(one, longer);
    chat_expect_line(two, "[one] before");
    chat_await_line(one, "ERR line too long");
    client_expect_end(one);
    chat_await_line(two, "* one has left");
    free(longest);
    free(longer);
}
