/*
 * Stage 2's promise: one thread serves any number of clients, and a busy one gets no more than its
 * turn. And what one thread cannot do: a message that blocks it keeps everybody waiting.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(stage2_one_thread, .timeout = 60);

static void expect_one_thread(const struct server_process *server, const char *when)
{
    cr_assert_eq(probe_own_threads(server->pid), 1, "%s: expected one thread, there are %ld", when,
                 probe_own_threads(server->pid));
}

Test(stage2_one_thread, however_many_clients)
{
    enum { CLIENTS = 500 };
    static int clients[CLIENTS];
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);

    struct server_process server = server_start("%s", "");
    long without = probe_own_threads(server.pid); /* 1 here; a runtime may bring some of its own */
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "one of many\n");
    }
    cr_assert_eq(probe_own_threads(server.pid), without,
                 "five hundred clients: expected %ld thread, as without them, there are %ld",
                 without, probe_own_threads(server.pid));
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    server_stop(&server);
}

/*
 * What this stage cannot do, and the reason for stage 3: the one thread that waits for a slow
 * message cannot look at any other client meanwhile.
 */
Test(stage2_one_thread, cannot_yet_a_slow_message_delays_everybody)
{
    enum { CLIENTS = 4, BLOCK_MS = 300 };
    struct server_process server = server_start("--block-ms %d", BLOCK_MS);
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
    }
    double begin = test_now();
    for (int i = 0; i < CLIENTS; i++) {
        client_send_text(clients[i], "this takes a while\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "this takes a while\n");
        client_close(clients[i]);
    }
    double took = test_now() - begin;
    double least = CLIENTS * BLOCK_MS / 1000.0;
    cr_assert(took >= least - 0.05,
              "%d clients with a message of %d ms each took %.2f s in one thread, which takes at "
              "least %.1f s: is there a second thread?",
              CLIENTS, BLOCK_MS, took, least);
    expect_one_thread(&server, "after that");
    server_stop(&server);
}

/* One slow message in ten, all of them another client's: the quick ones wait for it as well. */
Test(stage2_one_thread, cannot_yet_quick_messages_wait_for_a_slow_one)
{
    enum { BLOCK_MS = 500 };
    struct server_process server = server_start("--block-ms %d --cost-every 2", BLOCK_MS);
    int slow = client_connect(&server);
    int quick = client_connect(&server);
    double begin = test_now();
    client_send_text(slow, "this takes a while\n"); /* the first of every two messages pays */
    server_await_counter(&server, "messages", 1);   /* answered once the thread is free again */
    client_echo(quick, "this does not\n");
    double took = test_now() - begin;
    cr_assert(took >= BLOCK_MS / 1000.0 - 0.05,
              "a quick message was answered after %.2f s, while the only thread should have been "
              "blocked for %d ms",
              took, BLOCK_MS);
    client_expect_text(slow, "this takes a while\n");
    client_close(slow);
    client_close(quick);
    server_stop(&server);
}

/*
 * A client that pipelines without end gets its turn, and then the others get theirs. An empty line
 * is a request of one byte, so a single read brings thousands of them: it is not what one read
 * brings that is a turn, or each of the other's messages would wait for seconds.
 */
Test(stage2_one_thread, firehose_gets_no_more_than_its_turn)
{
    enum { LINES = 20000, WORK_US = 500, ROUNDS = 3 };
    static char lines[LINES];
    struct server_process server = server_start("--work-us %d", WORK_US);
    int firehose = client_connect(&server);
    int other = client_connect(&server);
    memset(lines, '\n', LINES);
    client_send(firehose, lines, LINES);
    client_await_delivered(firehose);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = test_now();
        client_echo(other, "in between\n");
        double took = test_now() - begin;
        cr_assert_lt(took, 2.5,
                     "another client's message took %.2f s beside one that has 10 s of work to "
                     "offer",
                     took);
    }
    client_reset(firehose);
    client_close(other);
    server_stop(&server);
}
