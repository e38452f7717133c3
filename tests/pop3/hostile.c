/*
 * POP3: clients that do not keep to it, and clients that vanish.
 */
#include "pop3_client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pop3_hostile, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

#define LOGIN "USER ann\r\nPASS " MAILBOX_PASSWORD "\r\n"

static void expect_ok(int client, int lines)
{
    for (int i = 0; i < lines; i++) {
        const char *line = pop3_line(client);
        cr_assert(strncmp(line, "+OK", 3) == 0, "answer %d of %d: %s", i + 1, lines, line);
    }
}

MailTest(pop3_hostile, case_01_one_byte_at_a_time, "")
{
    static const char text[] = LOGIN "STAT\r\nDELE 1\r\nQUIT\r\n";
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_connect(server);
    for (size_t i = 0; i < sizeof text - 1; i++) {
        client_send(client, text + i, 1);
        client_await_delivered(client);
    }
    expect_ok(client, 5);
    client_expect_end(client);
    client_close(client);
    cr_assert_not(mailboxes_have("ann/new/1.one"));
}

Test(pop3_hostile, case_02_a_thousand_commands_in_one_segment)
{
    enum { COMMANDS = 1000 };
    static char text[COMMANDS * 16];
    char *end = text;
    mailboxes_deliver("ann/new/1.one", "one\n");
    mailboxes_deliver("ann/new/2.two", "a\nb\n");
    for (int i = 0; i < COMMANDS; i++) {
        end += sprintf(end,
                       i % 3 == 0   ? "LIST %d\r\n"
                       : i % 3 == 1 ? "RETR %d\r\n"
                                    : "TOP %d 0\r\n",
                       i % 2 + 1);
    }
    struct server_process server = mailboxes_serve("");
    int client = pop3_login(&server, "ann");
    client_send(client, text, (size_t)(end - text));
    for (int i = 0; i < COMMANDS; i++) {
        const char *line = pop3_line(client);
        if (i % 3 == 0) {
            cr_assert_str_eq(line, i % 2 ? "+OK 2 6" : "+OK 1 5", "answer %d", i);
        } else {
            cr_assert(strncmp(line, "+OK", 3) == 0, "answer %d: %s", i, line);
            client_expect_text(client, i % 2 ? "a\r\nb\r\n.\r\n" : "one\r\n.\r\n");
        }
    }
    pop3_quit(client);
    server_stop(&server);
}

MailTest(pop3_hostile, case_03_nothing_behind_quit_is_done, "")
{
    static const char *const texts[] = {
        LOGIN "QUIT\r\nDELE 1\r\nQUIT\r\n",
        LOGIN "QUIT\r\n" LOGIN "DELE 1\r\nQUIT\r\n",
        "QUIT\r\n" LOGIN "DELE 1\r\nQUIT\r\n",
    };
    static const int answers[] = {3, 3, 1};
    mailboxes_deliver("ann/new/1.one", "one\n");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int client = pop3_connect(server);
        client_send_text(client, texts[i]);
        expect_ok(client, answers[i]);
        client_expect_end(client);
        client_close(client);
        cr_assert(mailboxes_have("ann/new/1.one"), "%s", texts[i]);
    }
}

MailTest(pop3_hostile, case_14_half_a_command_then_silence, "--request-timeout 0.4")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 1");
    client_send_text(client, "QUIT\r"); /* its LF never comes */
    client_expect_gone(client);
    client_close(client);
    server_await_counter(server, "closed", 1);
    cr_assert(mailboxes_have("ann/new/1.one"));
    client = pop3_login(server, "ann");
    pop3_quit(client);
}

MailTest(pop3_hostile, case_15_one_byte_now_and_then, "--request-timeout 0.6 --idle-timeout 0.5")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 1");
    double begin = test_now();
    double end = begin + test_deadline_ms() / 1000.0;
    int bytes = 0;
    while (!test_await(client, POLLIN, test_now() + 0.1) && test_left_ms(end) > 0) {
        client_try_send(client, "N", 1, end);
        bytes++;
    }
    cr_assert_lt(bytes, 200, "after %d bytes of a command it is still not closed", bytes);
    client_expect_gone(client);
    client_close(client);
    server_await_counter(server, "timed_out", 1);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

MailTest(pop3_hostile, case_17_a_command_that_is_too_long, "")
{
    enum { LONGEST = 253 }; /* and CR LF: 255 */
    char command[400];
    size_t length;
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 1");
    memset(command, ' ', sizeof command);
    memcpy(command, "NOOP", 4);
    command[LONGEST] = '\0';
    pop3_ok(client, command); /* just not too long */
    command[LONGEST] = ' ';
    command[LONGEST + 1] = '\0';
    pop3_error(client, command);
    client_expect_end(client);
    client_close(client);
    client = pop3_connect(server);
    char *endless = line_of(1 << 20, "\r\nQUIT\r\n", &length);
    client_try_send(client, endless, length, test_deadline());
    cr_assert(strncmp(pop3_line(client), "-ERR", 4) == 0);
    client_expect_gone(client);
    client_close(client);
    free(endless);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

MailTest(pop3_hostile, case_18_numbers_that_are_none, "")
{
    static const char *const bad[] = {
        "RETR",
        "RETR ",
        "RETR 0",
        "RETR 2",
        "RETR -1",
        "RETR +1",
        "RETR 1x",
        "RETR x",
        "RETR 1 1",
        "RETR 1.0",
        "RETR 0x1",
        "RETR 4294967297",
        "RETR\t1",
        "RETR \xd9\xa1",
        "RETR 18446744073709551617",
        "LIST 0",
        "LIST -1",
        "LIST 2",
        "LIST 1 1",
        "UIDL 0",
        "UIDL x",
        "UIDL 9999999999999999999999999999999999",
        "DELE",
        "DELE -1",
        "DELE 18446744073709551617",
        "TOP",
        "TOP 1",
        "TOP 1 -1",
        "TOP 1 x",
        "TOP 0 1",
        "TOP 1 1 1",
        "TOP 2 0",
        "TOP -1 0",
        "STAT 1",
        "QUIT now",
        "CAPA x",
        "RSET 1",
    };
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pop3_error(client, bad[i]);
        cr_assert_str_eq(pop3_ok(client, "STAT"), "1 5", "after `%s`", bad[i]);
    }
    pop3_expect_lines(client, "RETR 01", "one\r\n");
    pop3_quit(client);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

MailTest(pop3_hostile, case_18_zeros_in_commands, "")
{
    static const struct {
        const char *text;
        size_t length;
    } bad[] = {{"STAT\0\r\n", 7}, {"\0\r\n", 3},     {"RETR 1\0x\r\n", 10},   {"DELE 1\0\r\n", 9},
               {"QUIT\0\r\n", 7}, {"\0STAT\r\n", 7}, {"RETR 1\0\0\0\r\n", 11}};
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_connect(server);
    client_send(client, "USER ann\0x\r\n", 12);
    cr_assert(strncmp(pop3_line(client), "-ERR", 4) == 0);
    pop3_ok(client, "USER ann");
    client_send(client, "PASS " MAILBOX_PASSWORD "\0x\r\n", 5 + strlen(MAILBOX_PASSWORD) + 4);
    cr_assert(strncmp(pop3_line(client), "-ERR", 4) == 0);
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        client_send(client, bad[i].text, bad[i].length);
        const char *line = pop3_line(client);
        cr_assert(strncmp(line, "-ERR", 4) == 0, "%zu: %s", i, line);
    }
    cr_assert_str_eq(pop3_ok(client, "STAT"), "1 5");
    pop3_quit(client);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

/* ---- vanishing ---- */

/** Sends the beginning of a session that deletes a message, and is gone in one of three ways. */
static void vanish(const struct server_process *server, const char *text, size_t length, int way)
{
    int client = pop3_connect(server);
    client_send(client, text, length);
    client_await_delivered(client);
    switch (way) {
    case 0: client_close(client); break;
    case 1: client_reset(client); break;
    default:
        client_half_close(client);
        while (test_await(client, POLLIN, test_deadline())) {
            char byte[256];
            size_t got;
            if (client_try_receive(client, byte, sizeof byte, test_now() + 0.1, &got) ==
                CLIENT_ENDED) {
                break;
            }
        }
        client_close(client);
        break;
    }
}

Test(pop3_hostile, case_21_one_client_too_many)
{
    static const struct {
        const char *option;
        const char *text;
    } ways[] = {
        {"--max-connections 1", "-ERR [SYS/TEMP] server busy\r\n"},
        {"--max-connections 1 --overload redirect=other.example:110",
         "-ERR [SYS/TEMP] server busy, try other.example:110\r\n"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct server_process server = mailboxes_serve(ways[i].option);
        int first = pop3_login(&server, "ann");
        int second = client_connect(&server);
        client_expect_text(second, ways[i].text);
        client_expect_end(second);
        pop3_ok(first, "NOOP");
        pop3_quit(first);
        client_close(second);
        server_stop(&server);
    }
}

/* Out of descriptors, past what --max-connections was to keep: the text is POP3 as well. */
Test(pop3_hostile, case_19_out_of_descriptors_is_said_in_pop3)
{
    static const struct {
        const char *option;
        const char *text;
    } ways[] = {
        {"", "-ERR [SYS/TEMP] server busy\r\n"},
        {"--overload redirect=other.example:110",
         "-ERR [SYS/TEMP] server busy, try other.example:110\r\n"},
    };
    enum { DESCRIPTORS = 32 };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int clients[DESCRIPTORS];
        char line[POP3_LINE_SIZE] = "+OK";
        int count = 0;
        struct server_process server = server_start_limited(
            (struct server_limits){.descriptors = DESCRIPTORS},
            "--app pop3 --mail-dir %s --users %s/users --max-connections 1000 %s",
            mailboxes_path("."), mailboxes_path("."), ways[i].option);
        while (strncmp(line, "+OK", 3) == 0) {
            cr_assert_lt(count, DESCRIPTORS);
            clients[count] = client_connect(&server);
            snprintf(line, sizeof line, "%s\r\n", pop3_line(clients[count++]));
        }
        cr_assert_str_eq(line, ways[i].text);
        client_expect_end(clients[count - 1]);
        while (count > 0) {
            client_close(clients[--count]);
        }
        server_stop(&server);
    }
}

/* The default --max-connections leaves everybody who is let in the descriptors of a session. */
Test(pop3_hostile, case_19_all_that_are_let_in_can_log_in)
{
    enum { DESCRIPTORS = 64 };
    int clients[DESCRIPTORS];
    int count = 0;
    char user[32];
    for (int i = 0; i < DESCRIPTORS; i++) {
        snprintf(user, sizeof user, "user%d", i);
        mailboxes_add_user(user);
        mailboxes_add_mailbox(user);
    }
    struct server_process server = server_start_limited(
        (struct server_limits){.descriptors = DESCRIPTORS},
        "--app pop3 --mail-dir %s --users %s/users", mailboxes_path("."), mailboxes_path("."));
    do {
        cr_assert_lt(count, DESCRIPTORS, "nobody is turned away");
        clients[count] = client_connect(&server);
    } while (strncmp(pop3_line(clients[count++]), "+OK", 3) == 0);
    client_close(clients[--count]); /* that one was turned away */
    cr_assert_geq(count, 8, "only %d clients are let in", count);
    for (int i = 0; i < count; i++) {
        char command[64];
        snprintf(command, sizeof command, "USER user%d", i);
        pop3_ok(clients[i], command);
        pop3_ok(clients[i], "PASS " MAILBOX_PASSWORD);
    }
    while (count > 0) {
        pop3_quit(clients[--count]);
    }
    server_stop(&server);
}

/* Unless QUIT came to its last byte, nothing is lost; and each time the mailbox is free again. */
MailTest(pop3_hostile, vanishing_at_every_byte, "--log error")
{
    static const char text[] = LOGIN "DELE 1\r\nDELE 2\r\nNOOP\r\nQUIT\r\n";
    enum { LENGTH = sizeof text - 1, WAYS = 3 };
    mailboxes_deliver("ann/new/1.one", "one\n");
    mailboxes_deliver("ann/cur/2.two:2,S", "two\n");
    long before = probe_descriptors(server->pid);
    long long closed = 0;
    for (size_t length = 0; length < LENGTH; length++) {
        for (int way = 0; way < WAYS; way++) {
            vanish(server, text, length, way);
            closed++;
            cr_assert(mailboxes_have("ann/new/1.one") && mailboxes_have("ann/cur/2.two:2,S"),
                      "lost after %zu bytes of %d, way %d", length, (int)LENGTH, way);
            /* The lock, too: a session that is not over yet would keep the next one out. */
            if (way == WAYS - 1) {
                server_await_counter(server, "closed", closed);
            }
        }
    }
    cr_assert(probe_await_descriptors(server->pid, before), "%ld descriptors before, %ld after",
              before, probe_descriptors(server->pid));
    cr_assert(mailboxes_have("ann/new/1.one") && mailboxes_have("ann/cur/2.two:2,S"));
    vanish(server, text, LENGTH, 2);
    cr_assert_not(mailboxes_have("ann/new/1.one") || mailboxes_have("ann/cur/2.two:2,S"),
                  "QUIT was whole, and nothing was removed");
}

/* A session that the server's own end cuts short deletes nothing either. */
Test(pop3_hostile, the_end_of_the_server_is_no_quit)
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct server_process server = mailboxes_serve("--drain-timeout 0.5");
    int client = pop3_login(&server, "ann");
    pop3_ok(client, "DELE 1");
    server_stop(&server);
    client_expect_gone(client);
    client_close(client);
    cr_assert(mailboxes_have("ann/new/1.one"));
}
