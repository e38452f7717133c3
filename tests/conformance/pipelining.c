/*
 * Pipelining: many requests before the first reply is read. All are answered, in order.
 */
#include "support/client.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(pipelining, .timeout = 120);

ClientTest(pipelining, case_02_hundred_requests_in_one_segment, "")
{
    size_t length;
    char *lines = lines_numbered("request", 100, &length);
    client_send(client, lines, length);
    client_expect(client, lines, length);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}

ClientTest(pipelining, case_02_ten_thousand_requests_in_one_write, "")
{
    size_t length;
    char *lines = lines_numbered("request", 10000, &length);
    client_exchange(client, lines, length, lines, length);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}

/* The slides' handler read once, answered once and was done: what else had come with that read was
 * lost. */
ClientTest(pipelining, erratum_14_every_request_of_one_read_is_answered, "")
{
    client_ask(client, "first\nsecond\nthird\nhalf of", "first\nsecond\nthird\n");
    client_ask(client, " the fourth\nfifth\n", "half of the fourth\nfifth\n");
    client_echo(client, "and the connection still serves\n");
}

/* A run that asks for one message leaves the second line of a read where no event leads to it. */
ClientTest(pipelining, erratum_25_the_second_line_of_a_read_waits_for_no_further_byte, "")
{
    client_ask(client, "one\ntwo\n", "one\ntwo\n");
}

/* All replies come without another byte being sent: nothing waits for a next event that does not
 * come. */
ServerTest(pipelining, nothing_is_left_behind, "")
{
    for (int count = 1; count <= 4096; count *= 2) {
        int client = client_connect(server);
        size_t length;
        char *lines = lines_numbered("x", count, &length);
        client_exchange(client, lines, length, lines, length);
        client_close(client);
        free(lines);
    }
}

ServerTest(pipelining, ten_clients_at_a_time, "")
{
    enum { CLIENTS = 10 };
    int clients[CLIENTS];
    char *lines[CLIENTS];
    size_t length;
    for (int i = 0; i < CLIENTS; i++) {
        char prefix[] = "client 0";
        prefix[7] = (char)('0' + i);
        clients[i] = client_connect(server);
        lines[i] = lines_numbered(prefix, 2000, &length);
        client_send(clients[i], lines[i], length);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect(clients[i], lines[i], length);
        client_close(clients[i]);
        free(lines[i]);
    }
}

ClientTest(pipelining, empty_lines_by_the_thousand, "")
{
    static char lines[40000];
    memset(lines, '\n', sizeof lines);
    client_exchange(client, lines, sizeof lines, lines, sizeof lines);
    client_half_close(client);
    client_expect_end(client);
}
