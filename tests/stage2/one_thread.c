/*
 * Stage 2's promise: one thread serves any number of clients, and a busy one gets no more than its
 * turn. And what one thread cannot do: a message that blocks it keeps everybody waiting.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <crypt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage2_one_thread, .timeout = 120);

static void expect_one_thread(const struct server_process *server, const char *when)
{
    cr_assert_eq(probe_own_threads(server->pid), 1, "%s: expected one thread, there are %ld", when,
                 probe_own_threads(server->pid));
}

Test(stage2_one_thread, however_many_clients)
{
    enum { CLIENTS = 500 };
    static int clients[CLIENTS];
    descriptors_raise();
    struct server_process server = server_start("");
    long without = probe_own_threads(server.pid); /* 1 here; a runtime may bring some of its own */
    clients_connect(&server, clients, CLIENTS, "one of many\n");
    cr_assert_eq(probe_own_threads(server.pid), without,
                 "five hundred clients: expected %ld thread, as without them, there are %ld",
                 without, probe_own_threads(server.pid));
    server_close_all(&server);
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
    clients_connect(&server, clients, CLIENTS, NULL);
    double begin = test_now();
    clients_send_text(clients, CLIENTS, "this takes a while\n");
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
    server_close_all(&server);
}

enum { LINES = 20000, WORK_US = 500, ROUNDS = 3 };

/*
 * A client that pipelines without end gets its turn, and then the others get theirs. An empty line
 * is a request of one byte, so a single read brings thousands of them: it is not what one read
 * brings that is a turn, or each of the other's messages would wait for seconds.
 */
ServerTest(stage2_one_thread, firehose_gets_no_more_than_its_turn, "--work-us %d", WORK_US)
{
    static char lines[LINES];
    int firehose = client_connect(server);
    int other = client_connect(server);
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
}

/* No handler here can send to another client, which is what a chat is: the reason for stage 4. */
Test(stage2_one_thread, cannot_yet_chat)
{
    program_expect_lack("chat", "output from other connections' handlers");
}

/* Nor has it a context that all clients share and none of them owns. */
Test(stage2_one_thread, cannot_yet_be_a_store)
{
    program_expect_lack("store", "strands");
}

/* Writes a file with a user whose password takes this machine a good while to check. */
static void write_user(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file, "ann:%s\n", crypt("sesame", "$6$rounds=300000$saltsalt$"));
    cr_assert_eq(fclose(file), 0);
}

/* A password is hashed on purpose for a long time; nobody else is served meanwhile. */
Test(stage2_one_thread, cannot_yet_check_a_password_beside_others)
{
    char folder[] = "/tmp/stage2-users-XXXXXX";
    char users[sizeof folder + 8];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(users, sizeof users, "%s/users", folder);
    write_user(users);
    struct server_process server =
        server_start("--app pop3 --mail-dir %s --users %s", folder, users);
    int slow = client_connect(&server);
    int quick = client_connect(&server);
    client_await_reply(slow); /* the greetings */
    client_await_reply(quick);
    char greeting[512];
    cr_assert_gt(read(slow, greeting, sizeof greeting), 0);
    cr_assert_gt(read(quick, greeting, sizeof greeting), 0);
    client_send_text(slow, "USER ann\r\n");
    client_await_reply(slow);
    cr_assert_gt(read(slow, greeting, sizeof greeting), 0);

    client_send_text(slow, "PASS sesame\r\n");
    client_await_delivered(slow);
    client_send_text(quick, "NOOP\r\n");
    client_await_reply(quick);
    struct pollfd answered = {.fd = slow, .events = POLLIN};
    cr_assert_eq(poll(&answered, 1, 0), 1,
                 "the quick one was answered while a password was being checked");
    server_close_all(&server);
    unlink(users);
    rmdir(folder);
}
