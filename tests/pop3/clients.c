/*
 * POP3: clients that others wrote. A test of one that is not installed is skipped.
 */
#include "pop3_client.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pop3_clients, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

#define ONE "From: bob@a.b\nSubject: one\n\n.hidden\nlast line"
#define TWO "From: bob@a.b\nSubject: two\n\n..\n.\n"

static void deliver_two(void)
{
    mailboxes_deliver("ann/new/1.one", ONE);
    mailboxes_deliver("ann/cur/2.two:2,S", TWO);
}

static void skip_without(const char *program)
{
    if (!*shell("command -v %s", program)) {
        cr_skip_test("%s is not installed", program);
    }
}

static void expect_text(const char *what, const char *text, const char *wanted)
{
    cr_assert_str_eq(text, wanted, "%s: expected\n%s\ngot\n%s", what, wanted, text);
}

/** Writes a file of the test's own; its path is good until the next call of mailboxes_path(). */
static const char *written(const char *name, const char *text)
{
    mailboxes_deliver(name, text);
    return mailboxes_path("%s", name);
}

/** Runs curl as ann on a path of the server, perhaps with options behind it. */
static const char *curl(const struct server_process *server, const char *path)
{
    return shell("timeout 30 curl -sS --noproxy '*' --user 'ann:%s' pop3://127.0.0.1:%d/%s",
                 MAILBOX_PASSWORD, server->port, path);
}

Test(pop3_clients, curl)
{
    skip_without("curl");
    deliver_two();
    struct server_process server = mailboxes_serve("");
    expect_text("LIST", curl(&server, ""), "1 51\r\n2 38\r\n");
    expect_text("UIDL", curl(&server, " -X UIDL"), "1 1.one\r\n2 2.two\r\n");
    expect_text("RETR 1", curl(&server, "1"),
                "From: bob@a.b\r\nSubject: one\r\n\r\n.hidden\r\nlast line\r\n");
    expect_text("RETR 2", curl(&server, "2"), "From: bob@a.b\r\nSubject: two\r\n\r\n..\r\n.\r\n");
    expect_text("DELE 1", curl(&server, "1 -X DELE -l"), "");
    cr_assert_not(mailboxes_have("ann/new/1.one"));
    cr_assert(mailboxes_have("ann/cur/2.two:2,S"));
    server_stop(&server);
}

/* Everything that Python's library has a call for. */
Test(pop3_clients, poplib)
{
    static const char script[] =
        "import poplib, sys\n"
        "p = poplib.POP3('127.0.0.1', int(sys.argv[1]), timeout=20)\n"
        "print(sorted(p.capa()))\n"
        "p.user('ann')\n"
        "try: p.pass_('wrong')\n"
        "except poplib.error_proto as e: print(str(e)[:14])\n"
        "p.user('ann')\n"
        "p.pass_(sys.argv[2])\n"
        "print(p.stat(), p.list()[1:], p.list(2), p.uidl()[1:], p.uidl(1))\n"
        "print(p.retr(1)[1:], p.top(2, 1)[1:])\n"
        "p.dele(1); p.rset(); p.dele(2); p.noop()\n"
        "try: p.retr(2)\n"
        "except poplib.error_proto as e: print(str(e)[:6])\n"
        "p.quit()\n";
    static const char wanted[] =
        "['AUTH-RESP-CODE', 'EXPIRE', 'PIPELINING', 'RESP-CODES', 'TOP', 'UIDL', 'USER']\n"
        "b'-ERR [AUTH] \n"
        "(2, 89) ([b'1 51', b'2 38'], 12) b'+OK 2 38' ([b'1 1.one', b'2 2.two'], 18) b'+OK 1 "
        "1.one'\n"
        "([b'From: bob@a.b', b'Subject: one', b'', b'.hidden', b'last line'], 51) "
        "([b'From: bob@a.b', b'Subject: two', b'', b'..'], 35)\n"
        "b'-ERR\n";
    skip_without("python3");
    if (*shell("python3 -c 'import poplib'")) {
        cr_skip_test("python3 has no poplib");
    }
    deliver_two();
    struct server_process server = mailboxes_serve("");
    expect_text("poplib",
                shell("timeout 30 python3 %s %d '%s'", written("session.py", script), server.port,
                      MAILBOX_PASSWORD),
                wanted);
    cr_assert(mailboxes_have("ann/new/1.one"));
    cr_assert_not(mailboxes_have("ann/cur/2.two:2,S"));
    server_stop(&server);
}

/* A client that sends many commands ahead, because CAPA has said PIPELINING. */
Test(pop3_clients, mpop)
{
    char script[1024];
    skip_without("mpop");
    deliver_two();
    struct server_process server = mailboxes_serve("");
    mailboxes_add_mailbox("got");
    snprintf(script, sizeof script,
             "cd %s && : >rc && chmod 600 rc && timeout 30 mpop -C rc --host=127.0.0.1 --port=%d "
             "--user=ann --passwordeval=\"echo '%s'\" --auth=user --tls=off --pipelining=on "
             "--keep=off --delivery=maildir,got --uidls-file=uidls --received-header=off -q && "
             "cat got/new/*",
             mailboxes_path("."), server.port, MAILBOX_PASSWORD);
    const char *got = shell("%s", script);
    cr_assert(strstr(got, ONE "\n") && strstr(got, TWO), "%s", got);
    cr_assert_not(mailboxes_have("ann/new/1.one") || mailboxes_have("ann/cur/2.two:2,S"), "%s",
                  got);
    server_stop(&server);
}

/* Of root's fetchmail one runs on a machine, unless each has a pid file of its own. */
Test(pop3_clients, fetchmail)
{
    char script[1024];
    skip_without("fetchmail");
    deliver_two();
    struct server_process server = mailboxes_serve("");
    snprintf(script, sizeof script,
             "cd %s && echo 'poll 127.0.0.1 protocol POP3 service %d user ann password \"%s\" "
             "sslproto \"\" fetchall no keep mda \"cat >>got\"' >rc && chmod 600 rc && "
             "FETCHMAILHOME=. timeout 30 fetchmail --pidfile pid --nosyslog --invisible -f rc && "
             "cat got",
             mailboxes_path("."), server.port, MAILBOX_PASSWORD);
    const char *got = shell("%s", script);
    cr_assert(strstr(got, ONE "\n") && strstr(got, TWO), "%s", got);
    cr_assert_not(mailboxes_have("ann/new/1.one") || mailboxes_have("ann/cur/2.two:2,S"), "%s",
                  got);
    server_stop(&server);
}
