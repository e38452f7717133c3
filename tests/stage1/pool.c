/*
 * Stage 1 with a fixed pool: `--threads N` has N handler threads, no more and no fewer. Client N+1
 * is connected and waits until a thread is free. And what a pool of blocking threads cannot do:
 * serve more clients than it has threads.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(stage1_pool, .timeout = 120);

/** The threads of a server with a thread for each client and no client: the acceptor's. */
static long threads_without_clients(void)
{
    struct server_process server = server_start("");
    long threads = probe_own_threads(server.pid);
    server_stop(&server);
    return threads;
}

Test(stage1_pool, exactly_n_threads)
{
    enum { POOL = 7, CLIENTS = 20 };
    long acceptor = threads_without_clients();
    struct server_process server = server_start("--threads %d", POOL);
    int clients[CLIENTS];
    cr_assert(probe_await_own_threads(server.pid, acceptor + POOL),
              "--threads %d without a client: expected %d handler threads, there are %ld", POOL,
              POOL, probe_own_threads(server.pid) - acceptor);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(&server, "hello\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "hello\n");
        cr_assert_eq(probe_own_threads(server.pid), acceptor + POOL,
                     "--threads %d with %d clients: expected %d handler threads, there are %ld",
                     POOL, CLIENTS, POOL, probe_own_threads(server.pid) - acceptor);
        client_half_close(clients[i]);
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    server_stop(&server);
}

/* What this stage cannot do: two silent clients keep the whole pool busy. */
ServerTest(stage1_pool, cannot_yet_serve_more_clients_than_threads, "--threads 2")
{
    int silent[2];
    clients_connect(server, silent, 2, "from now on I say nothing\n");
    int third = client_connect(server);
    int fourth = client_connect(server);
    client_send_text(third, "I wait\n");
    client_send_text(fourth, "I wait longer\n");
    client_expect_silence(third, 200);
    client_expect_silence(fourth, 50);
    client_close(silent[0]);
    client_expect_text(third, "I wait\n");
    client_expect_silence(fourth, 50);
    client_reset(silent[1]);
    client_expect_text(fourth, "I wait longer\n");
}

/* Erratum 30: a thread whose client has left serves the next one, and does not go round for the old
 * one. */
Test(stage1_pool, erratum_30_as_many_as_there_are_threads_have_left)
{
    enum { POOL = 10 };
    struct server_process server = server_start("--threads %d", POOL);
    for (int i = 0; i < POOL; i++) {
        int client = client_connect_echo(&server, "hi\n");
        if (i % 2 == 0)
            client_reset(client);
        else
            client_close(client);
    }
    client_connect_echo(&server, "hi\n");
    server_close_all(&server);
}

/* With all threads in a slow message the next client waits for one of them, message after message.
 */
Test(stage1_pool, slow_messages_keep_the_pool_busy)
{
    enum { POOL = 2, CLIENTS = 6, BLOCK_MS = 200 };
    struct server_process server = server_start("--threads %d --block-ms %d", POOL, BLOCK_MS);
    int clients[CLIENTS];
    double begin = test_now();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(&server, "this takes a while\n");
        client_half_close(clients[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "this takes a while\n");
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    double least = BLOCK_MS / 1000.0 * CLIENTS / POOL;
    double took = test_now() - begin;
    cr_assert(took >= least - 0.05,
              "%d messages of %d ms in %d threads took %.2f s; they should take %.1f s", CLIENTS,
              BLOCK_MS, POOL, took, least);
    server_stop(&server);
}

ServerTest(stage1_pool, threads_are_used_again, "--threads 2")
{
    long acceptor = threads_without_clients();
    for (int i = 0; i < 200; i++) {
        int client = client_connect_echo(server, "one of many\n");
        if (i % 3 == 0) {
            client_reset(client);
        } else {
            client_close(client);
        }
    }
    cr_assert_eq(probe_own_threads(server->pid), acceptor + 2, "200 clients later there are %ld",
                 probe_own_threads(server->pid) - acceptor);
}

/* A client that left while it waited for a thread is no trouble when its turn comes. */
ServerTest(stage1_pool, client_leaves_while_it_waits, "--threads 1")
{
    int first = client_connect_echo(server, "I have the thread\n");
    for (int i = 0; i < 10; i++) {
        int client = client_connect_send(server, "too impatient\n");
        if (i % 2) {
            client_reset(client);
        } else {
            client_close(client);
        }
    }
    int last = client_connect_send(server, "patient\n");
    client_close(first);
    client_expect_text(last, "patient\n");
}

/* What the thread's last client was closed for does not keep it from seeing this one's end. */
ServerTest(stage1_pool, the_end_of_a_client_after_one_that_was_timed_out,
           "--threads 1 --request-timeout 0.1")
{
    for (int i = 0; i < 3; i++) {
        int slow = client_connect_send(server, "half a line");
        client_expect_gone(slow);
        client_close(slow);
        int next = client_connect_echo(server, "a whole line\n");
        client_half_close(next);
        client_expect_end(next);
    }
}

/* --max-connections counts those who wait for a thread, too. */
ServerTest(stage1_pool, waiting_clients_count_as_connections, "--threads 1 --max-connections 2")
{
    int first = client_connect_echo(server, "I have the thread\n");
    int second = client_connect_send(server, "I wait\n");
    int third = client_connect(server);
    client_expect_text(third, "ERR server busy\n");
    client_expect_end(third);
    client_close(third);
    client_close(first);
    client_expect_text(second, "I wait\n");
}

static void expect_bad_threads(const char *value)
{
    char start[256];
    struct program_result result = program_run("--threads %s", value);
    snprintf(start, sizeof start, "%s: --threads: expected a number from ", server_name());
    cr_assert(result.exit_status == 2 && strncmp(result.err, start, strlen(start)) == 0,
              "`--threads %s`: expected exit status 2 and `%s...`, got %d and `%s`", value, start,
              result.exit_status, result.err);
}

Test(stage1_pool, bad_number_of_threads)
{
    expect_bad_threads("x");
    expect_bad_threads("-1");
    expect_bad_threads("99999999999");
}
