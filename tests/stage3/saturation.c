/*
 * The saturation policies from outside, with a server program (case 35). One message blocks the
 * only worker for a second; what happens in that second is what the policy promises.
 *
 * tests/stage3/policies.c looks closer, without a clock.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(stage3_saturation, .timeout = 120);

/** How long the message blocks the worker: longer than a test takes to look, however slow. */
static int block_ms(void)
{
    return probe_sanitized() ? 2500 : 1000;
}

/** The worker is blocked, one message waits, and a client has not said anything yet. */
struct saturated {
    struct server_process server;
    int busy;
    int waiting;
    int client;
    double since;
};

static struct saturated saturate(const char *policy)
{
    struct saturated all = {.server = server_start("--workers 1 --queue bounded:1 --saturation %s "
                                                   "--block-ms %d --cost-every 1000 --stats",
                                                   policy, block_ms())};
    all.client = client_connect(&all.server);
    all.busy = client_connect(&all.server);
    all.waiting = client_connect(&all.server);
    all.since = test_now();
    client_send_text(all.busy, "busy\n");
    server_await_counter(&all.server, "messages", 1);
    client_send_text(all.waiting, "waiting\n");
    server_await_counter(&all.server, "bytes_in", 13);
    return all;
}

/** Whether the worker is still blocked for certain; else the machine is too slow for this test. */
static void expect_still_saturated(const struct saturated *all)
{
    cr_assert_lt(test_now() - all->since, block_ms() / 1000.0,
                 "the test itself took longer than the message blocks");
}

static void finish(struct saturated *all, const char *counter, long long value)
{
    client_echo(all->busy, "and on\n");
    client_echo(all->waiting, "and on\n");
    client_echo(all->client, "and on\n");
    cr_assert_eq(server_counter(&all->server, counter), value, "%s should be %lld, and is %lld",
                 counter, value, server_counter(&all->server, counter));
    client_close(all->busy);
    client_close(all->waiting);
    client_close(all->client);
    server_stop(&all->server);
}

Test(stage3_saturation, case_35_abort)
{
    struct saturated all = saturate("abort");
    client_ask(all.client, "one too many\n", "ERR server busy\n");
    expect_still_saturated(&all);
    client_expect_text(all.busy, "busy\n");
    client_expect_text(all.waiting, "waiting\n");
    finish(&all, "tasks_aborted", 1);
}

Test(stage3_saturation, case_35_discard)
{
    struct saturated all = saturate("discard");
    client_send_text(all.client, "one too many\n");
    server_await_counter(&all.server, "tasks_discarded", 1);
    expect_still_saturated(&all);
    client_expect_text(all.busy, "busy\n");
    client_expect_text(all.waiting, "waiting\n");
    finish(&all, "tasks_discarded", 1);
}

Test(stage3_saturation, case_35_discard_oldest)
{
    struct saturated all = saturate("discard-oldest");
    client_send_text(all.client, "one more\n");
    server_await_counter(&all.server, "tasks_discarded", 1);
    expect_still_saturated(&all);
    client_expect_text(all.busy, "busy\n");
    client_expect_text(all.client, "one more\n");
    finish(&all, "tasks_discarded", 1);
}

Test(stage3_saturation, case_35_caller_runs)
{
    struct saturated all = saturate("caller-runs");
    client_echo(all.client, "one more\n");
    expect_still_saturated(&all);
    client_expect_text(all.busy, "busy\n");
    client_expect_text(all.waiting, "waiting\n");
    finish(&all, "tasks_by_caller", 1);
}

/* While the reactor waits for room it looks after nobody. */
Test(stage3_saturation, case_35_block)
{
    struct saturated all = saturate("block");
    client_send_text(all.client, "one more\n");
    client_await_delivered(all.client);
    int bystander = client_connect_echo(&all.server, "what about me?\n");
    double took = test_now() - all.since;
    cr_assert(took >= block_ms() / 1000.0 - 0.01,
              "somebody else was answered after %.2f s, while the reactor should have been blocked",
              took);
    client_expect_text(all.busy, "busy\n");
    client_expect_text(all.waiting, "waiting\n");
    client_expect_text(all.client, "one more\n");
    client_close(bystander);
    long long blocked = server_counter(&all.server, "tasks_blocked");
    cr_assert(blocked == 1 || blocked == 2, "tasks_blocked is %lld",
              blocked); /* or the bystander's */
    finish(&all, "tasks_blocked", blocked);
}
