/*
 * Stage 1's promise: a thread for each client, made when it comes and gone when it leaves, so that
 * what one client waits for keeps nobody else waiting. And what that costs: a thread for each
 * client.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

TestSuite(stage1_threads, .timeout = 120);

static void expect_threads(const struct server_process *server, long expected, const char *when)
{
    cr_assert(probe_await_own_threads(server->pid, expected),
              "%s: expected %ld threads, there are %ld", when, expected,
              probe_own_threads(server->pid));
}

ServerTest(stage1_threads, one_for_each_client, "")
{
    enum { CLIENTS = 20 };
    long without = probe_own_threads(server->pid);
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_echo(server, "a thread for me\n");
        expect_threads(server, without + i + 1, "one more client has come");
    }
    for (int i = 0; i < CLIENTS; i += 2) {
        client_close(clients[i]);
    }
    expect_threads(server, without + CLIENTS / 2, "half of the clients have left");
    for (int i = 1; i < CLIENTS; i += 2) {
        client_reset(clients[i]);
    }
    expect_threads(server, without, "all clients have left");
}

/* Nobody waits for another's message, however long it takes. */
Test(stage1_threads, slow_message_delays_nobody_else)
{
    enum { CLIENTS = 10, BLOCK_MS = 500 };
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
    cr_assert(took >= BLOCK_MS / 1000.0 - 0.05 && took < CLIENTS * BLOCK_MS / 1000.0 * 0.7,
              "%d clients with a message of %d ms each took %.2f s; one after the other they would "
              "take %.1f s",
              CLIENTS, BLOCK_MS, took, CLIENTS * BLOCK_MS / 1000.0);
    server_stop(&server);
}

/** How many clients this process and a server of the same limits can have, up to @p wanted. */
static int clients_that_fit(int wanted)
{
    long descriptors = descriptors_raise();
    return descriptors > wanted + 100 ? wanted : (int)descriptors - 100;
}

/* Small stacks: with the usual 8 MiB, 2,000 clients would take 16 GiB of address space. */
Test(stage1_threads, two_thousand_clients_fit_in_memory)
{
    enum { WANTED = 2000, RESIDENT_KIB_EACH = 48, VIRTUAL_KIB_EACH = 256 };
    if (probe_sanitized()) {
        cr_skip_test("a sanitizer's own memory hides the server's");
    }
    static int clients[WANTED];
    int count = clients_that_fit(WANTED);
    setenv("MALLOC_ARENA_MAX", "1", 1); /* glibc would reserve 64 MiB more for each of its arenas */
    struct server_process server = server_start("");
    long without = probe_own_threads(server.pid);
    long resident = probe_resident_kib(server.pid);
    long virtual = probe_virtual_kib(server.pid);
    clients_connect(&server, clients, count, "one of very many\n");
    expect_threads(&server, without + count, "all clients are connected");
    resident = probe_resident_kib(server.pid) - resident;
    virtual = probe_virtual_kib(server.pid) - virtual;
    cr_assert_lt(resident, (long)count * RESIDENT_KIB_EACH,
                 "%d clients took %ld KiB of memory, more than %d KiB each", count, resident,
                 RESIDENT_KIB_EACH);
    cr_assert_lt(virtual, (long)count * VIRTUAL_KIB_EACH,
                 "%d clients took %ld KiB of address space: the stacks are too large", count,
                 virtual);
    clients_close(clients, count);
    expect_threads(&server, without, "all clients have left");
    server_stop(&server);
}

static int connect_until_served(const struct server_process *server)
{
    double end = test_deadline();
    while (test_left_ms(end) > 0) {
        int client = client_connect(server);
        if (client_try_echo(client, "is there a thread\n", end)) {
            return client;
        }
        client_close(client);
        test_pause_ms(2);
    }
    cr_assert_fail("clients have left, and %d ms later a new one still gets no answer",
                   test_deadline_ms());
    return -1;
}

/** Waits until the client has a thread, or is told something. @return whether it has one */
static bool gets_a_thread(const struct server_process *server, int client, long threads_before)
{
    double end = test_deadline();
    while (test_left_ms(end) > 0) {
        if (test_await(client, POLLIN, test_now() + 0.001)) {
            return false;
        }
        if (probe_own_threads(server->pid) > threads_before) {
            return true;
        }
    }
    cr_assert_fail("after %d ms a client has neither a thread nor an answer", test_deadline_ms());
    return false;
}

/*
 * Case 20: no memory for one more stack. Silent clients fill the little address space that the
 * server is left with, so that it is threads, and not buffers, that run out.
 */
Test(stage1_threads, case_20_client_without_a_thread_is_told)
{
    enum { MOST = 500, ROOM = 2 << 20 };
    if (probe_sanitized()) {
        cr_skip_test("a sanitizer needs the address space");
    }
    struct server_process server = server_start("");
    int clients[MOST];
    int count = 1;
    clients[0] = client_connect_echo(&server, "a thread for me\n");
    rlim_t size = (rlim_t)probe_virtual_kib(server.pid) * 1024 + ROOM;
    struct rlimit limit = {.rlim_cur = size, .rlim_max = size};
    cr_assert_eq(prlimit(server.pid, RLIMIT_AS, &limit, NULL), 0);

    int last = -1;
    for (bool room = true; room; count += room) {
        cr_assert_lt(count, MOST, "%d threads fit in %d KiB: the test proves nothing", count,
                     ROOM / 1024);
        long threads = probe_own_threads(server.pid);
        last = client_connect(&server);
        clients[count] = last;
        room = gets_a_thread(&server, last, threads);
    }
    client_expect_text(last, "ERR server busy\n");
    client_expect_end(last);
    client_close(last);
    for (int i = 0; i < count; i++) {
        client_echo(clients[i], "those with a thread are served on\n");
        client_close(clients[i]);
    }
    client_close(connect_until_served(&server));
    server_stop(&server);
}

/* What this stage cannot do: a client that says nothing costs as much as one that does. */
ServerTest(stage1_threads, cannot_yet_have_idle_clients_for_nothing, "")
{
    enum { CLIENTS = 100 };
    long without = probe_own_threads(server->pid);
    for (int i = 0; i < CLIENTS; i++) {
        client_connect(server);
    }
    expect_threads(
        server, without + CLIENTS,
        "a hundred clients that never say a word have a thread each (stage 2 needs one)");
}

/* No handler here can send to another client, which is what a chat is: the reason for stage 4. */
Test(stage1_threads, cannot_yet_chat)
{
    program_expect_lack("chat", "output from other connections' handlers");
}

/* Nor has it a context that all clients share and none of them owns. */
Test(stage1_threads, cannot_yet_be_a_store)
{
    program_expect_lack("store", "strands");
}
