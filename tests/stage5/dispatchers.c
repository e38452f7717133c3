/*
 * What stage 5 promises, seen from outside: several dispatchers that share the connections evenly
 * and do not wait for each other, and a rate for clients that one does not trust.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(stage5_dispatchers, .timeout = 120);

/* Each connection goes to the next one; --stats prints a line for each dispatcher. */
Test(stage5_dispatchers, connections_are_spread_evenly)
{
    enum { DISPATCHERS = 3, EACH = 4 };
    int clients[DISPATCHERS * EACH];
    char text[8192];
    struct server_process server = server_start("--dispatchers %d --stats", DISPATCHERS);
    clients_connect(&server, clients, DISPATCHERS * EACH, "hello\n");
    clients_close(clients, DISPATCHERS * EACH);
    server_await_counter(&server, "closed", DISPATCHERS * EACH);
    server_signal(&server, SIGTERM);
    server_await_end(&server, test_deadline());
    server_errors(&server, text, sizeof text);
    server_expect_exit(&server);
    for (int i = 1; i <= DISPATCHERS; i++) {
        char wanted[128];
        snprintf(wanted, sizeof wanted, "%s: dispatcher %d: stats accepted=%d ", server_name(), i,
                 EACH);
        cr_assert(strstr(text, wanted), "no `%s` in: %s", wanted, text);
    }
}

static long threads_with(const char *options)
{
    enum { CLIENTS = 40 };
    int clients[CLIENTS];
    struct server_process server = server_start("%s", options);
    clients_connect(&server, clients, CLIENTS, "hello\n");
    long threads = probe_own_threads(server.pid);
    server_close_all(&server);
    return threads;
}

/* Handlers run in the dispatchers' own threads, unless there are workers. */
Test(stage5_dispatchers, a_thread_for_each_and_none_for_clients)
{
    long one = threads_with("--dispatchers 1");
    long four = threads_with("--dispatchers 4");
    long none = threads_with("--dispatchers 1 --workers 0 --max-workers 2");
    cr_assert_eq(four - one, 3, "with one dispatcher there are %ld threads, with four %ld", one,
                 four);
    cr_assert_eq(none, one, "without workers there are %ld threads, and not %ld", none, one);
}

/* The first message of all blocks its dispatcher; whose clients wait, and nobody else's. */
Test(stage5_dispatchers, one_that_is_held_up_holds_up_its_own_clients_only)
{
    enum { BLOCK_MS = 2000 };
    struct server_process server = server_start(
        "--dispatchers 2 --block-ms %d --cost-every 1000000 --drain-timeout 0.1", BLOCK_MS);
    int slow = client_connect(&server);
    int other = client_connect(&server);
    int same = client_connect(&server);
    double begin = test_now();
    client_send_text(slow, "this takes a while\n");
    server_await_counter(&server, "messages", 1);
    client_echo(other, "this does not\n");
    double others = test_now() - begin;
    client_echo(same, "this waits\n");
    double its_own = test_now() - begin;
    cr_assert_lt(others, BLOCK_MS / 1000.0 * 0.8,
                 "a client of the other dispatcher was answered after %.2f s", others);
    cr_assert(its_own >= BLOCK_MS / 1000.0 - 0.05,
              "a client of the same dispatcher was answered after %.2f s", its_own);
    client_expect_text(slow, "this takes a while\n");
    server_close_all(&server);
}

/* With workers a message that blocks keeps no dispatcher. */
Test(stage5_dispatchers, workers_take_what_blocks)
{
    enum { BLOCK_MS = 5000 };
    struct server_process server = server_start(
        "--dispatchers 1 --workers 2 --block-ms %d --cost-every 1000000 --drain-timeout 0.1",
        BLOCK_MS);
    int slow = client_connect(&server);
    int quick = client_connect(&server);
    double begin = test_now();
    client_send_text(slow, "this takes a while\n");
    server_await_counter(&server, "messages", 1);
    client_echo(quick, "this does not\n");
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0 / 2, "a quick message took %.2f s", took);
    server_close_all(&server);
}

static double seconds_for_a_reply(const char *suspicious)
{
    enum { BYTES = 500, RATE = 500 };
    struct server_process server = server_start("--suspicious %s --throttle %d", suspicious, RATE);
    int client = client_connect(&server);
    char line[BYTES + 1];
    memset(line, 'x', BYTES);
    line[BYTES - 1] = '\n';
    line[BYTES] = '\0';
    double begin = test_now();
    client_echo(client, line);
    double took = test_now() - begin;
    server_close_all(&server);
    return took;
}

/* Those whose address is suspicious are sent so many bytes a second, and nobody else is. */
Test(stage5_dispatchers, suspicious_clients_are_sent_slowly)
{
    double suspicious = seconds_for_a_reply("127.0.0.0/8");
    double trusted = seconds_for_a_reply("10.0.0.0/8");
    cr_assert(suspicious >= 0.8, "500 bytes at 500 a second took %.2f s", suspicious);
    cr_assert_lt(trusted, 0.8, "a client that is not suspicious waited %.2f s", trusted);
}
