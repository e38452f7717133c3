/*
 * POP3: a mailbox is open once, whoever has it open, and closed when that is over, however it ends.
 */
#include "pop3_client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(pop3_locks, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

static void expect_in_use(int client)
{
    pop3_ok(client, "USER ann");
    const char *said = pop3_error(client, "PASS " MAILBOX_PASSWORD);
    cr_assert(strncmp(said, "[IN-USE] ", 9) == 0, "%s", said);
}

MailTest(pop3_locks, the_second_session_is_refused_until_the_first_is_over,
         server_has_option("--workers") ? "--workers 3" : "")
{
    int first = pop3_login(server, "ann");
    int second = pop3_connect(server);
    for (int i = 0; i < 4; i++) { /* no wrong password: it may be tried more than three times */
        expect_in_use(second);
    }
    pop3_quit(first);
    pop3_ok(second, "USER ann");
    pop3_ok(second, "PASS " MAILBOX_PASSWORD); /* at once: who is told +OK has closed it */
    pop3_quit(second);
}

MailTest(pop3_locks, other_processes_hold_it_and_see_it, "")
{
    int lock = mailboxes_lock();
    cr_assert_geq(lock, 0);
    int client = pop3_connect(server);
    expect_in_use(client);
    close(lock);
    pop3_ok(client, "USER ann");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    cr_assert_eq(mailboxes_lock(), -1, "it is not locked while a session has it open");
    pop3_quit(client);
    lock = mailboxes_lock();
    cr_assert_geq(lock, 0, "it is locked after the session");
    close(lock);
}

/* Two servers on the same mail. */
Test(pop3_locks, another_server_is_refused)
{
    struct server_process one = mailboxes_serve("");
    struct server_process two = mailboxes_serve("");
    pop3_login(&one, "ann");
    int other = pop3_connect(&two);
    expect_in_use(other);
    server_stop(&one); /* its end is the session's */
    pop3_ok(other, "USER ann");
    pop3_ok(other, "PASS " MAILBOX_PASSWORD);
    pop3_quit(other);
    server_close_all(&two);
}

/* However a client goes, the mailbox is free then. */
MailTest(pop3_locks, free_when_the_client_is_gone, "")
{
    enum { WAYS = 3 };
    for (int way = 0; way < WAYS; way++) {
        int client = pop3_login(server, "ann");
        switch (way) {
        case 0: client_close(client); break;
        case 1: client_reset(client); break;
        default:
            client_half_close(client);
            client_expect_end(client);
            client_close(client);
            break;
        }
        server_await_counter(server, "closed", way + 1);
    }
    int client = pop3_login(server, "ann");
    pop3_quit(client);
}

MailTest(pop3_locks, free_when_the_time_is_over, "--idle-timeout 1")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    pop3_ok(client, "DELE 1");
    client_expect_gone(client);
    client_close(client);
    server_await_counter(server, "closed", 1);
    client = pop3_login(server, "ann");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "1 5"); /* RFC 1939: no UPDATE after a timeout */
    pop3_quit(client);
}
