/*
 * The exercises of docs/stage4.md: tests that fail until one has been done.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(exercise_stage4, .timeout = 60);

/* Small: an application that answers each line with its length. */
Test(exercise_stage4, small_lengths)
{
    struct server_process server = server_start("--app length");
    int client = client_connect(&server);
    client_send_text(client, "hello\r\n\nhello, world\n");
    client_expect_text(client, "5\n0\n12\n");
    client_half_close(client);
    client_expect_end(client);
    client_close(client);
    server_stop(&server);
}

/** Connects to a chat and takes a nickname. */
static int join(const struct server_process *server, const char *nick)
{
    char text[100];
    int client = client_connect(server);
    client_await_reply(client);
    snprintf(text, sizeof text, "/nick %s\n", nick);
    client_send_text(client, text);
    return client;
}

/** Takes lines until the wanted one has come. Asserts that it comes, and that the other does not.
 */
static void expect_line(int client, const char *wanted, const char *unwanted)
{
    char line[256];
    double end = test_now() + test_deadline_ms() / 1000.0;
    for (size_t length = 0;;) {
        size_t got = 0;
        if (client_try_receive(client, line + length, 1, end, &got) != CLIENT_GOT ||
            length + 2 == sizeof line) {
            cr_assert_fail("`%s` has not come", wanted);
        }
        length++;
        if (line[length - 1] != '\n') {
            continue;
        }
        line[length - 1] = '\0';
        length = 0;
        cr_assert(!unwanted || strcmp(line, unwanted) != 0, "heard what was not for it: %s", line);
        if (strcmp(line, wanted) == 0) {
            return;
        }
    }
}

/* Medium: a line for one user alone. */
Test(exercise_stage4, medium_a_line_for_one_user)
{
    struct server_process server = server_start("--app chat");
    int ann = join(&server, "ann");
    expect_line(ann, "* you are ann", NULL);
    int bob = join(&server, "bob");
    expect_line(bob, "* you are bob", NULL);
    int eve = join(&server, "eve");
    expect_line(eve, "* you are eve", NULL);
    client_send_text(bob, "/msg ann for you alone\n");
    expect_line(ann, "[bob] for you alone", NULL);
    client_send_text(bob, "/msg nobody hello\n");
    expect_line(bob, "ERR nobody is called nobody", NULL);
    client_send_text(bob, "for all\n");
    expect_line(eve, "[bob] for all", "[bob] for you alone");
    client_close(ann);
    client_close(bob);
    client_close(eve);
    server_stop(&server);
}

/* Large: connections are registered without a guard. */
Test(exercise_stage4, large_without_a_guard)
{
    enum { CLIENTS = 200 };
    static int clients[CLIENTS];
    struct program_result result = program_run("--guard lock");
    cr_assert_eq(result.exit_status, 2, "--guard is still an option");
    struct server_process server = server_start("--workers 2");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "hello\n"); /* each while the dispatcher sleeps */
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    server_stop(&server);
}
