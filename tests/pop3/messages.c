/*
 * POP3: what becomes of a file on its way to the client.
 */
#include "pop3_client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(pop3_messages, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

/* Each line ends with CR LF, dots that lead are doubled, and LIST told the size before. */
MailTest(pop3_messages, line_ends_and_dots, "")
{
    static const struct {
        const char *file;
        const char *sent;
        int octets;
    } cases[] = {
        {"a\nb\n", "a\r\nb\r\n.\r\n", 6},
        {"a\r\nb\r\n", "a\r\nb\r\n.\r\n", 6},
        {"a\nb", "a\r\nb\r\n.\r\n", 6},
        {"a\nb\r", "a\r\nb\r\n.\r\n", 6},
        {"", ".\r\n", 0},
        {"\n", "\r\n.\r\n", 2},
        {"\n\n\r\n", "\r\n\r\n\r\n.\r\n", 6},
        {".", "..\r\n.\r\n", 3},
        {".\n", "..\r\n.\r\n", 3},
        {"..\n", "...\r\n.\r\n", 4},
        {"a.\n.b\n.\r\n", "a.\r\n..b\r\n..\r\n.\r\n", 11},
        {"a\rb\n\r\r\n", "a\rb\r\n\r\r\n.\r\n", 8},
        {"a\r.\n", "a\r.\r\n.\r\n", 5},
        {"caf\xc3\xa9 \xff\x80\n", "caf\xc3\xa9 \xff\x80\r\n.\r\n", 10},
    };
    enum { CASES = sizeof cases / sizeof cases[0] };
    for (int i = 0; i < CASES; i++) {
        char place[32];
        snprintf(place, sizeof place, "ann/new/%03d", i);
        mailboxes_deliver(place, cases[i].file);
    }
    int client = pop3_login(server, "ann");
    for (int i = 0; i < CASES; i++) {
        char command[32];
        char answer[32];
        snprintf(command, sizeof command, "LIST %d", i + 1);
        snprintf(answer, sizeof answer, "%d %d", i + 1, cases[i].octets);
        cr_assert_str_eq(pop3_ok(client, command), answer, "`%s`", cases[i].file);
        snprintf(command, sizeof command, "RETR %d", i + 1);
        pop3_ok(client, command);
        client_expect_text(client, cases[i].sent);
    }
    pop3_quit(client);
}

/* A NUL in a message is a byte like others. */
MailTest(pop3_messages, zeros_arrive, "")
{
    mailboxes_deliver_bytes("ann/new/1.zeros", "a\0b\n\0\n", 6);
    int client = pop3_login(server, "ann");
    cr_assert_str_eq(pop3_ok(client, "LIST 1"), "1 8");
    pop3_ok(client, "RETR 1");
    client_expect(client, "a\0b\r\n\0\r\n.\r\n", 11);
    pop3_quit(client);
}

/* What lies in the folders but is no message, or would lead out of the mailbox. */
MailTest(pop3_messages, only_files_are_messages, "")
{
    mailboxes_deliver("ann/new/5.real", "a message\n");
    mailboxes_deliver("ann/new/.hidden", "no message\n");
    mailboxes_deliver("ann/tmp/1.half", "not delivered\n");
    shell("cd %s && ln -s /etc/passwd 2.link && ln -s 5.real 3.link && mkdir 4.folder && "
          "mkfifo 6.pipe",
          mailboxes_path("ann/new"));
    int client = pop3_login(server, "ann");
    pop3_expect_lines(client, "UIDL", "1 5.real\r\n");
    pop3_expect_lines(client, "RETR 1", "a message\r\n");
    pop3_quit(client);
}

MailTest(pop3_messages, no_link_leads_out_of_the_mailbox, "")
{
    mailboxes_deliver("secret", "somebody else's\n");
    shell("cd %s && mkdir elsewhere && mv secret elsewhere && rmdir ann/cur && "
          "ln -s ../elsewhere ann/cur",
          mailboxes_path("."));
    int client = pop3_connect(server);
    pop3_ok(client, "USER ann");
    const char *why = pop3_error(client, "PASS " MAILBOX_PASSWORD);
    cr_assert(strncmp(why, "[SYS/PERM]", 10) == 0, "%s", why);
    pop3_quit(client);
}

/* A link that takes the place of a message after the login. */
MailTest(pop3_messages, no_link_that_comes_later_is_followed, "")
{
    mailboxes_deliver("ann/new/1.one", "a message\n");
    int client = pop3_login(server, "ann");
    shell("cd %s && ln -sf /etc/passwd 1.one", mailboxes_path("ann/new"));
    pop3_error(client, "RETR 1");
    pop3_quit(client);
}

/* Another mail reader sets flags and takes mail from new to cur; it knows no lock. */
MailTest(pop3_messages, found_again_when_others_move_them, "")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    mailboxes_deliver("ann/new/2.two", "two\n");
    mailboxes_deliver("ann/cur/3.three:2,", "three\n");
    mailboxes_deliver("ann/new/4.four", "four\n");
    int client = pop3_login(server, "ann");
    shell("cd %s && mv new/1.one cur/1.one:2,S && mv new/2.two cur/2.two:2,FS && "
          "mv cur/3.three:2, cur/3.three:2,T && rm new/4.four",
          mailboxes_path("ann"));
    pop3_expect_lines(client, "RETR 1", "one\r\n");
    pop3_expect_lines(client, "RETR 3", "three\r\n");
    pop3_error(client, "RETR 4");
    pop3_error(client, "TOP 4 1");
    pop3_ok(client, "DELE 2");
    pop3_ok(client, "DELE 3");
    pop3_ok(client, "DELE 4");
    pop3_quit(client); /* what has gone already is no failure */
    cr_assert(mailboxes_have("ann/cur/1.one:2,S"));
    cr_assert_not(mailboxes_have("ann/cur/2.two:2,FS"));
    cr_assert_not(mailboxes_have("ann/cur/3.three:2,T"));
}

/* ---- moved by others: what it costs ---- */

enum { MANY = 300 };

/** A watch for what is read in ann's folders, from now on. */
static int watch_folders(void)
{
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    cr_assert_geq(watch, 0, "inotify: %s", strerror(errno));
    for (int i = 0; i < 2; i++)
        cr_assert_geq(inotify_add_watch(watch, mailboxes_path(i == 0 ? "ann/new" : "ann/cur"),
                                        IN_OPEN | IN_ACCESS),
                      0, "inotify: %s", strerror(errno));
    return watch;
}

/** How often a folder was listed since the last call: so often it was read after it was opened. */
static int count_looks(int watch)
{
    alignas(struct inotify_event) char events[16384];
    int looks = 0;
    bool was_read = false;
    ssize_t length;
    while ((length = read(watch, events, sizeof events)) > 0) {
        for (const char *next = events; next < events + length;) {
            const struct inotify_event *event = (const struct inotify_event *)next;
            bool is_read = (event->mask & IN_ISDIR) != 0 && (event->mask & IN_ACCESS) != 0;
            cr_assert_eq(event->mask & IN_Q_OVERFLOW, 0, "more than the system counts");
            looks += is_read && !was_read;
            was_read = is_read;
            next += sizeof *event + event->len;
        }
    }
    return looks;
}

static void deliver_many(void)
{
    char name[64];
    mailboxes_deliver("ann/new/1000.m", "hello\n");
    for (int i = 1; i < MANY; i++) {
        snprintf(name, sizeof name, "ann/new/%d.m", 1000 + i);
        mailboxes_deliver_again(name, "ann/new/1000.m");
    }
}

/* As another process would: each message from one folder of ann's to another, with other flags. */
static void move_all(const char *from, const char *flags, const char *to, const char *new_flags)
{
    for (int i = 1000; i < 1000 + MANY; i++) {
        char old[256];
        snprintf(old, sizeof old, "%s", mailboxes_path("ann/%s/%d.m%s", from, i, flags));
        cr_assert_eq(rename(old, mailboxes_path("ann/%s/%d.m%s", to, i, new_flags)), 0, "%s", old);
    }
}

/*
 * Whoever moves one message is likely to move all. If each were looked for in a list of all, five
 * thousand of them would take ten seconds.
 */
MailTest(pop3_messages, moved_by_others_are_found_with_one_look, "")
{
    char text[64];
    deliver_many();
    int client = pop3_login(server, "ann");
    int watch = watch_folders();
    move_all("new", "", "cur", ":2,");
    count_looks(watch);
    for (int i = 1; i <= MANY; i++) {
        snprintf(text, sizeof text, "RETR %d", i);
        pop3_expect_lines(client, text, "hello\r\n");
    }
    int looks = count_looks(watch);
    cr_assert(looks >= 1 && looks <= 4, "RETR: the folders were listed %d times", looks);
    move_all("cur", ":2,", "cur", ":2,S");
    count_looks(watch);
    for (int i = 2; i <= MANY; i++) {
        snprintf(text, sizeof text, "DELE %d", i);
        pop3_ok(client, text);
    }
    pop3_quit(client);
    looks = count_looks(watch);
    cr_assert(looks >= 1 && looks <= 4, "QUIT: the folders were listed %d times", looks);
    cr_assert(mailboxes_have("ann/cur/1000.m:2,S"));
    cr_assert_str_eq(shell("ls %s", mailboxes_path("ann/cur")), "1000.m:2,S\n");
    close(watch);
}

/* Those that are not there any more are not looked for again and again either. */
MailTest(pop3_messages, gone_ones_are_looked_for_once, "")
{
    char text[64];
    deliver_many();
    int client = pop3_login(server, "ann");
    int watch = watch_folders();
    shell("cd %s && rm *[02468].m", mailboxes_path("ann/new"));
    count_looks(watch);
    for (int i = 1; i <= MANY; i++) {
        snprintf(text, sizeof text, "RETR %d", i);
        if (i % 2 == 0)
            pop3_expect_lines(client, text, "hello\r\n");
        else
            pop3_error(client, text);
    }
    int looks = count_looks(watch);
    cr_assert(looks >= 1 && looks <= 4, "the folders were listed %d times", looks);
    pop3_ok(client, "DELE 1");
    pop3_ok(client, "DELE 2");
    pop3_quit(client); /* what has gone already is no failure */
    cr_assert_not(mailboxes_have("ann/new/1001.m"));
    close(watch);
}

/* Another program may have put it aside for a while: QUIT looks once more for it. */
MailTest(pop3_messages, one_that_was_gone_and_is_back_is_removed, "")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    int client = pop3_login(server, "ann");
    shell("cd %s && mv new/1.one aside", mailboxes_path("ann"));
    pop3_error(client, "RETR 1");
    shell("cd %s && mv aside cur/1.one:2,S", mailboxes_path("ann"));
    pop3_ok(client, "DELE 1");
    pop3_quit(client);
    cr_assert_not(mailboxes_have("ann/cur/1.one:2,S"));
}

/* One message in both folders, as a reader leaves it that was interrupted, is one message. */
MailTest(pop3_messages, one_in_both_folders_is_one, "")
{
    mailboxes_deliver("ann/new/1.one", "one\n");
    mailboxes_deliver("ann/cur/1.one:2,S", "one\n");
    int client = pop3_login(server, "ann");
    pop3_expect_lines(client, "UIDL", "1 1.one\r\n");
    pop3_quit(client);
}

/* What arrives during a session is for the next one: numbers do not change. */
MailTest(pop3_messages, new_mail_waits_for_the_next_session, "")
{
    mailboxes_deliver("ann/new/2.two", "two\n");
    int client = pop3_login(server, "ann");
    mailboxes_deliver("ann/new/1.one", "one\n");
    cr_assert_str_eq(pop3_ok(client, "STAT"), "1 5");
    pop3_expect_lines(client, "RETR 1", "two\r\n");
    pop3_quit(client);
    client = pop3_login(server, "ann");
    pop3_expect_lines(client, "UIDL", "1 1.one\r\n2 2.two\r\n");
    pop3_quit(client);
}

/* ---- large messages ---- */

enum {
    LARGE = 20 << 20,          /* without a sanitizer, which would go through it for seconds: */
    SANITIZED_LARGE = 8 << 20, /* still more than all sockets on the way take */
    LARGE_LINE = 64,
};

/** A large message of numbered lines, every tenth with a dot in front; free() it. @param sent: as
 * it arrives, with its first line end to its final dot */
static char *large_text(size_t *length, bool sent)
{
    const int large = probe_sanitized() ? SANITIZED_LARGE : LARGE;
    size_t capacity = (size_t)(large + large / 16);
    char *text = malloc(capacity);
    cr_assert_not_null(text, "out of memory");
    *length = 0;
    for (int i = 0; i < large / LARGE_LINE; i++) {
        const char *dots = i % 10 ? "" : sent ? ".." : ".";
        *length += (size_t)snprintf(text + *length, LARGE_LINE + 4, "%s%010d%050d%s", dots, i, i,
                                    sent ? "\r\n" : "\n");
    }
    if (sent) {
        *length += (size_t)snprintf(text + *length, 4, ".\r\n");
    }
    return text;
}

static void deliver_large(void)
{
    size_t length;
    char *text = large_text(&length, false);
    mailboxes_deliver_bytes("ann/new/1.large", text, length);
    free(text);
}

/** Waits until the server has sent all that it can to a client that does not read. */
static void await_stuck(const struct server_process *server)
{
    double end = test_deadline();
    while (probe_busy_during(server->pid, 20) > 0.05 && test_left_ms(end) > 0) {
    }
}

/* The client does not read: what the server holds of the message is bounded by the high mark. */
Test(pop3_messages, a_message_of_20_mib_takes_no_memory)
{
    enum { MOST_KIB = 2048 };
    size_t length;
    deliver_large();
    char *expected = large_text(&length, true);
    struct server_process server = mailboxes_serve("");
    int client = client_connect_with(&server, (struct client_buffers){.receive = 65536});
    pop3_line(client);
    pop3_ok(client, "USER ann");
    pop3_ok(client, "PASS " MAILBOX_PASSWORD);
    long before = probe_resident_kib(server.pid);
    pop3_ok(client, "RETR 1");
    await_stuck(&server);
    long stuck = probe_resident_kib(server.pid);
    client_expect(client, expected, length);
    long after = probe_resident_kib(server.pid);
    if (!probe_sanitized()) {
        cr_assert_lt(stuck - before, MOST_KIB, "%ld KiB before, %ld while the client does not read",
                     before, stuck);
        cr_assert_lt(after - before, MOST_KIB, "%ld KiB before, %ld afterwards", before, after);
    }
    cr_assert_str_eq(pop3_ok(client, "NOOP"), "");
    pop3_quit(client);
    free(expected);
    server_stop(&server);
}

/* Commands behind a long answer wait for its end, and are answered in order. */
Test(pop3_messages, commands_behind_a_large_message_are_answered_behind_it)
{
    size_t length;
    deliver_large();
    char *expected = large_text(&length, true);
    struct server_process server = mailboxes_serve("");
    int client = pop3_login(&server, "ann");
    client_send_text(client, "RETR 1\r\nTOP 1 0\r\nDELE 1\r\nQUIT\r\n");
    pop3_line(client);
    client_expect(client, expected, length);
    pop3_line(client);
    client_expect(client, expected, length); /* it has no blank line: all of it is header */
    cr_assert(strncmp(pop3_line(client), "+OK", 3) == 0);
    cr_assert(strncmp(pop3_line(client), "+OK", 3) == 0);
    client_expect_end(client);
    client_close(client);
    cr_assert_not(mailboxes_have("ann/new/1.large"));
    free(expected);
    server_stop(&server);
}

/* Who leaves in the middle leaves no descriptor behind, and no lock. */
Test(pop3_messages, leaving_in_the_middle_of_a_large_message)
{
    enum { ROUNDS = 6 };
    deliver_large();
    struct server_process server = mailboxes_serve("");
    long before = probe_descriptors(server.pid);
    for (int i = 0; i < ROUNDS; i++) {
        int client = pop3_login(&server, "ann");
        client_send_text(client, "DELE 1\r\nRSET\r\nRETR 1\r\nDELE 1\r\nQUIT\r\n");
        pop3_line(client);
        pop3_line(client);
        pop3_line(client);
        pop3_line(client); /* the message has begun */
        if (i % 2) {
            client_reset(client);
        } else {
            client_close(client);
        }
        server_await_counter(&server, "closed", i + 1);
        cr_assert(probe_await_descriptors(server.pid, before), "%ld descriptors, %ld after", before,
                  probe_descriptors(server.pid));
    }
    cr_assert(mailboxes_have("ann/new/1.large"));
    server_stop(&server);
}
