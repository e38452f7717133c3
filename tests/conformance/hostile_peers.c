/*
 * Peers that vanish in bad ways. Each costs the server that connection, and nobody else anything.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(hostile_peers, .timeout = 120);

ServerTest(hostile_peers, case_08_reset_with_output_pending,
           "--send-buffer 4096 --output-high-mark 16384")
{
    enum { CLIENTS = 20 };
    int witness = client_connect(server);
    size_t length;
    char *lines = lines_numbered("never read", 20000, &length);
    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
        if (i % 2) {
            client_push(client, lines, length, length, 5); /* into the high mark */
        } else {
            client_send(client, lines, 20000);
        }
        client_reset(client);
        client_echo(witness, "the others are served\n");
    }
    server_await_counter(server, "closed", CLIENTS);
    long long closed = server_counter(server, "closed");
    cr_assert_eq(closed, CLIENTS, "%d clients were reset; the server counts %lld closed", CLIENTS,
                 closed);
    client_echo(witness, "and still are\n");
    free(lines);
}

ServerTest(hostile_peers, case_09_reset_before_accept, "--max-connections 1 --overload wait")
{
    int first = client_connect_echo(server, "I have the place\n");
    for (int i = 0; i < 20; i++) {
        int client = client_connect(server); /* waits in the backlog, and is gone again */
        client_send_text(client, "too impatient\n");
        client_reset(client);
    }
    int last = client_connect_send(server, "patient\n");
    client_echo(first, "I still have it\n");
    client_close(first);
    client_expect_text(last, "patient\n");
}

/* One way to vanish after another; block-ms lets the reset arrive before the reply is written. */
static void vanish(const struct server_process *server, int way)
{
    int client = client_connect(server);
    switch (way) {
    case 0: /* before anything */ break;
    case 1: /* in the middle of a line */ client_send_text(client, "unfinished"); break;
    case 2: /* with replies on the way */ client_send_text(client, "one\ntwo\nthree\n"); break;
    case 3: /* after the end of stream: a write to it is EPIPE, and a signal to those unprepared */
        client_send_text(client, "one\ntwo\nthree\n");
        client_half_close(client);
        break;
    case 4: /* with a reply unread */
        client_echo(client, "one\n");
        client_send_text(client, "two\n");
        break;
    }
    client_reset(client);
}

ServerTest(hostile_peers, case_10_reset_costs_that_client_only, "--block-ms 2")
{
    int witness = client_connect(server);
    for (int i = 0; i < 50; i++) {
        vanish(server, i % 5);
        client_echo(witness, "the server lives\n");
    }
}

/*
 * Clients come and go at a high rate while others are served, so that descriptors are closed and
 * used again all the time: no event, close or reply of one connection may hit another.
 */
ServerTest(hostile_peers, case_24_descriptors_reused_under_load, "")
{
    enum { CLIENTS = 32, ROUNDS = 60 };
    int clients[CLIENTS];
    char line[64];
    clients_connect(server, clients, CLIENTS, NULL);
    unsigned state = 24;
    for (int round = 0; round < ROUNDS; round++) {
        /* All send; then some vanish, before or after their reply, and new ones take their numbers.
         */
        for (int i = 0; i < CLIENTS; i++) {
            snprintf(line, sizeof line, "client %d in round %d\n", i, round);
            client_send_text(clients[i], line);
        }
        for (int i = 0; i < CLIENTS; i++) {
            state = state * 1103515245u + 12345u;
            unsigned fate = (state >> 16) % 8;
            if (fate == 0) {
                client_reset(clients[i]);
            } else {
                snprintf(line, sizeof line, "client %d in round %d\n", i, round);
                client_expect_text(clients[i], line);
            }
            if (fate == 1) {
                client_close(clients[i]);
            } else if (fate == 2) {
                client_send_text(clients[i], "unfinished");
                client_reset(clients[i]);
            }
            if (fate <= 2) {
                clients[i] = client_connect(server);
            }
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_half_close(clients[i]);
        client_expect_end(clients[i]);
    }
}
