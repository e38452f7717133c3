/*
 * The exercises of docs/stage2.md: tests that fail until one has been done.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>

TestSuite(exercise_stage2, .timeout = 60);

/** Seconds until a client is answered beside one that has pipelined messages of 20 ms each. */
static double beside_a_pipeline(int turn)
{
    enum { LINES = 200, BLOCK_MS = 20 };
    struct server_process server =
        server_start("--turn %d --block-ms %d --drain-timeout 0", turn, BLOCK_MS);
    int firehose = client_connect(&server);
    int other = client_connect(&server);
    size_t length;
    char *lines = lines_numbered("firehose", LINES, &length);
    client_send(firehose, lines, length);
    server_await_counter(&server, "messages", 1); /* it is under way, or a turn of it is over */
    double begin = test_now();
    client_echo(other, "in between\n");
    double took = test_now() - begin;
    client_reset(firehose);
    client_close(other);
    free(lines);
    server_stop(&server);
    return took;
}

/* Small: --turn N, how many messages of a client are answered before it is the others' turn. */
Test(exercise_stage2, small_a_turn_is_as_long_as_one_says)
{
    double one = beside_a_pipeline(1);
    double fifty = beside_a_pipeline(50);
    cr_assert(one < 0.5 && fifty > 0.6,
              "beside a client with messages of 20 ms another one waits %.2f s with --turn 1, and "
              "%.2f s with --turn 50",
              one, fifty);
}

/* Medium: --pause-ms N answers each message N ms late, and delays nobody else. */
Test(exercise_stage2, medium_a_pause_is_one_client_s_own)
{
    enum { CLIENTS = 4, PAUSE_MS = 600 };
    struct server_process server = server_start("--pause-ms %d", PAUSE_MS);
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
    }
    double begin = test_now();
    for (int i = 0; i < CLIENTS; i++) {
        client_send_text(clients[i], "first\nsecond\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "first\n");
    }
    double first = test_now() - begin;
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "second\n");
        client_close(clients[i]);
    }
    double second = test_now() - begin;
    double pause = PAUSE_MS / 1000.0;
    cr_assert(first >= pause * 0.95 && first < CLIENTS * pause * 0.7,
              "four messages with a pause of %.1f s took %.2f s", pause, first);
    cr_assert(second >= 2 * pause * 0.95, "the second messages were there after %.2f s", second);
    server_stop(&server);
}
