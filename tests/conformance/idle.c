/*
 * A server with nothing to do uses no CPU time, whatever its clients are in the middle of.
 */
#include "support/client.h"

#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(idle, .timeout = 120);

/* On a busy machine it may have something to do for a while yet; one that spins has so each time.
 */
static void expect_no_cpu(const struct server_process *server, const char *meanwhile)
{
    enum { WATCHED_MS = 400, LOOKS = 5 };
    double busy = 1;
    for (int i = 0; i < LOOKS && busy >= 0.3; i++)
        busy = probe_busy_during(server->pid, WATCHED_MS);
    cr_assert(busy >= 0 && busy < 0.3, "%s: for %.0f %% of %d ms the server was busy", meanwhile,
              busy * 100, WATCHED_MS);
}

ClientTest(idle, server_uses_no_cpu, "")
{
    client_echo(client, "started and served\n");
    client_half_close(client);
    client_expect_end(client);
    client_close(client);
    expect_no_cpu(server, "no clients");
}

ServerTest(idle, connections_use_no_cpu,
           "--idle-timeout 60 --request-timeout 60 --lifetime 60 --progress-timeout 60")
{
    enum { CLIENTS = 50 };
    int clients[CLIENTS];
    clients_connect(server, clients, CLIENTS, "here I am\n");
    expect_no_cpu(server, "fifty idle clients");
}

ClientTest(idle, unfinished_line_uses_no_cpu, "")
{
    client_echo(client, "a whole line\n");
    size_t length;
    char *line = line_of(5000, "", &length);
    client_send(client, line, length);
    expect_no_cpu(server, "a client that sent 5,000 bytes of a line");
    client_send_text(client, "\n");
    client_expect(client, line, length);
    client_expect_text(client, "\n");
    free(line);
}

/* Input is there and not wanted: a server that still watches for it wakes up all the time. */
ServerTest(idle, case_27_suspended_reading_uses_no_cpu, "--send-buffer 16384")
{
    struct client_buffers small = {.receive = 16384, .send = 65536};
    int client = client_connect_with(server, small);
    size_t length;
    char *lines = lines_numbered("sent and never read", 10000, &length);
    client_push(client, lines, length, 48 << 20, 200);
    expect_no_cpu(server, "a client that sends more than it reads, over --output-high-mark");
    free(lines);
}

/* An end of stream stays readable forever. */
ServerTest(idle, erratum_27_half_closed_client_that_does_not_read_uses_no_cpu,
           "--send-buffer 4096 --output-high-mark 1000000")
{
    int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
    size_t length;
    char *lines = lines_numbered("read later", 2000, &length);
    client_send(client, lines, length);
    client_half_close(client);
    client_await_delivered(client);
    expect_no_cpu(server, "a client that half-closed and does not read its replies");
    client_expect(client, lines, length);
    client_expect_end(client);
    free(lines);
}

/* Input that nobody can handle yet: Lea's slide stays interested in it while a worker has the
 * message before it, so that the selector reports it again and again. */
Test(idle, erratum_22_input_during_a_run_uses_no_cpu)
{
    enum { BLOCKED_MS = 1000, WATCHED_MS = 100 }; /* four looks fit into it */
    struct server_process server = server_start("--block-ms %d", BLOCKED_MS);
    int client = client_connect_send(&server, "a question that takes a second\n");
    server_await_counter(&server, "bytes_in", 31);
    client_send_text(client, "and one more");
    client_half_close(client);
    client_await_delivered(client);
    double busy = probe_busy_during(server.pid, WATCHED_MS);
    cr_assert(busy >= 0 && busy < 0.3, "for %.0f %% of %d ms the server was busy", busy * 100,
              WATCHED_MS);
    client_expect_text(client, "a question that takes a second\n");
    client_expect_end(client);
    server_close_all(&server);
}

ClientTest(idle, client_that_was_told_its_error_uses_no_cpu, "--max-line 10")
{
    client_ask(client, "this line is too long\n", "ERR line too long\n");
    client_expect_end(client);
    expect_no_cpu(server, "a client that got `ERR line too long` and does not close");
}

ServerTest(idle, client_that_waits_for_a_place_uses_no_cpu, "--max-connections 1 --overload wait")
{
    int first = client_connect_echo(server, "I have the place\n");
    int second = client_connect_send(server, "I wait\n");
    expect_no_cpu(server, "a client that waits for a place (--overload wait)");
    client_close(first);
    client_expect_text(second, "I wait\n");
}
