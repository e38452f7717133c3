/*
 * What stage 4 promises, seen from outside: messages that block delay nobody but their own clients,
 * a thread for each worker and two more, and what its options say.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(stage4_outside, .timeout = 120);

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
    clients_connect(&server, quick, QUICK, NULL);
    /* The first message of all pays; whoever's it is, the others are answered meanwhile. */
    server_await_counter(&server, "messages", 1);
    double begin = test_now();
    for (int round = 0; round < 20; round++) {
        clients_echo(quick, QUICK, "this does not\n");
    }
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0 / 2, "quick messages took %.1f s beside a slow one", took);
    client_expect_silence(slow, 10);
    server_close_all(&server);
}

/* Reads from both until one of them has got the text. */
static bool one_is_told(const int clients[2], const char *text)
{
    char got[2][1024] = {""};
    size_t length[2] = {0, 0};
    double end = test_now() + 4;
    while (test_now() < end) {
        for (int i = 0; i < 2; i++) {
            if (!test_await(clients[i], POLLIN, test_now() + 0.01)) {
                continue;
            }
            ssize_t more = recv(clients[i], got[i] + length[i], sizeof got[i] - 1 - length[i], 0);
            length[i] += more > 0 ? (size_t)more : 0;
            if (strstr(got[i], text) != NULL) {
                return true;
            }
        }
    }
    return false;
}

/* The first message keeps the only worker, one more waits, and there is no room for a third. */
static void expect_refusal(const char *app, const char *message, const char *refusal)
{
    int clients[3];
    struct server_process server = server_start(
        "--app %s --root . --workers 1 --queue bounded:1 --block-ms 5000 --drain-timeout 0.1", app);
    clients_connect(&server, clients, 3, NULL);
    server_await_counter(&server, "tasks_completed", 3); /* their first runs */
    client_send_text(clients[0], message);
    server_await_counter(&server, "messages", 1);
    client_send_text(clients[1], message);
    client_send_text(clients[2], message);
    cr_assert(one_is_told(clients + 1, refusal), "nobody is told: %s", refusal);
    server_close_all(&server);
}

Test(stage4_outside, case_35_a_busy_chat_says_so)
{
    expect_refusal("chat", "hello\n", "ERR server busy\n");
}

Test(stage4_outside, case_35_a_busy_mail_server_says_so)
{
    expect_refusal("pop3", "USER ann\r\n",
                   "-ERR [SYS/TEMP] the server is busy, nothing was done\r\n");
}

Test(stage4_outside, case_35_a_busy_web_server_says_so)
{
    expect_refusal("http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 503 ");
}

/* As many messages are under way as there are workers. */
Test(stage4_outside, workers_block_side_by_side)
{
    enum { WORKERS = 4, BLOCK_MS = 400 };
    int clients[2 * WORKERS];
    struct server_process server = server_start("--workers %d --block-ms %d", WORKERS, BLOCK_MS);
    for (int count = WORKERS; count <= 2 * WORKERS; count += WORKERS) {
        clients_connect(&server, clients, count, NULL);
        double begin = test_now();
        clients_send_text(clients, count, "side by side\n");
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
    clients_connect(&server, clients, CLIENTS, "hello\n");
    cr_assert_eq(probe_own_threads(server.pid), 2 + WORKERS, "with %d clients there are %ld",
                 CLIENTS, probe_own_threads(server.pid));
    server_close_all(&server);
}

/* ---- past --max-connections ---- */

static int one_that_stays(const struct server_process *server)
{
    return client_connect_echo(server, "I have the place\n");
}

ServerTest(stage4_outside, overload_reject, "--max-connections 1 --overload reject")
{
    int first = one_that_stays(server);
    int second = client_connect(server);
    client_expect_text(second, "ERR server busy\n");
    client_expect_end(second);
    client_echo(first, "and keep it\n");
}

ServerTest(stage4_outside, overload_redirect, "--max-connections 1 --overload redirect=[::1]:7005")
{
    one_that_stays(server);
    int second = client_connect(server);
    client_expect_text(second, "ERR server busy, try [::1]:7005\n");
    client_expect_end(second);
}

/* The dispatcher that lets one go has to tell the acceptor, which sleeps. */
ServerTest(stage4_outside, overload_wait, "--max-connections 1 --overload wait")
{
    enum { ROUNDS = 20 };
    int first = one_that_stays(server);
    for (int i = 0; i < ROUNDS; i++) {
        int next = client_connect_send(server, "I wait\n");
        client_expect_silence(next, i == 0 ? 100 : 2);
        client_close(first);
        client_expect_text(next, "I wait\n");
        first = next;
    }
}

/** As server_await_counter(), for a counter that is not shown before it has counted something. */
static void await_shown(const struct server_process *server, const char *counter)
{
    enum { SIZE = 1 << 20 };
    char *text = mapped(SIZE);
    double end = test_deadline();
    do {
        server_counter(server, "accepted");
        server_errors(server, text, SIZE);
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

/*
 * Without the guard the acceptor waits for the selector's lock as soon as a client comes, and
 * cannot look at signals. The signal itself ends the dispatcher's sleep, so the first one is
 * enough.
 */
Test(stage4_outside, sigterm_is_heard_without_the_guard_too)
{
    if (probe_thread_sanitized()) /* for it, pthread_mutex_lock(3) is no call that blocks */
        cr_skip_test("ThreadSanitizer keeps the signal from an acceptor that waits for a lock");
    struct server_process server =
        server_start("--guard none --idle-timeout 0 --request-timeout 0 --drain-timeout 2");
    int client = client_connect(&server);
    client_expect_silence(client, 100);
    cr_assert(probe_await_asleep(server.pid)); /* so the acceptor has come to that lock */
    server_stop(&server);
    client_close(client);
}
