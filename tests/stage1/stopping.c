/*
 * Stage 1's end: a thread that blocks in read, in write, or in a slow message has to be woken,
 * because no loop looks at a flag.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(stage1_stopping, .timeout = 120);

/** Stops the server and returns how long that took. */
static double time_to_stop(struct server_process *server)
{
    double begin = test_now();
    server_stop(server);
    return test_now() - begin;
}

ServerTest(stage1_stopping, threads_that_sit_in_read_are_woken, "--drain-timeout 30")
{
    enum { CLIENTS = 50 };
    int clients[CLIENTS];
    clients_connect(server, clients, CLIENTS, "and now its thread reads\n");
    time_to_stop(server); /* asserts that it is well before the drain timeout */
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
}

/* A peer that never reads: its thread writes until the drain timeout, and is cut off then. */
ServerTest(stage1_stopping, threads_that_sit_in_write_are_woken_at_the_drain_timeout,
           "--drain-timeout 1 --send-buffer 4096")
{
    enum { CLIENTS = 5 };
    int clients[CLIENTS];
    size_t length;
    char *line = line_of(65000, "\n", &length);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_with(server, (struct client_buffers){.receive = 4096});
        client_send(clients[i], line, length);
        client_await_reply(clients[i]);
    }
    double took = time_to_stop(server);
    cr_assert(took >= 0.95, "clients do not read and --drain-timeout is 1 s: ended after %.2f s",
              took);
    clients_close(clients, CLIENTS);
    free(line);
}

/* A message that takes longer than the drain timeout does not hold the end up either. */
ServerTest(stage1_stopping, threads_in_a_slow_message_are_cut_short,
           "--block-ms 30000 --drain-timeout 0.5")
{
    client_connect_send(server, "thirty seconds\n");
    server_await_counter(server, "messages", 1);
    double took = time_to_stop(server);
    cr_assert(took >= 0.45, "--drain-timeout is 0.5 s: ended after %.2f s", took);
}

ServerTest(stage1_stopping, pool_and_those_who_wait_for_it, "--threads 2 --drain-timeout 30")
{
    int clients[6];
    for (int i = 0; i < 6; i++) {
        clients[i] = client_connect(server);
        if (i < 2) {
            client_echo(clients[i], "I have a thread\n");
        }
    }
    time_to_stop(server);
    for (int i = 0; i < 6; i++) {
        client_expect_gone(clients[i]);
        client_close(clients[i]);
    }
}

ServerTest(stage1_stopping, idle_pool, "--threads 5")
{
    time_to_stop(server);
}
