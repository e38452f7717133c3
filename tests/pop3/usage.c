/*
 * POP3: the options, and the mailbox to try.
 */
#include "pop3_client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(pop3_usage, .init = mailboxes_make, .fini = mailboxes_remove, .timeout = 120);

Test(pop3_usage, help_lists_the_options)
{
    struct program_result result = program_run("--help");
    cr_assert_eq(result.exit_status, 0);
    cr_assert_not_null(strstr(result.out, "--mail-dir DIR "), "%s", result.out);
    cr_assert_not_null(strstr(result.out, "--users FILE "), "%s", result.out);
    const char *line = strstr(result.out, "--app NAME ");
    cr_assert_not_null(line, "%s", result.out);
    const char *pop3 = strstr(line, "pop3");
    cr_assert(pop3 && pop3 < strchr(line, '\n'), "--app does not name it: %s", result.out);
}

/** Expects that the program does not start, and says why in one line with this in it. */
static void expect_refusal(struct program_result result, int status, const char *why)
{
    cr_assert_not(result.started || result.late, "`%s` started", result.command);
    cr_assert_eq(result.exit_status, status, "`%s` ended with %d: %s", result.command,
                 result.exit_status, result.err);
    cr_assert_not_null(strstr(result.err, why), "`%s`: expected `%s`, got `%s`", result.command,
                       why, result.err);
    const char *end = strchr(result.err, '\n');
    cr_assert(
        strncmp(result.err, server_name(), strlen(server_name())) == 0 && end && end[1] == '\0',
        "`%s`: not one line with the program's name in front: %s", result.command, result.err);
}

Test(pop3_usage, both_options_or_neither)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("."));
    expect_refusal(program_run("--app pop3 --port 0 --mail-dir %s", folder), 1,
                   "--mail-dir and --users");
    expect_refusal(program_run("--app pop3 --port 0 --users %s/users", folder), 1,
                   "--mail-dir and --users");
    expect_refusal(program_run("--app pop3 --port 0 --mail-dir="), 2,
                   "--mail-dir: expected a folder");
    expect_refusal(program_run("--app pop3 --port 0 --users="), 2, "--users: expected a file");
    expect_refusal(program_run("--app pop3 --port 0 --users"), 2, "--users: needs a value: FILE");
}

Test(pop3_usage, what_cannot_be_opened_is_named)
{
    char folder[64];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("."));
    expect_refusal(
        program_run("--app pop3 --port 0 --mail-dir %s/no --users %s/users", folder, folder), 1,
        "/no: No such file or directory");
    expect_refusal(program_run("--app pop3 --port 0 --mail-dir %s --users %s/no", folder, folder),
                   1, "/no: No such file or directory");
    expect_refusal(program_run("--app pop3 --port 0 --mail-dir %s --users %s", folder, folder), 1,
                   "Is a directory");
}

/* A name in the file is a folder's name, too: it leads nowhere else. */
Test(pop3_usage, lines_that_name_no_user_are_refused)
{
    static const char *const bad[] = {
        "..:$1$s$x", ".:$1$s$x",   "../ann:$1$s$x", "a/b:$1$s$x", "/ann:$1$s$x",     ":$1$s$x",
        "ann",       "a b:$1$s$x", ".ann:$1$s$x",   "ann:$1$s$x", "\xc3\xa4:$1$s$x",
    };
    char folder[64];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("."));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[128];
        int length = snprintf(text, sizeof text, "# users\n\nann:$1$s$x\n%s\n", bad[i]);
        mailboxes_deliver_bytes("bad", text, (size_t)length);
        expect_refusal(
            program_run("--app pop3 --port 0 --mail-dir %s --users %s/bad", folder, folder), 1,
            "/bad:4: ");
    }
}

Test(pop3_usage, a_file_of_users_who_cannot_log_in_is_refused)
{
    static const char *const files[] = {"", "# nobody\n\n", "ann:*\nbob:!$1$s$x\n", "ann:\n"};
    char folder[64];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("."));
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        mailboxes_deliver("bad", files[i]);
        expect_refusal(
            program_run("--app pop3 --port 0 --mail-dir %s --users %s/bad", folder, folder), 1,
            "/bad: ");
    }
}

/* Lines of /etc/shadow: what follows the hash does not matter, and locked users stay out. */
MailTest(pop3_usage, lines_of_a_shadow_file_will_do, "")
{
    shell("cd %s && sed 's/$/:19000:0:99999:7:::/; s/^/bob:*:1::::::\\n\\n# ann is next\\n/' users "
          ">shadow && mv shadow users && mkdir -p bob/new bob/cur",
          mailboxes_path("."));
    int client = pop3_login(server, "ann");
    pop3_quit(client);
    client = pop3_connect(server);
    pop3_ok(client, "USER bob");
    pop3_error(client, "PASS *");
    pop3_ok(client, "USER bob");
    pop3_error(client, "PASS " MAILBOX_PASSWORD);
}

/* A command that is dropped would shift the answers behind it: DELE's for RETR's, say. */
Test(pop3_usage, policies_that_drop_commands_are_refused)
{
    if (!server_has_option("--saturation"))
        cr_skip_test("no workers, so no policy");
    static const char *const policies[] = {"discard", "discard-oldest"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char got[64];
        struct program_result result =
            program_run("--app pop3 --port 0 --workers 1 --saturation %s", policies[i]);
        snprintf(got, sizeof got, "with --app pop3, got '%s'", policies[i]);
        expect_refusal(result, 2, got);
        cr_assert_not_null(strstr(result.err, ": --saturation: expected "), "%s", result.err);
        struct server_process echo = server_start("--workers 1 --saturation %s", policies[i]);
        server_stop(&echo);
    }
}

/* ---- the mailbox to try ---- */

Test(pop3_usage, without_options_there_is_a_mailbox_to_try)
{
    char errors[4096];
    char user[64];
    char password[64];
    char command[128];
    shell("mkdir %s", mailboxes_path("tmp"));
    setenv("TMPDIR", mailboxes_path("tmp"), 1);
    struct server_process server = server_start("--app pop3");
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s: pop3 on 127.0.0.1:%d", server_name(), server.port);
    cr_assert_str_eq(server.ready_line, wanted);
    server_errors(&server, errors, sizeof errors);
    const char *told = strstr(errors, ": user ");
    cr_assert(told && sscanf(told, ": user %63[^,], password %63s", user, password) == 2, "%s",
              errors);
    int client = pop3_connect(&server);
    snprintf(command, sizeof command, "USER %s", user);
    pop3_ok(client, command);
    snprintf(command, sizeof command, "PASS %s", password);
    pop3_ok(client, command);
    int count = atoi(pop3_ok(client, "STAT"));
    cr_assert_geq(count, 2);
    for (int i = 1; i <= count; i++) {
        size_t length;
        char answer[64];
        snprintf(command, sizeof command, "LIST %d", i);
        snprintf(answer, sizeof answer, "%s", pop3_ok(client, command));
        snprintf(command, sizeof command, "RETR %d", i);
        pop3_ok(client, command);
        char *text = pop3_lines(client, &length);
        cr_assert(strstr(text, "\r\n\r\n"), "no header: %s", text);
        const char *stuffed = strstr(text, "\r\n..");
        cr_assert_eq((size_t)atoi(strchr(answer, ' ')), length - (stuffed ? 1 : 0));
        free(text);
    }
    pop3_ok(client, "DELE 1");
    pop3_quit(client);
    server_stop(&server);
    cr_assert_str_empty(shell("ls -A %s", mailboxes_path("tmp")));
}

/** Waits until a folder is empty. */
static bool empties(const char *folder)
{
    double end = test_deadline();
    while (*shell("ls -A %s", folder) != '\0') {
        if (test_left_ms(end) <= 0) {
            return false;
        }
        test_pause_ms(5);
    }
    return true;
}

/* By a signal that nobody catches, or by the second one of those that ask for an orderly end. */
Test(pop3_usage, the_mailbox_to_try_goes_however_the_server_ends)
{
    if (!server_has_option("--workers") && !server_has_option("--threads"))
        cr_skip_test("the thread that handles messages is the one that would hear of a signal");
    static const int signals[] = {SIGTERM, SIGHUP, SIGKILL};
    char folder[64];
    snprintf(folder, sizeof folder, "%s", mailboxes_path("tmp"));
    shell("mkdir %s", folder);
    setenv("TMPDIR", folder, 1);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct server_process server =
            server_start("--app pop3 --block-ms 100000 --drain-timeout 50");
        int client = pop3_connect(&server);
        client_send_text(client, "NOOP\r\n"); /* keeps the first SIGTERM waiting */
        client_await_delivered(client);
        server_signal(&server, SIGTERM);
        client_await_refusal(&server); /* that one has been seen */
        server_signal(&server, signals[i]);
        int status = server_await_end(&server, test_deadline());
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[i], "%#x", (unsigned)status);
        cr_assert(empties(folder), "after signal %d: %s", signals[i], shell("ls -A %s", folder));
        client_close(client);
        server_forget(&server);
    }
}
