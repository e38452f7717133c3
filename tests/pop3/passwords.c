/*
 * POP3: who gets in, and what those learn who do not.
 */
#include "pop3_client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pop3_passwords, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Neither by what USER says nor by what PASS says. Nor by the time: see pop3_users. */
Test(pop3_passwords, nobody_learns_whether_a_user_is_there)
{
    static const char *const users[] = {
        "USER ann",      "USER nobody", "USER ..",         "USER .",     "USER ../ann",
        "USER /etc/ann", "USER ann/",   "USER ann/../ann", "USER users", "USER  ann",
        "USER ANN",      "USER ann ",   "USER \xc3\xa4nn", "USER *",     "USER ann:*",
        "USER an",       "USER /",      "USER ann\tann",   "USER ann\r", "USER ann\x7f",
    };
    char user_said[POP3_LINE_SIZE] = "";
    char pass_said[POP3_LINE_SIZE] = "";
    struct server_process server = mailboxes_serve("");
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        int client = pop3_connect(&server);
        const char *said = pop3_ok(client, users[i]);
        cr_assert(i == 0 || strcmp(said, user_said) == 0, "`%s`: `%s`, for ann `%s`", users[i],
                  said, user_said);
        snprintf(user_said, sizeof user_said, "%s", said);
        said = pop3_error(client, i == 0 ? "PASS not this" : "PASS " MAILBOX_PASSWORD);
        cr_assert(i == 0 || strcmp(said, pass_said) == 0, "`%s`: `%s`, for ann `%s`", users[i],
                  said, pass_said);
        snprintf(pass_said, sizeof pass_said, "%s", said);
        client_close(client);
    }
    cr_assert(begins(pass_said, "[AUTH] "), "%s", pass_said);
    server_stop(&server);
}

/* As long as a command may be: it is still nobody, and cut to no other name. */
Test(pop3_passwords, a_long_name_is_nobodys)
{
    enum { LONGEST = 64 };
    char name[LONGEST + 1];
    char command[256] = "USER ";
    memset(name, 'a', LONGEST);
    name[LONGEST] = '\0';
    mailboxes_add_user(name);
    mailboxes_add_mailbox(name);
    struct server_process server = mailboxes_serve("");
    int client = pop3_login(&server, name);
    pop3_quit(client);
    client = pop3_connect(&server);
    for (size_t length = LONGEST + 1; length <= 248; length += 183) {
        memset(command + 5, 'a', length);
        command[5 + length] = '\0';
        pop3_ok(client, command);
        pop3_error(client, "PASS " MAILBOX_PASSWORD);
    }
    client_close(client);
    server_stop(&server);
}

/* Blanks belong to a password, in front, behind and in it. */
Test(pop3_passwords, passwords_are_compared_to_the_last_character)
{
    static const char *const wrong[] = {
        "PASS open",
        "PASS open  sesame",
        "PASS  open sesame",
        "PASS open sesame ",
        "PASS open sesame\t",
        "PASS Open sesame",
        "PASS open sesam",
        "PASS open sesamee",
        "PASS ",
        "PASS *",
        "PASS open\xc3\xbfsesame",
    };
    struct server_process server = mailboxes_serve("");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int client = pop3_connect(&server);
        pop3_ok(client, "USER ann");
        pop3_error(client, wrong[i]);
        pop3_error(client, "STAT");
        client_close(client);
    }
    server_stop(&server);
}

/* The third ends the connection; what was sent behind it is not looked at, right or wrong. */
Test(pop3_passwords, three_wrong_ones_end_the_connection)
{
    static const char attempts[] = "USER ann\r\nPASS one\r\nUSER nobody\r\nPASS two\r\n"
                                   "USER ann\r\nPASS three\r\n"
                                   "USER ann\r\nPASS " MAILBOX_PASSWORD "\r\nDELE 1\r\nQUIT\r\n";
    mailboxes_deliver("ann/new/1.one", "one\n");
    struct server_process server = mailboxes_serve("");
    int client = pop3_connect(&server);
    client_send_text(client, attempts);
    for (int i = 0; i < 3; i++) {
        cr_assert(begins(pop3_line(client), "+OK"));
        cr_assert(begins(pop3_line(client), "-ERR [AUTH]"));
    }
    client_expect_end(client);
    client_close(client);
    cr_assert(mailboxes_have("ann/new/1.one"));
    server_stop(&server);
}

Test(pop3_passwords, two_wrong_ones_and_a_right_one)
{
    struct server_process server = mailboxes_serve("");
    int client = pop3_connect(&server);
    for (int i = 0; i < 2; i++) {
        pop3_ok(client, "USER ann");
        pop3_error(client, "PASS no");
        pop3_error(client, "PASS " MAILBOX_PASSWORD); /* whose? USER comes before every PASS */
    }
    pop3_ok(client, "USER ann");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    pop3_quit(client);
    server_stop(&server);
}

/* In no log, however much is logged, whoever logs in, or not. */
Test(pop3_passwords, no_password_is_logged)
{
    static char errors[1 << 16];
    shell("rm -r %s", mailboxes_path("ann"));
    struct server_process server = mailboxes_serve("--log debug --stats");
    int client = pop3_connect(&server);
    pop3_ok(client, "USER ann");
    pop3_error(client, "PASS secret-of-ann");
    pop3_ok(client, "USER ann");
    pop3_error(client, "PASS " MAILBOX_PASSWORD); /* there is no mailbox: that is logged */
    pop3_ok(client, "USER secret-instead-of-name");
    pop3_error(client, "PASS ann");
    pop3_quit(client);
    server_await_counter(&server, "closed", 1);
    server_errors(&server, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, "mailbox of ann"), "%s", errors);
    cr_assert_null(strstr(errors, "secret"), "%s", errors);
    cr_assert_null(strstr(errors, "sesame"), "%s", errors);
    server_stop(&server);
}

Test(pop3_passwords, a_user_without_a_mailbox_is_told_who_can_help)
{
    mailboxes_add_user("bob");
    struct server_process server = mailboxes_serve("--log error");
    int client = pop3_connect(&server);
    pop3_ok(client, "USER bob");
    const char *said = pop3_error(client, "PASS " MAILBOX_PASSWORD);
    cr_assert(begins(said, "[SYS/PERM] "), "%s", said);
    pop3_ok(client, "USER ann"); /* and it may be somebody else */
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    pop3_quit(client);
    server_stop(&server);
}

/* Each one's own mail. */
Test(pop3_passwords, two_users_see_their_own_mail)
{
    mailboxes_add_user("bob");
    mailboxes_add_mailbox("bob");
    mailboxes_deliver("ann/new/1.ann", "for ann\n");
    mailboxes_deliver("bob/new/1.bob", "for bob\n");
    struct server_process server = mailboxes_serve("");
    int ann = pop3_login(&server, "ann");
    int bob = pop3_login(&server, "bob");
    pop3_expect_lines(ann, "RETR 1", "for ann\r\n");
    pop3_expect_lines(bob, "RETR 1", "for bob\r\n");
    pop3_ok(bob, "DELE 1");
    pop3_quit(bob);
    pop3_quit(ann);
    cr_assert(mailboxes_have("ann/new/1.ann"));
    cr_assert_not(mailboxes_have("bob/new/1.bob"));
    server_stop(&server);
}
