/*
 * The exercises of docs/stage1.md: tests that fail until one has been done.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>

TestSuite(exercise_stage1, .timeout = 60);

/* Small: the stats line tells how many clients there were at one time, at the most. */
Test(exercise_stage1, small_most_clients_are_counted)
{
    enum { CLIENTS = 3 };
    struct server_process server = server_start("--stats");
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "hello\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    server_await_counter(&server, "closed", CLIENTS);
    int later = client_connect(&server);
    client_echo(later, "hello\n");
    cr_assert_eq(server_counter(&server, "most_threads"), CLIENTS,
                 "three clients at once, then one: most_threads=%lld",
                 server_counter(&server, "most_threads"));
    client_close(later);
    server_stop(&server);
}

/* Large: --max-threads lets a pool grow when somebody has waited for a second, and no further. */
Test(exercise_stage1, large_the_pool_grows_for_those_who_wait)
{
    struct server_process server = server_start("--threads 1 --max-threads 3");
    long without = probe_own_threads(server.pid);
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = client_connect(&server);
        client_echo(clients[i], "and now I keep a thread\n");
    }
    cr_assert_eq(probe_own_threads(server.pid), without + 2);
    int fourth = client_connect(&server);
    client_send_text(fourth, "I wait\n");
    client_expect_silence(fourth, 1500);
    cr_assert_eq(probe_own_threads(server.pid), without + 2, "there are more than --max-threads");
    client_close(clients[0]);
    client_expect_text(fourth, "I wait\n");
    client_close(clients[1]);
    client_close(clients[2]);
    client_close(fourth);
    server_stop(&server);
}

/* Those threads that are more than --threads end when they have had nothing to do for so long. */
Test(exercise_stage1, large_the_pool_shrinks_again)
{
    enum { CLIENTS = 3 };
    struct server_process server =
        server_start("--threads 1 --max-threads %d --keep-alive 0.3", CLIENTS);
    long without = probe_own_threads(server.pid);
    for (int round = 0; round < 2; round++) {
        int clients[CLIENTS];
        for (int i = 0; i < CLIENTS; i++) {
            clients[i] = client_connect(&server);
            client_echo(clients[i], "and now I keep a thread\n");
        }
        cr_assert_eq(probe_own_threads(server.pid), without + CLIENTS - 1);
        for (int i = 0; i < CLIENTS; i++) {
            client_close(clients[i]);
        }
        cr_assert(probe_await_own_threads(server.pid, without), "there are %ld threads, not %ld",
                  probe_own_threads(server.pid), without);
    }
    server_stop(&server);
}
