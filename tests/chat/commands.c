/*
 * Chat: the commands.
 */
#include "chat_user.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(chat_commands, .timeout = 120);

#define BAD_NICK   "ERR a nickname has 1 to 24 letters, digits, - and _"
#define NO_COMMAND "ERR no such command; /help tells which there are"

ServerTest(chat_commands, nick_changes_the_name_and_all_are_told, "--app chat")
{
    char nick[CHAT_NICK_SIZE];
    char notice[80];
    int one = chat_join(server, nick);
    int two = chat_join_as(server, "two");
    client_send_text(one, "/nick Ron-H_42\n");
    chat_expect_line(one, "* you are Ron-H_42");
    snprintf(notice, sizeof notice, "* %s is now Ron-H_42", nick);
    chat_await_line(two, notice);
    chat_expect_heard(one, "Ron-H_42", two);
    client_send_text(one, "/nick   doug  \r\n"); /* blanks round the name do not matter */
    chat_expect_line(one, "* you are doug");
    chat_await_line(two, "* Ron-H_42 is now doug");
}

ServerTest(chat_commands, nick_refuses_what_is_no_name, "--app chat")
{
    static const char *const bad[] = {
        "/nick\n",
        "/nick \n",
        "/nick   \n",
        "/nick two words\n",
        "/nick two words \n",
        "/nick a[b]\n",
        "/nick caf\xc3\xa9\n",
        "/nick x\x1b[31m\n",
        "/nick *\n",
        "/nick ]\n",
        "/nick abcdefghijklmnopqrstuvwxy\n",
        "/nick a\tb\n",
    };
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        client_send_text(one, bad[i]);
        chat_expect_line(one, BAD_NICK);
    }
    client_send(one, "/nick a\0b\n", 10);
    chat_expect_line(one, BAD_NICK);
    chat_expect_heard(one, "one", two);
    client_send_text(one, "/nick abcdefghijklmnopqrstuvwx\n"); /* the longest there is */
    chat_expect_line(one, "* you are abcdefghijklmnopqrstuvwx");
    chat_expect_heard(one, "abcdefghijklmnopqrstuvwx", two);
}

ServerTest(chat_commands, nick_that_somebody_has_is_refused_until_it_is_free, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    static struct chat_line line;
    client_send_text(two, "/nick one\n");
    do {
        cr_assert_eq(chat_try_line(two, &line, test_deadline()), CLIENT_GOT);
    } while (strncmp(line.text, "ERR ", 4) != 0 && strncmp(line.text, "* you are", 9) != 0);
    cr_assert(strncmp(line.text, "ERR ", 4) == 0, "a nickname that is taken: `%s`", line.text);
    chat_expect_heard(two, "two", one);
    client_send_text(one, "/nick one\n"); /* one's own is not somebody else's */
    chat_expect_line(one, "* you are one");
    client_close(one);
    chat_await_line(two, "* one has left");
    client_send_text(two, "/nick one\n");
    chat_expect_line(two, "* you are one");
}

/* Many want one name at once; one of them gets it. */
ServerTest(chat_commands, nick_goes_to_one_of_many, "--app chat --workers 4")
{
    enum { USERS = 20, ROUNDS = 10 };
    static struct chat_line line;
    int users[USERS];
    for (int i = 0; i < USERS; i++) {
        char nick[CHAT_NICK_SIZE];
        users[i] = chat_join(server, nick);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int got_it = 0;
        char wish[32];
        snprintf(wish, sizeof wish, "/nick best%d\n", round);
        for (int i = 0; i < USERS; i++) {
            client_send_text(users[i], wish);
        }
        for (int i = 0; i < USERS; i++) {
            bool answered = false;
            while (!answered) {
                cr_assert_eq(chat_try_line(users[i], &line, test_deadline()), CLIENT_GOT,
                             "user %d got no answer", i);
                got_it += strncmp(line.text, "* you are best", 14) == 0;
                answered = strncmp(line.text, "* you are best", 14) == 0 ||
                           strncmp(line.text, "ERR ", 4) == 0;
            }
        }
        cr_assert_eq(got_it, 1, "round %d: %d users were given one name", round, got_it);
    }
}

static void expect_list(const char *options)
{
    enum { USERS = 30 };
    static struct chat_line line;
    static bool listed[USERS];
    int users[USERS];
    struct server_process server = server_start("--app chat %s", options);
    memset(listed, 0, sizeof listed);
    for (int i = 0; i < USERS; i++) {
        char nick[CHAT_NICK_SIZE];
        snprintf(nick, sizeof nick, "name-%d", i);
        users[i] = chat_join_as(&server, nick);
    }
    client_send_text(users[USERS - 1], "/who\n");
    chat_expect_line(users[USERS - 1], "* 30 here");
    for (int i = 0; i < USERS; i++) {
        int number;
        cr_assert_eq(chat_try_line(users[USERS - 1], &line, test_deadline()), CLIENT_GOT);
        cr_assert_eq(sscanf(line.text, "* name-%d", &number), 1, "`%s`", line.text);
        cr_assert(number >= 0 && number < USERS && !listed[number], "listed twice: %d", number);
        listed[number] = true;
    }
    client_close(users[0]);
    chat_await_line(users[1], "* name-0 has left");
    client_send_text(users[1], "/who\n");
    chat_expect_line(users[1], "* 29 here");
    server_close_all(&server);
}

Test(chat_commands, who_lists_all)
{
    expect_list("");
}

/* The list is longer than what may wait for a user: it goes on whenever its output has drained. */
Test(chat_commands, who_lists_all_however_long_the_list_is)
{
    expect_list("--output-high-mark 120 --output-low-mark 20 --output-cap 200");
}

ServerTest(chat_commands, quit_ends_the_connection_and_all_are_told, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    client_send_text(one, "bye\n/quit\n");
    chat_expect_line(one, "* goodbye");
    client_expect_end(one);
    chat_expect_line(two, "[one] bye");
    chat_await_line(two, "* one has left");
    client_send_text(two, "/who\n");
    chat_expect_line(two, "* 1 here");
}

ServerTest(chat_commands, case_03_nothing_behind_quit_is_executed, "--app chat")
{
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    client_send_text(one, "/quit\nI am still talking\n/nick two\n/quit\n/who\nand on\n");
    chat_expect_line(one, "* goodbye");
    client_expect_end(one);
    chat_expect_line(two, "* one has left");
    client_expect_silence(two, 50);
}

ServerTest(chat_commands, help_tells_the_commands, "--app chat --idle-timeout 12.5")
{
    static struct chat_line line;
    static char all[1000];
    int one = chat_join_as(server, "one");
    client_send_text(one, "/help\n/nothing\n");
    for (;;) {
        cr_assert_eq(chat_try_line(one, &line, test_deadline()), CLIENT_GOT);
        if (strcmp(line.text, NO_COMMAND) == 0) {
            break;
        }
        cr_assert(line.text[0] == '*', "`%s`", line.text);
        strncat(all, line.text, sizeof all - 1 - strlen(all));
    }
    cr_assert(strstr(all, "/nick NAME"), "help: %s", all);
    cr_assert(strstr(all, "/who"), "help: %s", all);
    cr_assert(strstr(all, "/quit"), "help: %s", all);
    cr_assert(strstr(all, "/help"), "help: %s", all);
    cr_assert(strstr(all, "nothing for 12.5 s"), "help: %s", all);
}

ServerTest(chat_commands, unknown_ones_are_answered_and_heard_by_nobody, "--app chat")
{
    static const char *const unknown[] = {"/\n",           "/nic x\n", "/WHO\n",
                                          "/nickname x\n", "//\n",     "/who\tx\n"};
    static char long_one[2000];
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        client_send_text(one, unknown[i]);
        chat_expect_line(one, NO_COMMAND);
    }
    memset(long_one, 'x', sizeof long_one - 2);
    long_one[0] = '/';
    long_one[sizeof long_one - 2] = '\n';
    client_send_text(one, long_one);
    chat_expect_line(one, "ERR no command is that long");
    chat_expect_heard(one, "one", two);
}

/* A command has at most 127 characters, its name and its argument together. */
ServerTest(chat_commands, the_longest_command, "--app chat")
{
    enum { LONGEST = 127 };
    int one = chat_join_as(server, "one");
    char command[LONGEST + 3];
    memset(command, 'x', sizeof command);
    command[0] = '/';
    strcpy(command + LONGEST, "\n");
    client_send_text(one, command);
    chat_expect_line(one, NO_COMMAND);
    strcpy(command + LONGEST, "x\n");
    client_send_text(one, command);
    chat_expect_line(one, "ERR no command is that long");
}

ServerTest(chat_commands, pipelined_ones_are_answered_in_order, "--app chat")
{
    int one = chat_join_as(server, "one");
    client_send_text(one, "/nick a\n/nick b\n/who\n/x\n/nick c\n/quit\n");
    chat_expect_line(one, "* you are a");
    chat_expect_line(one, "* you are b");
    chat_expect_line(one, "* 1 here");
    chat_expect_line(one, "* b");
    chat_expect_line(one, NO_COMMAND);
    chat_expect_line(one, "* you are c");
    chat_expect_line(one, "* goodbye");
    client_expect_end(one);
}

enum { OTHERS = 6, BLOCK_MS = 150 };

/* Goodbye does not wait behind what others say, and the connection is one like all others. */
ServerTest(chat_commands, quit_goes_first_in_a_priority_queue,
           "--app chat --workers 1 --queue priority --block-ms %d", BLOCK_MS)
{
    int clients[OTHERS];
    int urgent = client_connect(server);
    client_expect_text(urgent, "* welcome, you are user1; /help tells more\n");
    for (int i = 0; i < OTHERS; i++) {
        char hello[100];
        clients[i] = client_connect(server);
        snprintf(hello, sizeof hello, "* welcome, you are user%d; /help tells more\n", i + 2);
        client_expect_text(clients[i], hello);
    }
    for (int i = 0; i < OTHERS; i++) {
        client_send_text(clients[i], "/nick x y\n"); /* answered to this client alone */
        client_await_delivered(clients[i]);
    }
    client_send_text(urgent, "/quit\n");
    char last[4096];
    size_t length = 0;
    last[0] = '\0';
    while (!strstr(last, "* goodbye\n")) {
        cr_assert(test_await(urgent, POLLIN, test_deadline()));
        ssize_t got = recv(urgent, last + length, sizeof last - 1 - length, 0);
        cr_assert_gt(got, 0);
        length += (size_t)got;
        last[length] = '\0';
    }
    static char text[4096];
    ssize_t got = recv(clients[OTHERS - 1], text, sizeof text - 1, MSG_PEEK | MSG_DONTWAIT);
    text[got > 0 ? got : 0] = '\0';
    cr_assert_null(strstr(text, "ERR"), "the last of those that waited was served before it");
}
