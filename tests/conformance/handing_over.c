/*
 * What must not be seen of a connection being handed from thread to thread, or put aside: its
 * messages are dealt with one after the other, and never stand still. Servers with one thread for
 * it all have to keep the same promises.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(handing_over, .timeout = 120);

/*
 * Waiting output rises over the high mark and falls under the low one all the time, so reading is
 * suspended and resumed some hundreds of times for each client.
 */
ServerTest(handing_over, case_28_suspended_and_resumed_without_a_stall,
           "--output-high-mark 2000 --output-low-mark 500 --send-buffer 16384")
{
    enum { CLIENTS = 4, LINES = 10000 };
    int clients[CLIENTS];
    size_t length;
    char *lines = lines_numbered("over the mark and under it", LINES, &length);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_with(
            server, (struct client_buffers){.receive = 16384, .segment = CLIENT_ETHERNET_SEGMENT});
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_exchange(clients[i], lines, length, lines, length);
        client_half_close(clients[i]);
        client_expect_end(clients[i]);
    }
    free(lines);
}

/* Some are gone when their message is done, some have sent the next one already. */
ServerTest(handing_over, case_34_client_is_gone_before_its_message_is_done, "--block-ms 3")
{
    enum { CLIENTS = 40 };
    int witness = client_connect_echo(server, "here\n");
    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect_send(server, i % 2 ? "one\n" : "one\ntwo\nthree\n");
        client_await_delivered(client);
        if (i % 4 < 2) {
            client_reset(client);
        } else {
            client_close(client);
        }
    }
    server_await_counter(server, "closed", CLIENTS);
    client_echo(witness, "nobody else's end is mine\n");
    client_close(witness);
    long long closed = server_counter(server, "closed");
    cr_assert(closed == CLIENTS || closed == CLIENTS + 1, "%lld connections are closed", closed);
}

/* A message that takes long is not overtaken by those behind it, which take no time at all. */
ServerTest(handing_over, case_36_messages_of_one_client_stay_in_order,
           "--block-ms 3 --cost-every 17")
{
    enum { CLIENTS = 4, LINES = 200 };
    int clients[CLIENTS];
    size_t length;
    char *lines = lines_numbered("in order", LINES, &length);
    clients_connect(server, clients, CLIENTS, NULL);
    for (size_t sent = 0, piece; sent < length; sent += piece) {
        piece = length - sent < 100 ? length - sent : 100;
        for (int i = 0; i < CLIENTS; i++) {
            client_send(clients[i], lines + sent, piece);
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect(clients[i], lines, length);
    }
    free(lines);
}
