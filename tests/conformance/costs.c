/*
 * What a message costs, for the experiments: --block-ms, --work-us, and --cost-every.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>

TestSuite(costs, .timeout = 120);

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

ServerTest(costs, block_ms, "--block-ms 100")
{
    double took = time_of(server, 3);
    cr_assert(took >= 0.29, "--block-ms 100: three messages took %.3f s", took);
}

/* The answer to the first line does not wait until the last one has been paid for, too. */
ClientTest(costs, answers_leave_before_the_next_message_blocks, "--block-ms 300")
{
    double begin = test_now();
    client_ask(client, "one\ntwo\nthree\nfour\n", "one\n");
    double first = test_now() - begin;
    client_expect_text(client, "two\nthree\nfour\n");
    double last = test_now() - begin;
    cr_assert_lt(first, last - 0.5, "the first answer came after %.1f s, the last after %.1f s",
                 first, last);
}

ServerTest(costs, work_us, "--work-us 50000")
{
    double took = time_of(server, 3);
    cr_assert(took >= 0.14, "--work-us 50000: three messages took %.3f s", took);
}

/* Whoever pays takes the time, on any machine. A busy one takes it of the others, too, but not of
 * all of them in each try. */
ServerTest(costs, one_message_in_n_pays, "--block-ms 200 --cost-every 3")
{
    enum { MESSAGES = 6, FREE = 4, TRIES = 10 };
    int most = 0;
    for (int i = 0; i < TRIES && most < FREE; i++) {
        int quick = 0;
        for (int j = 0; j < MESSAGES; j++) {
            quick += time_of(server, 1) < 0.19;
        }
        most = quick > most ? quick : most;
    }
    cr_assert_eq(most, FREE,
                 "--block-ms 200 --cost-every 3: %d of six messages cost nothing; two should pay",
                 most);
}
