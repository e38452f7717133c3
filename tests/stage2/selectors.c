/*
 * Stage 2 with poll and with epoll: what the server does must not depend on it. A provider that is
 * new has to be named here, in `selectors` and in each_selector().
 * (SERVER_OPTIONS="--selector poll" runs the whole conformance suite with one; here is the core of
 * it.)
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage2_selectors, .timeout = 120);

static const char *const selectors[] = {"poll", "epoll"};

/** Parameters are indices, because pointers do not survive the way into the test's process. */
static struct criterion_test_params each_selector(void)
{
    static int indices[] = {0, 1};
    return cr_make_param_array(int, indices, sizeof indices / sizeof *indices);
}

static struct server_process start_with(int index, const char *options)
{
#if !defined(__linux__)
    if (strcmp(selectors[index], "epoll") == 0) {
        cr_skip_test("no epoll here");
    }
#endif
    return server_start("--selector %s %s", selectors[index], options);
}

ParameterizedTestParameters(stage2_selectors, lines)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage2_selectors, lines)
{
    struct server_process server = start_with(*selector, "");
    int client = client_connect(&server);
    size_t length;
    char *lines = lines_numbered(selectors[*selector], 10000, &length);
    client_echo(client, "one line\r\n");
    client_exchange(client, lines, length, lines, length);
    client_send_text(client, "last\nunfinished");
    client_half_close(client);
    client_expect_text(client, "last\n");
    client_expect_end(client);
    free(lines);
    server_close_all(&server);
}

ParameterizedTestParameters(stage2_selectors, many_clients_that_come_and_go)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage2_selectors, many_clients_that_come_and_go)
{
    enum { CLIENTS = 100, ROUNDS = 10 };
    struct server_process server = start_with(*selector, "");
    int clients[CLIENTS];
    clients_connect(&server, clients, CLIENTS, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        clients_echo(clients, CLIENTS, "still here\n");
        for (int i = round % 3; i < CLIENTS; i += 3) {
            if (i % 2) {
                client_reset(clients[i]);
            } else {
                client_close(clients[i]);
            }
            clients[i] = client_connect(&server);
        }
    }
    server_close_all(&server);
}

ParameterizedTestParameters(stage2_selectors, burst_and_refusal)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage2_selectors, burst_and_refusal)
{
    enum { CLIENTS = 50 };
    struct server_process server = start_with(*selector, "--max-connections 50");
    int clients[CLIENTS];
    clients_connect(&server, clients, CLIENTS, NULL);
    int refused = client_connect(&server);
    client_expect_text(refused, "ERR server busy\n");
    client_expect_end(refused);
    client_close(refused);
    for (int i = 0; i < CLIENTS; i++) {
        client_echo(clients[i], "one of a burst\n");
        client_close(clients[i]);
    }
    server_stop(&server);
}

ParameterizedTestParameters(stage2_selectors, idle_timeout)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage2_selectors, idle_timeout)
{
    struct server_process server = start_with(*selector, "--idle-timeout 0.3");
    int client = client_connect_echo(&server, "and now I say nothing\n");
    client_expect_end(client);
    server_close_all(&server);
}

/* Interest in writing only while output waits: a writable socket that is watched wakes the loop
 * forever.
 */
ParameterizedTestParameters(stage2_selectors, no_interest_in_what_is_not_wanted)
{
    return each_selector();
}

static void expect_no_cpu(const struct server_process *server, int selector, const char *meanwhile)
{
    double busy = probe_busy_during(server->pid, 200);
    cr_assert_lt(busy, 0.3, "--selector %s, %s: busy for %.0f %% of 200 ms", selectors[selector],
                 meanwhile, busy * 100);
}

ParameterizedTest(int *selector, stage2_selectors, no_interest_in_what_is_not_wanted)
{
    struct server_process server = start_with(*selector, "--send-buffer 8192");
    struct client_buffers small = {.receive = 8192, .send = 65536};
    int client = client_connect_with(&server, small);
    size_t length;
    char *lines = lines_numbered("waits and is read", 100000, &length);
    client_echo(client, "hello\n");
    expect_no_cpu(&server, *selector, "a client with nothing to write to");

    size_t taken = client_push(client, lines, length, length, 100);
    cr_assert_lt(taken, length);
    expect_no_cpu(&server, *selector, "a client that sends more than it reads");

    client_exchange(client, lines + taken, length - taken, lines, length);
    client_echo(client, "all has been read\n");
    expect_no_cpu(&server, *selector, "a client whose output has all gone");
    free(lines);
    server_close_all(&server);
}

Test(stage2_selectors, unknown_selector_is_bad_usage)
{
    char start[256];
    struct program_result result = program_run("--selector nonsense");
    snprintf(start, sizeof start, "%s: --selector: expected ", server_name());
    cr_assert(result.exit_status == 2 && strncmp(result.err, start, strlen(start)) == 0 &&
                  strstr(result.err, "poll") && strstr(result.err, ", got 'nonsense'\n"),
              "`--selector nonsense`: expected exit status 2 and `%s... poll ..., got 'nonsense'`, "
              "got %d "
              "and `%s`",
              start, result.exit_status, result.err);
}
