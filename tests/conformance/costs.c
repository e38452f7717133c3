/*
 * What a message costs, for the experiments: --block-ms, --work-us, and --cost-every.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>

TestSuite(costs, .timeout = 60);

/** Seconds for so many messages, one after the other. */
static double time_of(const struct server_process *server, int messages)
{
    int client = client_connect(server);
    double begin = test_now();
    for (int i = 0; i < messages; i++) {
        client_echo(client, "what does it cost\n");
    }
    double took = test_now() - begin;
    client_close(client);
    return took;
}

Test(costs, block_ms)
{
    struct server_process server = server_start("--block-ms 100");
    double took = time_of(&server, 3);
    cr_assert(took >= 0.29, "--block-ms 100: three messages took %.3f s", took);
    server_stop(&server);
}

/* The answer to the first line does not wait until the last one has been paid for, too. */
Test(costs, answers_leave_before_the_next_message_blocks)
{
    struct server_process server = server_start("--block-ms 300");
    int client = client_connect(&server);
    double begin = test_now();
    client_send_text(client, "one\ntwo\nthree\nfour\n");
    client_expect_text(client, "one\n");
    double first = test_now() - begin;
    client_expect_text(client, "two\nthree\nfour\n");
    double last = test_now() - begin;
    cr_assert_lt(first, last - 0.5, "the first answer came after %.1f s, the last after %.1f s",
                 first, last);
    server_close_all(&server);
}

Test(costs, work_us)
{
    struct server_process server = server_start("--work-us 50000");
    double took = time_of(&server, 3);
    cr_assert(took >= 0.14, "--work-us 50000: three messages took %.3f s", took);
    server_stop(&server);
}

Test(costs, one_message_in_n_pays)
{
    struct server_process server = server_start("--block-ms 200 --cost-every 3");
    double took = time_of(&server, 6);
    cr_assert(took >= 0.39 && took < 1.1,
              "--block-ms 200 --cost-every 3: six messages took %.3f s; two of them should pay",
              took);
    server_stop(&server);
}
