/*
 * POP3: who gets in, and what those learn who do not.
 */
#include "pop3_client.h"

#include "support/deadline.h"
#include "support/logged.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(pop3_passwords, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Neither by what USER says nor by what PASS says. Nor by the time: see pop3_users. */
MailTest(pop3_passwords, nobody_learns_whether_a_user_is_there, "")
{
    static const char *const users[] = {
        "USER ann",      "USER nobody", "USER ..",         "USER .",     "USER ../ann",
        "USER /etc/ann", "USER ann/",   "USER ann/../ann", "USER users", "USER  ann",
        "USER ANN",      "USER ann ",   "USER \xc3\xa4nn", "USER *",     "USER ann:*",
        "USER an",       "USER /",      "USER ann\tann",   "USER ann\r", "USER ann\x7f",
    };
    char user_said[POP3_LINE_SIZE] = "";
    char pass_said[POP3_LINE_SIZE] = "";
    for (size_t i = 0; i < sizeof users / sizeof users[0]; i++) {
        int client = pop3_connect_from(server, (int)i + 1);
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
    server_close_all(&server);
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
    char command[32];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        snprintf(command, sizeof command, "user%zu", i);
        mailboxes_add_user(command);
    }
    struct server_process server = mailboxes_serve("");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int client = pop3_connect_from(&server, (int)i + 1);
        snprintf(command, sizeof command, "USER user%zu", i);
        pop3_ok(client, command);
        const char *said = pop3_error(client, wrong[i]);
        cr_assert(i == 8 || begins(said, "[AUTH] "), "`%s`: %s", wrong[i], said);
        pop3_error(client, "STAT");
        client_close(client);
    }
    server_stop(&server);
}

/* The third ends the connection; what was sent behind it is not looked at, right or wrong. */
MailTest(pop3_passwords, three_wrong_ones_end_the_connection, "")
{
    static const char attempts[] = "USER ann\r\nPASS one\r\nUSER nobody\r\nPASS two\r\n"
                                   "USER ann\r\nPASS three\r\n"
                                   "USER ann\r\nPASS " MAILBOX_PASSWORD "\r\nDELE 1\r\nQUIT\r\n";
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_connect(server);
    client_send_text(client, attempts);
    for (int i = 0; i < 3; i++) {
        cr_assert(begins(pop3_line(client), "+OK"));
        cr_assert(begins(pop3_line(client), "-ERR [AUTH]"));
    }
    client_expect_end(client);
    client_close(client);
    cr_assert(mailboxes_have("ann/new/1.one"));
}

MailTest(pop3_passwords, two_wrong_ones_and_a_right_one, "")
{
    int client = pop3_connect(server);
    for (int i = 0; i < 2; i++) {
        pop3_ok(client, "USER ann");
        pop3_error(client, "PASS no");
        pop3_error(client, "PASS " MAILBOX_PASSWORD); /* whose? USER comes before every PASS */
    }
    pop3_ok(client, "USER ann");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    pop3_quit(client);
}

/* ---- guessing ---- */

/** Three wrong passwords, which end the connection. */
static void guess_thrice(const struct server_process *server, int source, const char *user)
{
    char command[64];
    int client = pop3_connect_from(server, source);
    snprintf(command, sizeof command, "USER %s", user);
    for (int i = 0; i < 3; i++) {
        pop3_ok(client, command);
        const char *said = pop3_error(client, "PASS no");
        cr_assert(begins(said, "[AUTH] "), "%s", said);
    }
    client_expect_end(client);
    client_close(client);
}

/** A client that says PASS, and does not wait for the answer. */
static int send_pass(const struct server_process *server, int source, const char *user,
                     const char *password)
{
    char command[64];
    int client = pop3_connect_from(server, source);
    snprintf(command, sizeof command, "USER %s", user);
    pop3_ok(client, command);
    snprintf(command, sizeof command, "PASS %s\r\n", password);
    client_send_text(client, command);
    return client;
}

static int send_password(const struct server_process *server, int source, const char *user)
{
    return send_pass(server, source, user, MAILBOX_PASSWORD);
}

static bool is_let_in(int client)
{
    char said[POP3_LINE_SIZE];
    snprintf(said, sizeof said, "%s", pop3_line(client));
    bool in = begins(said, "+OK");
    cr_assert(in || begins(said, "-ERR [SYS/TEMP] too many wrong passwords") ||
                  begins(said, "-ERR [IN-USE]"),
              "%s", said);
    pop3_quit(client);
    client_close(client);
    return in;
}

/* The first delay is a second. On a machine that was away for that long nothing can be said. */
#define expect_waits(since, client)                                                                \
    do {                                                                                           \
        if (test_now() - (since) < 0.8)                                                            \
            client_expect_silence(client, 10);                                                     \
    } while (0)

/* The table has tests of its own (test_guesses.c). Here: that it is asked, and told. */
Test(pop3_passwords, after_three_wrong_ones_a_right_one_has_to_wait)
{
    mailboxes_add_user("bob");
    mailboxes_add_mailbox("bob");
    mailboxes_add_user("carl"); /* bob's mailbox is in use as soon as the delay is over */
    mailboxes_add_mailbox("carl");
    struct server_process server = mailboxes_serve("");
    double start = test_now();
    guess_thrice(&server, 1, "ann");
    int same = send_password(&server, 1, "bob");  /* the address is limited */
    int other = send_password(&server, 2, "ann"); /* and the user */
    expect_waits(start, same);
    expect_waits(start, other);
    cr_assert(is_let_in(send_password(&server, 3, "carl")), "others are not");
    cr_assert(is_let_in(same));
    cr_assert(is_let_in(other));
    cr_assert_gt(test_now() - start, 0.99);
    server_stop(&server);
}

/* One waits, and twenty others ask for something. How many seconds that has taken until they had
 * it. */
static double answer_others(const struct server_process *server)
{
    double start = test_now();
    guess_thrice(server, 1, "ann");
    int waiting = send_password(server, 2, "ann");
    server_await_counter(server, "messages", 8);
    long long read = server_counter(server, "bytes_in");
    client_send_text(waiting, "STAT\r\nNOOP\r\n");
    client_await_delivered(waiting);
    int others[20];
    for (int i = 0; i < 20; i++) {
        others[i] = pop3_connect_from(server, 2);
        pop3_ok(others[i], "USER bob");
    }
    double asked = test_now() - start;
    read = server_counter(server, "bytes_in") - read;
    expect_waits(start, waiting);
    cr_assert(read == 20 * 10 || test_now() - start > 0.8, "%lld bytes were read", read);
    for (int i = 0; i < 20; i++)
        client_close(others[i]);
    client_expect_text(waiting, "+OK 0 messages\r\n+OK 0 0\r\n+OK\r\n");
    pop3_quit(waiting);
    return asked;
}

/*
 * Nobody's thread waits with it, not even that of stage 2, which has only one; and what the client
 * has sent behind its password is answered behind it. A busy machine is slow now and then, a server
 * in which others wait for a second is so each time.
 */
Test(pop3_passwords, a_password_that_waits_holds_up_nobody)
{
    enum { ATTEMPTS = 5 };
    double asked = 1;
    for (int attempt = 0; attempt < ATTEMPTS && asked > 0.99; attempt++) {
        struct server_process server = mailboxes_serve("");
        asked = answer_others(&server);
        server_close_all(&server);
    }
    cr_assert_lt(asked, 0.99, "twenty others were answered after %.1f s", asked);
}

/*
 * A company behind one address, after a restart: nobody is known yet, and nobody has been wrong. So
 * nobody is refused, and least of all because of wrong passwords.
 */
Test(pop3_passwords, a_crowd_with_the_right_passwords_comes_in)
{
    enum { CROWD = 24 };
    int clients[CROWD];
    char command[64];
    for (int i = 0; i < CROWD; i++) {
        snprintf(command, sizeof command, "user%d", i);
        mailboxes_add_slow_user(command);
        mailboxes_add_mailbox(command);
    }
    struct server_process server = mailboxes_serve("");
    for (int i = 0; i < CROWD; i++)
        clients[i] = pop3_connect(&server);
    for (int i = 0; i < CROWD; i++) {
        snprintf(command, sizeof command, "USER user%d\r\nPASS %s\r\n", i, MAILBOX_PASSWORD);
        client_send_text(clients[i], command);
    }
    for (int i = 0; i < CROWD; i++) {
        const char *said = pop3_line(clients[i]);
        cr_assert(begins(said, "+OK"), "%s", said);
        said = pop3_line(clients[i]);
        cr_assert(begins(said, "+OK"), "user%d: %s", i, said);
    }
    for (int i = 0; i < CROWD; i++)
        client_close(clients[i]);
    server_stop(&server);
}

/* Of those that wait for the same moment one is looked at, and nobody waits twice. */
MailTest(pop3_passwords, one_of_those_that_wait_is_looked_at, "")
{
    enum { WAIT = 4 };
    int clients[WAIT];
    int looked_at = 0;
    double start = test_now();
    guess_thrice(server, 1, "ann");
    for (int i = 0; i < WAIT; i++)
        clients[i] = send_pass(server, 2 + i, "ann", "no");
    double sent = test_now() - start;
    for (int i = 0; i < WAIT; i++) {
        const char *said = pop3_line(clients[i]);
        bool wrong = begins(said, "-ERR [AUTH] ");
        cr_assert(wrong || begins(said, "-ERR [SYS/TEMP] too many wrong passwords"), "%s", said);
        looked_at += wrong;
        client_close(clients[i]);
    }
    cr_assert(looked_at == 1 || sent > 0.9, "%d of %d were looked at", looked_at, WAIT);
}

MailTest(pop3_passwords, guessing_locks_nobody_out_of_where_she_was, "")
{
    cr_assert(is_let_in(send_password(server, 1, "ann")));
    double start = test_now();
    guess_thrice(server, 2, "ann");
    int elsewhere = send_password(server, 3, "ann");
    expect_waits(start, elsewhere);
    cr_assert(is_let_in(send_password(server, 1, "ann")));
}

/* Neither keeps the server from its end, nor the password in its memory. */
Test(pop3_passwords, a_client_that_waits_may_leave_and_the_server_may_stop)
{
    struct server_process server = mailboxes_serve("");
    guess_thrice(&server, 1, "ann");
    client_reset(send_password(&server, 2, "ann"));
    int waiting = send_password(&server, 2, "ann");
    client_send_text(waiting, "NOOP\r\n");
    client_await_delivered(waiting);
    double stopped = test_now();
    server_stop(&server);
    cr_assert_lt(test_now() - stopped, 4.0);
    client_close(waiting);
}

/* ---- what stays in memory ---- */

/** Looks for bytes in a piece of the server's memory. */
static bool piece_has(int memory, unsigned long from, unsigned long to, const char *text)
{
    size_t length = to - from;
    char *piece = malloc(length);
    cr_assert_not_null(piece);
    ssize_t got = pread(memory, piece, length, (off_t)from);
    bool has = got > 0 && memmem(piece, (size_t)got, text, strlen(text)) != NULL;
    free(piece);
    return has;
}

/** Whether bytes are anywhere in what the server can write to. What is huge is a sanitizer's. */
static bool memory_has(const struct server_process *server, const char *text)
{
    enum { HUGE_PIECE = 64 << 20 };
    char name[64];
    char line[512];
    bool has = false;
    snprintf(name, sizeof name, "/proc/%d/mem", (int)server->pid);
    int memory = open(name, O_RDONLY | O_CLOEXEC);
    snprintf(name, sizeof name, "/proc/%d/maps", (int)server->pid);
    FILE *maps = fopen(name, "re");
    if (memory < 0 || !maps) {
        cr_skip_test("the memory of another process cannot be read here");
    }
    while (!has && fgets(line, sizeof line, maps)) {
        unsigned long from;
        unsigned long to;
        has = sscanf(line, "%lx-%lx rw", &from, &to) == 2 && strstr(line, " rw") &&
              to - from <= HUGE_PIECE && piece_has(memory, from, to, text);
    }
    fclose(maps);
    close(memory);
    return has;
}

/* Neither of one that was right nor of one that was wrong, nor of one that nobody looked at. */
Test(pop3_passwords, no_password_stays_in_memory)
{
    enum { NOOPS = 800 };
    static const char unanswered[] = "USER ann\r\nQUIT\r\nPASS marker-behind-quit\r\n";
    static char long_text[NOOPS * 6 + 128];
    if (probe_thread_sanitized()) {
        cr_skip_test("ThreadSanitizer's own code puts registers on the stack");
    }
    struct server_process server = mailboxes_serve("");
    long long clients = 0;

    int client = pop3_connect(&server); /* the first segment ends within the password */
    char *end = long_text;
    while (end - long_text < 4000) {
        end += sprintf(end, "NOOP\r\n");
    }
    end += sprintf(end, "USER ann\r\nPASS marker-%0150d-marker-across\r\nSTAT\r\n", 0);
    client_send_text(client, long_text);
    for (const char *at = long_text; at < end; at = strchr(at, '\n') + 1) {
        pop3_line(client);
    }
    client_close(client);
    clients++;

    client = pop3_connect(&server);
    pop3_ok(client, "USER ann");
    pop3_error(client, "PASS marker-wrong");
    pop3_ok(client, "USER ann");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    pop3_quit(client);
    clients++;

    client = pop3_connect(&server);
    client_ask(client, unanswered, "+OK now the password\r\n");
    client_reset(client);
    clients++;

    client = pop3_connect(&server);
    pop3_ok(client, "USER ann");
    client_send_text(client, "PASS marker-unfinished");
    client_await_delivered(client);
    client_reset(client);
    clients++;

    client = pop3_login(&server, "ann"); /* where no password is expected */
    pop3_error(client, "PASS marker-logged-in");
    client_ask(client, "QUIT\r\nPASS marker-behind-mailbox\r\n", "+OK goodbye\r\n");
    client_expect_end(client);
    client_close(client);
    clients++;

    client = pop3_connect(&server); /* what comes while the connection ends is thrown away */
    for (int i = 0; i < 3; i++) {
        pop3_ok(client, "USER bob");
        pop3_error(client, "PASS marker-wrong");
    }
    client_send_text(client, "USER ann\r\nPASS marker-discarded\r\n");
    client_await_delivered(client);
    client_close(client);
    clients++;

    server_await_counter(&server, "closed", clients);
    static const char *const left[] = {
        "marker-across",    "marker-wrong", "marker-unfinished", "marker-behind-quit",
        "marker-discarded", "sesame",       "marker-logged-in",  "marker-behind-mailbox"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        cr_assert_not(memory_has(&server, left[i]), "`%s` is still in memory", left[i]);
    }
    server_stop(&server);
}

/* In no log, however much is logged, whoever logs in, or not. */
MailTest(pop3_passwords, no_password_is_logged, "--log debug --stats")
{
    static char errors[1 << 16];
    shell("rm -r %s", mailboxes_path("ann"));
    int client = pop3_connect(server);
    pop3_ok(client, "USER ann");
    pop3_error(client, "PASS secret-of-ann");
    pop3_ok(client, "USER ann");
    pop3_error(client, "PASS " MAILBOX_PASSWORD); /* there is no mailbox: that is logged */
    pop3_ok(client, "USER secret-instead-of-name");
    pop3_error(client, "PASS ann");
    pop3_quit(client);
    server_await_counter(server, "closed", 1);
    server_errors(server, errors, sizeof errors);
    cr_assert_eq(logged(errors, "mailbox_failed", "user=\"ann\""), 1, "%s", errors);
    cr_assert_null(strstr(errors, "secret"), "%s", errors);
    cr_assert_null(strstr(errors, "sesame"), "%s", errors);
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

/* By its name, and not the one that was there when the server started. */
Test(pop3_passwords, a_mail_folder_that_was_made_anew_is_found)
{
    char top[64];
    snprintf(top, sizeof top, "%s", mailboxes_path("."));
    static const char make[] = "mkdir -p %s/mail/ann/new %s/mail/ann/cur";
    shell(make, top, top);
    struct server_process server =
        server_start("--app pop3 --mail-dir %s/mail --users %s/users", top, top);
    int client = pop3_login(&server, "ann");
    pop3_quit(client);

    shell("rm -r %s/mail", top);
    shell(make, top, top);
    mailboxes_deliver("mail/ann/new/1.one", "one\n");
    client = pop3_login(&server, "ann");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "1 5");
    pop3_quit(client);

    shell("mv %s/mail %s/before", top, top);
    shell(make, top, top);
    client = pop3_login(&server, "ann");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "0 0");
    pop3_quit(client);
    server_stop(&server);
}
