/*
 * The exercises of docs/stage3.md: tests that fail until one has been done.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>

TestSuite(exercise_stage3, .timeout = 60);

/* Small: a counter of how often a worker has handed a connection back. */
Test(exercise_stage3, small_hand_backs_are_counted)
{
    enum { LINES = 5 };
    struct server_process server = server_start("--workers 2");
    int client = client_connect(&server);
    for (int i = 0; i < LINES; i++) {
        client_echo(client, "one after the other\n");
    }
    server_await_counter(&server, "hand_backs", LINES);
    cr_assert_eq(server_counter(&server, "hand_backs"), LINES);
    client_close(client);
    server_stop(&server);
}

/* Medium: --max-wait-ms N refuses a message that has waited longer than that for a worker. */
Test(exercise_stage3, medium_who_has_waited_too_long_is_told)
{
    enum { BLOCK_MS = 800 };
    struct server_process server = server_start(
        "--workers 1 --block-ms %d --cost-every 1000 --max-wait-ms 300 --drain-timeout 0",
        BLOCK_MS);
    int busy = client_connect(&server);
    int late = client_connect(&server);
    client_send_text(busy, "this takes a while\n"); /* the first of a thousand messages pays */
    server_await_counter(&server, "messages", 1);
    client_send_text(late, "in vain\n");
    client_expect_text(busy, "this takes a while\n");
    client_expect_text(late, "ERR server busy\n");
    client_echo(late, "and this does not wait\n");
    client_close(busy);
    client_close(late);
    server_stop(&server);
}

/* Large: there is no guard any more, and nothing waits for one. */
Test(exercise_stage3, large_without_a_guard)
{
    enum { LINES = 1000 };
    struct program_result result = program_run("--guard lock");
    cr_assert_eq(result.exit_status, 2, "--guard is still an option");
    struct server_process server = server_start("--workers 1 --block-ms 300 --cost-every 100000");
    int client = client_connect(&server);
    client_send_text(client, "first\n");
    server_await_counter(&server, "messages", 1);
    client_send_text(client, "second\n"); /* while a worker has the first, on an idle server */
    client_expect_text(client, "first\nsecond\n");
    for (int i = 0; i < LINES; i++) {
        client_echo(client, "one after the other\n");
    }
    client_close(client);
    server_stop(&server);
}
