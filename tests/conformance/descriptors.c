/*
 * Descriptors: running out of them, giving them back, and accepting many connections at once.
 */
#include "support/client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(descriptors, .timeout = 120);

enum { LIMIT = 32, TRIED = 60 };

/**
 * Connects TRIED clients to a server with LIMIT descriptors, and sees that each is either served or
 * told and closed. @return how many are served; their descriptors are in @p served
 */
static int fill(const struct server_process *server, int served[TRIED])
{
    static const char busy[] = "ERR server busy\n";
    int count = 0;
    for (int i = 0; i < TRIED; i++) {
        char reply[64];
        size_t got;
        int client = client_connect(server);
        client_try_send(client, "x\n", 2, test_deadline());
        enum client_outcome outcome = client_try_receive(client, reply, 2, test_deadline(), &got);
        if (outcome == CLIENT_GOT && memcmp(reply, "x\n", 2) == 0) {
            served[count++] = client;
            continue;
        }
        size_t more = 0;
        if (outcome == CLIENT_GOT) {
            outcome =
                client_try_receive(client, reply + 2, sizeof reply - 2, test_deadline(), &more);
        }
        got += more;
        cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET,
                  "client %d of a server with %d descriptors: expected service or a close, got %s",
                  i + 1, LIMIT, client_outcome_text(outcome));
        cr_assert(
            got == 0 || (got == strlen(busy) && memcmp(reply, busy, got) == 0),
            "client %d of a server with %d descriptors: expected `ERR server busy`, got `%.*s`",
            i + 1, LIMIT, (int)got, reply);
        client_close(client);
    }
    return count;
}

static void expect_service_again(const struct server_process *server)
{
    double end = test_deadline();
    bool answered = false;
    while (!answered && test_left_ms(end) > 0) {
        int client = client_connect(server);
        answered = client_try_echo(client, "there are descriptors again\n", end);
        client_close(client);
    }
    cr_assert(answered, "all clients have left; %d ms later a new one still gets no answer",
              test_deadline_ms());
}

static void check_limit(const char *options)
{
    struct server_process server =
        server_start_limited((struct server_limits){.descriptors = LIMIT}, "%s", options);
    int served[TRIED];
    for (int round = 0; round < 3; round++) {
        int count = fill(&server, served);
        cr_assert(count >= 4 && count < LIMIT,
                  "a server with %d descriptors served %d of %d clients; expected 4 to %d", LIMIT,
                  count, TRIED, LIMIT - 1);
        clients_echo(served, count, "those connected are served on\n");
        for (int i = 0; i < count; i++) {
            client_half_close(served[i]);
            client_expect_end(served[i]);
            client_close(served[i]);
        }
        expect_service_again(&server);
    }
    server_stop(&server);
}

/* More places than descriptors: accept itself fails with EMFILE. */
Test(descriptors, case_19_out_of_descriptors)
{
    check_limit("--max-connections 1000");
}

/* The standard --max-connections is what the descriptor limit allows. */
Test(descriptors, case_19_limit_follows_the_descriptor_limit)
{
    check_limit("");
}

Test(descriptors, case_19_does_not_spin)
{
    enum { WAITING = 5 };
    struct server_process server = server_start_limited(
        (struct server_limits){.descriptors = LIMIT}, "--max-connections 1000");
    int clients[TRIED];
    clients[0] = client_connect(&server);
    client_echo(clients[0], "served\n"); /* so it is the first behind a relay, too */
    for (int i = 1; i < TRIED; i++) {
        clients[i] = client_connect(&server);
    }
    client_echo(clients[0], "served on\n");
    double busy = probe_busy_during(server.pid, 400);
    cr_assert_lt(busy, 0.3,
                 "out of descriptors, with clients at the door, the server was busy for %.0f %% of "
                 "400 ms",
                 busy * 100);
    static char errors[1 << 20];
    server_errors(&server, errors, sizeof errors);
    cr_assert_lt(strlen(errors), 65536, "it wrote more than 64 KiB to standard error");
    clients_close(clients, TRIED);
    expect_service_again(&server);
    server_stop(&server);
}

Test(descriptors, case_23_two_thousand_clients_one_after_another)
{
    struct server_process server =
        server_start_limited((struct server_limits){.descriptors = 20}, "");
    for (int i = 0; i < 2000; i++) {
        int client = client_connect(&server);
        cr_assert(client_try_echo(client, "one after another\n", test_deadline()),
                  "client %d, one at a time, to a server with 20 descriptors gets no right answer",
                  i + 1);
        client_half_close(client);
        client_expect_end(client);
        client_close(client);
    }
    server_stop(&server);
}

/* The slides' acceptor took one connection for each event. */
ServerTest(descriptors, erratum_15_burst_of_connections, "")
{
    enum { CLIENTS = 100 };
    int clients[CLIENTS];
    clients_connect(server, clients, CLIENTS, NULL);
    for (int i = CLIENTS - 1; i >= 0; i--) {
        client_echo(clients[i], "one of a burst\n");
    }
}

/* A handler that could not be made left its socket open; any way to leave has to give it back. */
ServerTest(descriptors, erratum_15_every_descriptor_comes_back, "--max-line 100")
{
    enum { CLIENTS = 60 };
    int clients[CLIENTS];
    clients[0] = client_connect_echo(server, "whatever it opens once is open now\n");
    long before = probe_descriptors(server->pid) - 1;
    client_close(clients[0]);
    size_t length;
    char *too_long = line_of(200, "\n", &length);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(server);
        if (i % 5 == 1) {
            client_send_text(clients[i], "unfinished");
        } else if (i % 5 == 2) {
            client_echo(clients[i], "answered\n");
        } else if (i % 5 == 3) {
            client_send(clients[i], too_long, length);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (i % 2) {
            client_close(clients[i]);
        } else {
            client_reset(clients[i]);
        }
    }
    cr_assert(probe_await_descriptors(server->pid, before),
              "%d clients came and left; the server had %ld descriptors before and has %ld now",
              CLIENTS, before, probe_descriptors(server->pid));
    free(too_long);
}
