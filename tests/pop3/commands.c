/*
 * POP3: the commands, each in the states in which it may be given.
 */
#include "pop3_client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(pop3_commands, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

/** Three messages, in the order of their names: of 7, 12 and 8 octets. */
static void deliver_three(void)
{
    mailboxes_deliver("ann/new/2.two", "second\nno\n");
    mailboxes_deliver("ann/cur/1.one:2,S", "first\n");
    mailboxes_deliver("ann/new/3.three", "third\r\n\n");
}

static bool has_line(const char *text, const char *wanted)
{
    const char *found = strstr(text, wanted);
    return found && (found == text || found[-1] == '\n') && found[strlen(wanted)] == '\r';
}

MailTest(pop3_commands, capabilities_are_listed_in_both_states, "")
{
    static const char *const wanted[] = {"USER",           "TOP",       "UIDL", "RESP-CODES",
                                         "AUTH-RESP-CODE", "PIPELINING"};
    int client = pop3_connect(server);
    for (int i = 0; i < 2; i++) {
        size_t length;
        pop3_ok(client, "CAPA");
        char *text = pop3_lines(client, &length);
        for (size_t j = 0; j < sizeof wanted / sizeof wanted[0]; j++) {
            cr_assert(has_line(text, wanted[j]), "no %s in: %s", wanted[j], text);
        }
        free(text);
        if (i == 0) {
            pop3_ok(client, "USER ann");
            pop3_ok(client, "PASS " MAILBOX_PASSWORD);
        }
    }
    pop3_quit(client);
}

MailTest(pop3_commands, stat_list_and_uidl_tell_what_is_there, "")
{
    deliver_three();
    int client = pop3_login(server, "ann");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "3 28");
    pop3_expect_lines(client, "LIST", "1 7\r\n2 12\r\n3 9\r\n");
    pop3_expect_lines(client, "UIDL", "1 1.one\r\n2 2.two\r\n3 3.three\r\n");
    cr_assert_str_eq(pop3_ok(client, "LIST 2"), "2 12");
    cr_assert_str_eq(pop3_ok(client, "UIDL 1"), "1 1.one");
    pop3_quit(client);
}

MailTest(pop3_commands, an_empty_mailbox_has_empty_lists, "")
{
    int client = pop3_login(server, "ann");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "0 0");
    pop3_expect_lines(client, "LIST", "");
    pop3_expect_lines(client, "UIDL", "");
    pop3_error(client, "RETR 1");
    pop3_quit(client);
}

/* Numbers do not move up, and what is deleted is named by no command. */
MailTest(pop3_commands, dele_hides_a_message_and_rset_brings_it_back, "")
{
    static const char *const naming[] = {"RETR 2", "LIST 2", "UIDL 2", "TOP 2 0", "DELE 2"};
    deliver_three();
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 2");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "2 16");
    pop3_expect_lines(client, "LIST", "1 7\r\n3 9\r\n");
    pop3_expect_lines(client, "UIDL", "1 1.one\r\n3 3.three\r\n");
    for (size_t i = 0; i < sizeof naming / sizeof naming[0]; i++) {
        pop3_error(client, naming[i]);
    }
    pop3_ok(client, "RSET");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "3 28");
    pop3_expect_lines(client, "RETR 2", "second\r\nno\r\n");
    pop3_quit(client);
    cr_assert(mailboxes_have("ann/new/2.two"), "RSET, and gone nonetheless");
}

MailTest(pop3_commands, quit_removes_what_was_deleted_and_nothing_else, "")
{
    deliver_three();
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 1");
    pop3_ok(client, "DELE 3");
    cr_assert(mailboxes_have("ann/cur/1.one:2,S") && mailboxes_have("ann/new/3.three"),
              "gone before QUIT");
    pop3_quit(client);
    cr_assert(!mailboxes_have("ann/cur/1.one:2,S") && !mailboxes_have("ann/new/3.three"));
    cr_assert(mailboxes_have("ann/new/2.two"));
    client = pop3_login(server, "ann");
    pop3_expect_lines(client, "LIST", "1 12\r\n");
    pop3_quit(client);
}

/* What cannot be removed is told, and the session is over all the same. */
MailTest(pop3_commands, quit_tells_that_something_could_not_be_removed, "")
{
    deliver_three();
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 2");
    pop3_ok(client, "DELE 3");
    shell("cd %s && rm 2.two && mkdir 2.two", mailboxes_path("ann/new"));
    pop3_error(client, "QUIT");
    client_expect_end(client);
    client_close(client);
    cr_assert_not(mailboxes_have("ann/new/3.three"), "the others were to be removed");
}

MailTest(pop3_commands, quit_before_the_password_is_just_that, "")
{
    deliver_three();
    int client = pop3_connect(server);
    pop3_quit(client);
}

MailTest(pop3_commands, each_state_has_its_commands, "")
{
    static const char *const later[] = {"STAT",    "LIST",   "UIDL", "RETR 1",
                                        "TOP 1 0", "DELE 1", "NOOP", "RSET"};
    static const char *const earlier[] = {"USER ann", "PASS " MAILBOX_PASSWORD};
    deliver_three();
    int client = pop3_connect(server);
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        pop3_error(client, later[i]);
    }
    pop3_error(client, "PASS " MAILBOX_PASSWORD); /* whose? */
    pop3_ok(client, "USER ann");
    pop3_error(client, "STAT");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    for (size_t i = 0; i < sizeof earlier / sizeof earlier[0]; i++) {
        pop3_error(client, earlier[i]);
    }
    pop3_ok(client, "NOOP");
    pop3_quit(client);
    cr_assert(mailboxes_have("ann/cur/1.one:2,S"), "deleted before the password");
}

MailTest(pop3_commands, names_in_any_case_and_lines_that_end_in_lf, "")
{
    deliver_three();
    int client = pop3_connect(server);
    pop3_ok(client, "user ann");
    pop3_ok(client, "pAsS " MAILBOX_PASSWORD);
    client_send_text(client, "stat\nLiSt 1\n");
    cr_assert_str_eq(pop3_line(client), "+OK 3 28");
    cr_assert_str_eq(pop3_line(client), "+OK 1 7");
    pop3_error(client, "");
    pop3_error(client, "STATS");
    pop3_error(client, "XYZZY 1");
    pop3_quit(client);
}

/* TOP: the header, the blank line, and so many lines of the body. */
MailTest(pop3_commands, top_sends_the_header_and_some_lines, "")
{
    mailboxes_deliver("ann/new/1.lf", "A: b\nC: d\n\none\n.two\n\nfour\n");
    mailboxes_deliver("ann/new/2.crlf", "A: b\r\n\r\none\r\ntwo\r\n");
    mailboxes_deliver("ann/new/3.header", "A: b\nC: d");
    mailboxes_deliver("ann/new/4.body", "\n\none\n");
    int client = pop3_login(server, "ann");
    pop3_expect_lines(client, "TOP 1 0", "A: b\r\nC: d\r\n\r\n");
    pop3_expect_lines(client, "TOP 1 1", "A: b\r\nC: d\r\n\r\none\r\n");
    pop3_expect_lines(client, "TOP 1 3", "A: b\r\nC: d\r\n\r\none\r\n..two\r\n\r\n");
    pop3_expect_lines(client, "TOP 1 4", "A: b\r\nC: d\r\n\r\none\r\n..two\r\n\r\nfour\r\n");
    pop3_expect_lines(client, "TOP 1 99999999999999999999999999",
                      "A: b\r\nC: d\r\n\r\none\r\n..two\r\n\r\nfour\r\n");
    pop3_expect_lines(client, "TOP 2 0", "A: b\r\n\r\n");
    pop3_expect_lines(client, "TOP 2 1", "A: b\r\n\r\none\r\n");
    pop3_expect_lines(client, "TOP 3 0", "A: b\r\nC: d\r\n");
    pop3_expect_lines(client, "TOP 4 0", "\r\n");
    pop3_expect_lines(client, "TOP 4 1", "\r\n\r\n");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "4 72"); /* nothing of an answer is left over */
    pop3_quit(client);
}

/* A list that takes many pieces. */
Test(pop3_commands, long_lists_are_whole)
{
    enum { MESSAGES = 1200, LINE = 32 };
    char place[32], first[32];
    static char sizes[MESSAGES * LINE];
    static char names[MESSAGES * LINE];
    char *size = sizes;
    char *name = names;
    for (int i = 1; i <= MESSAGES; i++) {
        snprintf(place, sizeof place, "ann/new/%06d.m", i);
        if (i <= 13) {
            mailboxes_deliver_bytes(place, "xxxxxxxxxxxx\n", (size_t)(i % 13));
        } else {
            snprintf(first, sizeof first, "ann/new/%06d.m", (i - 1) % 13 + 1);
            mailboxes_deliver_again(place, first);
        }
        int octets = i % 13 ? i % 13 + 2 : 0; /* with the line end that the file lacks */
        size += snprintf(size, LINE, "%d %d\r\n", i, octets);
        name += snprintf(name, LINE, "%d %06d.m\r\n", i, i);
    }
    struct server_process server = mailboxes_serve("");
    int client = pop3_login(&server, "ann");
    pop3_expect_lines(client, "LIST", sizes);
    pop3_expect_lines(client, "UIDL", names);
    pop3_quit(client);
    server_stop(&server);
}

/* RFC 1939: 1 to 70 characters from 0x21 to 0x7E, unique, and the same in another session. */
MailTest(pop3_commands, unique_ids_of_odd_names, "")
{
    enum { NAMES = 6 };
    static const char seventy[] =
        "1234567890123456789012345678901234567890123456789012345678901234567890";
    char names[NAMES][200];
    char ids[2][NAMES][POP3_LINE_SIZE];
    snprintf(names[0], 200, "%s", seventy);
    snprintf(names[1], 200, "%s1", seventy);
    snprintf(names[2], 200, "%s2", seventy);
    snprintf(names[3], 200, "a name with spaces");
    snprintf(names[4], 200, "caf\xc3\xa9");
    snprintf(names[5], 200, "\x7f\r\n");
    for (int i = 0; i < NAMES; i++) {
        char place[sizeof "ann/new/" + sizeof names[i]];
        snprintf(place, sizeof place, "ann/new/%.199s", names[i]);
        mailboxes_deliver(place, "text\n");
    }
    for (int round = 0; round < 2; round++) {
        int client = pop3_login(server, "ann");
        for (int i = 0; i < NAMES; i++) {
            char command[32];
            snprintf(command, sizeof command, "UIDL %d", i + 1);
            const char *id = strchr(pop3_ok(client, command), ' ') + 1;
            snprintf(ids[round][i], sizeof ids[round][i], "%s", id);
        }
        pop3_quit(client);
        shell("cd %s && mv new/* cur && for f in cur/*; do mv \"$f\" \"$f:2,S\"; done",
              mailboxes_path("ann"));
    }
    cr_assert_str_eq(ids[0][0], seventy);
    for (int i = 0; i < NAMES; i++) {
        size_t length = strlen(ids[0][i]);
        cr_assert(length >= 1 && length <= 70, "`%s` has %zu characters", ids[0][i], length);
        for (size_t j = 0; j < length; j++) {
            cr_assert(ids[0][i][j] >= 0x21 && ids[0][i][j] <= 0x7e, "`%s`", ids[0][i]);
        }
        cr_assert_str_eq(ids[0][i], ids[1][i], "another one in the second session");
        for (int j = 0; j < i; j++) {
            cr_assert_str_neq(ids[0][i], ids[0][j], "two messages share it");
        }
    }
}
