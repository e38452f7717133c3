/*
 * What stage 4 promises, seen from outside: messages that block delay nobody but their own clients,
 * a thread for each worker and two more, urgent clients first, and what its options say.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(stage4_outside, .timeout = 60);

/* One message blocks for longer than any other may wait. */
Test(stage4_outside, a_message_that_blocks_delays_nobody_else)
{
    enum { BLOCK_MS = 5000, QUICK = 3 };
    struct server_process server = server_start(
        "--workers 2 --block-ms %d --cost-every 1000000 --drain-timeout 0.1", BLOCK_MS);
    int slow = client_connect(&server);
    int quick[QUICK];
    client_send_text(slow, "this takes a while\n");
    client_await_delivered(slow);
    for (int i = 0; i < QUICK; i++) {
        quick[i] = client_connect(&server);
    }
    /* The first message of all pays; whoever's it is, the others are answered meanwhile. */
    server_await_counter(&server, "messages", 1);
    double begin = test_now();
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < QUICK; i++) {
            client_echo(quick[i], "this does not\n");
        }
    }
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0 / 2, "quick messages took %.1f s beside a slow one", took);
    client_expect_silence(slow, 10);
    for (int i = 0; i < QUICK; i++) {
        client_close(quick[i]);
    }
    client_close(slow);
    server_stop(&server);
}

/* As many messages are under way as there are workers. */
Test(stage4_outside, workers_block_side_by_side)
{
    enum { WORKERS = 4, BLOCK_MS = 400 };
    int clients[2 * WORKERS];
    struct server_process server = server_start("--workers %d --block-ms %d", WORKERS, BLOCK_MS);
    for (int count = WORKERS; count <= 2 * WORKERS; count += WORKERS) {
        for (int i = 0; i < count; i++) {
            clients[i] = client_connect(&server);
        }
        double begin = test_now();
        for (int i = 0; i < count; i++) {
            client_send_text(clients[i], "side by side\n");
        }
        for (int i = 0; i < count; i++) {
            client_expect_text(clients[i], "side by side\n");
            client_close(clients[i]);
        }
        double took = test_now() - begin;
        double least = BLOCK_MS / 1000.0 * count / WORKERS;
        cr_assert(took >= least - 0.05 && took < least + 2 * BLOCK_MS / 1000.0,
                  "%d messages of %d ms took %.2f s with %d workers", count, BLOCK_MS, took,
                  WORKERS);
    }
    server_stop(&server);
}

Test(stage4_outside, threads_are_main_dispatcher_and_workers)
{
    enum { WORKERS = 3, CLIENTS = 200 };
    static int clients[CLIENTS];
    struct server_process server = server_start("--workers %d", WORKERS);
    cr_assert(probe_await_own_threads(server.pid, 2), "without a client there are %ld threads",
              probe_own_threads(server.pid));
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "hello\n");
    }
    cr_assert_eq(probe_own_threads(server.pid), 2 + WORKERS, "with %d clients there are %ld",
                 CLIENTS, probe_own_threads(server.pid));
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    server_stop(&server);
}

/* ---- urgent clients ---- */

/** The port in the second line that the server prints. */
static int urgent_port(const struct server_process *server)
{
    char line[256];
    size_t length = 0;
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (length < sizeof line - 1 && test_await(server->out, POLLIN, end) &&
           read(server->out, line + length, 1) == 1 && line[length] != '\n') {
        length++;
    }
    line[length] = '\0';
    const char *colon = strrchr(line, ':');
    cr_assert(colon && strstr(line, ": urgent echo on "), "`%s`", line);
    return atoi(colon + 1);
}

Test(stage4_outside, urgent_clients_go_first)
{
    enum { OTHERS = 6, BLOCK_MS = 150 };
    int clients[OTHERS];
    struct server_process server =
        server_start("--workers 1 --queue priority --priority-port 0 --block-ms %d", BLOCK_MS);
    struct server_process urgent_door = server;
    urgent_door.port = urgent_port(&server);
    int urgent = client_connect(&urgent_door);
    client_echo(urgent, "hello\n"); /* it is registered */
    for (int i = 0; i < OTHERS; i++) {
        clients[i] = client_connect(&server);
        client_send_text(clients[i], "in turn\n");
        client_await_delivered(clients[i]);
    }
    client_expect_text(clients[0], "in turn\n"); /* so the others are waiting for their turn */
    client_echo(urgent, "at once\n");
    char byte;
    cr_assert_eq(recv(clients[OTHERS - 1], &byte, 1, MSG_PEEK), -1,
                 "the last of those that waited was served before the urgent one");
    for (int i = 1; i < OTHERS; i++) {
        client_expect_text(clients[i], "in turn\n");
    }
    for (int i = 0; i < OTHERS; i++) {
        client_close(clients[i]);
    }
    client_close(urgent);
    server_stop(&server);
}

/* ---- options ---- */

static void expect_default(const char *help, const char *option, const char *value)
{
    char wanted[32];
    const char *line = strstr(help, option);
    cr_assert_not_null(line, "no %s in --help", option);
    const char *end = strchr(line, '\n');
    snprintf(wanted, sizeof wanted, "[%s]", value);
    const char *found = strstr(line, wanted);
    cr_assert(found && found < end, "the default of %s is not %s: %.*s", option, value,
              (int)(end - line), line);
}

Test(stage4_outside, help_tells_the_defaults)
{
    struct program_result result = program_run("--help");
    cr_assert_eq(result.exit_status, 0);
    expect_default(result.out, "--port ", "7004");
    expect_default(result.out, "--app ", "echo");
    expect_default(result.out, "--idle-timeout ", "60");
    expect_default(result.out, "--request-timeout ", "30");
    expect_default(result.out, "--lifetime ", "0");
    expect_default(result.out, "--queue ", "unbounded");
    expect_default(result.out, "--saturation ", "abort");
    expect_default(result.out, "--guard ", "lock");
    expect_default(result.out, "--overload ", "reject");
}

Test(stage4_outside, bad_usage_is_told)
{
    static const char *const bad[][2] = {
        {"--app nonsense", "--app: not one of echo, chat"},
        {"--guard maybe", "--guard: not one of lock, none: maybe"},
        {"--queue bounded:0", "--queue: not one of direct, bounded:N, unbounded, priority"},
        {"--saturation panic", "--saturation: not one of abort, block, caller-runs"},
        {"--workers 0", "--workers: not a number from 1 to"},
        {"--selector select", "--selector: "},
        {"--priority-port x", "--priority-port: not a port number or none: x"},
        {"--threads 1", "--threads: unknown option"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct program_result result = program_run("%s", bad[i][0]);
        cr_assert_eq(result.exit_status, 2, "`%s` ended with %d", bad[i][0], result.exit_status);
        cr_assert(strstr(result.err, bad[i][1]), "`%s`: %s", bad[i][0], result.err);
        cr_assert_str_empty(result.out);
    }
}

/* ---- past --max-connections ---- */

static int one_that_stays(const struct server_process *server)
{
    int client = client_connect(server);
    client_echo(client, "I have the place\n");
    return client;
}

Test(stage4_outside, overload_reject)
{
    struct server_process server = server_start("--max-connections 1 --overload reject");
    int first = one_that_stays(&server);
    int second = client_connect(&server);
    client_expect_text(second, "ERR server busy\n");
    client_expect_end(second);
    client_echo(first, "and keep it\n");
    client_close(first);
    client_close(second);
    server_stop(&server);
}

Test(stage4_outside, overload_redirect)
{
    struct server_process server =
        server_start("--max-connections 1 --overload redirect=[::1]:7005");
    int first = one_that_stays(&server);
    int second = client_connect(&server);
    client_expect_text(second, "ERR server busy, try [::1]:7005\n");
    client_expect_end(second);
    client_close(first);
    client_close(second);
    server_stop(&server);
}

/* The dispatcher that lets one go has to tell the acceptor, which sleeps. */
Test(stage4_outside, overload_wait)
{
    enum { ROUNDS = 20 };
    struct server_process server = server_start("--max-connections 1 --overload wait");
    int first = one_that_stays(&server);
    for (int i = 0; i < ROUNDS; i++) {
        int next = client_connect(&server);
        client_send_text(next, "I wait\n");
        client_expect_silence(next, i == 0 ? 100 : 2);
        client_close(first);
        client_expect_text(next, "I wait\n");
        first = next;
    }
    client_close(first);
    server_stop(&server);
}

/** As server_await_counter(), for a counter that is not shown before it has counted something. */
static void await_shown(const struct server_process *server, const char *counter)
{
    static char text[1 << 20];
    double end = test_now() + test_deadline_ms() / 1000.0;
    do {
        server_counter(server, "accepted");
        server_errors(server, text, sizeof text);
    } while (stats_value(text, counter, NULL) < 1 && test_left_ms(end) > 0);
    cr_assert_geq(stats_value(text, counter, NULL), 1, "%s stays away", counter);
}

/* Policies that hold the dispatcher itself up do not hold up the end. */
static void stop_while_held_up(const char *policy, const char *counter)
{
    enum { BLOCK_MS = 10000 };
    struct server_process server =
        server_start("--workers 1 --queue direct --saturation %s --block-ms %d --drain-timeout 0.5",
                     policy, BLOCK_MS);
    int first = client_connect(&server);
    int second = client_connect(&server);
    server_await_counter(&server, "tasks_completed", 2); /* both have begun */
    client_send_text(first, "a worker has this\n");
    server_await_counter(&server, "messages", 1);
    client_send_text(second, "and the dispatcher this\n");
    await_shown(&server, counter);
    double begin = test_now();
    server_stop(&server);
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0 / 2, "%s: the end took %.1f s", policy, took);
    client_close(first);
    client_close(second);
}

Test(stage4_outside, case_39_drain_timeout_holds_under_block)
{
    stop_while_held_up("block", "tasks_blocked");
}

Test(stage4_outside, case_39_drain_timeout_holds_under_caller_runs)
{
    stop_while_held_up("caller-runs", "tasks_by_caller");
}
