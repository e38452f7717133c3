/*
 * The client's end of stream: whole lines before it are answered, an unfinished one is dropped,
 * then the server closes.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(half_close, .timeout = 120);

ClientTest(half_close, nothing_sent, "")
{
    client_half_close(client);
    client_expect_end(client);
}

ServerTest(half_close, whole_lines_before_the_end_are_answered, "")
{
    for (int i = 0; i < 20; i++) {
        int client = client_connect_send(server, "first\nsecond\r\nlast\n");
        client_half_close(client);
        client_expect_text(client, "first\nsecond\r\nlast\n");
        client_expect_end(client);
    }
}

ServerTest(half_close, case_06_with_output_pending, "--send-buffer 4096 --output-high-mark 1000000")
{
    int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
    size_t length;
    char *lines = lines_numbered("half a connection", 1600, &length);
    client_send(client, lines, length);
    client_half_close(client);
    client_await_delivered(client);
    server_await_counter(server, "messages", 100); /* it is at it, and most replies have to wait */
    client_expect(client, lines, length);
    client_expect_end(client);
    free(lines);
}

ServerTest(half_close, case_06_beyond_the_high_mark,
           "--send-buffer 4096 --output-high-mark 8192 --output-low-mark 1024")
{
    int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
    size_t length;
    char *lines = lines_numbered("a line to keep", 5000, &length);
    client_send(client, lines, length);
    client_half_close(client);
    client_expect(client, lines, length);
    client_expect_end(client);
    free(lines);
}

/* The drain timeout is for the server's end. A client that has asked for the end of its connection
 * may read as slowly as any other, also where the server's own end waits for nobody. */
static void read_late(const char *drain_timeout)
{
    enum { PAUSE_MS = 500 };
    struct server_process server = server_start(
        "--send-buffer 4096 --output-high-mark 1000000 --drain-timeout %s", drain_timeout);
    int client = client_connect_with(&server, (struct client_buffers){.receive = 4096});
    size_t length;
    char *lines = lines_numbered("half a connection", 5000, &length);
    client_send(client, lines, length);
    client_half_close(client);
    client_await_delivered(client);
    server_await_counter(&server, "messages", 100); /* most replies have to wait */
    test_pause_ms(PAUSE_MS);                        /* what is asked: does the server wait? */
    client_expect(client, lines, length);
    client_expect_end(client);
    free(lines);
    server_close_all(&server);
}

Test(half_close, case_06_outlasts_the_drain_timeout)
{
    read_late("0.1");
}

Test(half_close, case_06_outlasts_a_drain_timeout_of_0)
{
    read_late("0");
}

ServerTest(half_close, case_07_in_the_middle_of_a_line, "--stats")
{
    static const char *const unfinished[] = {"u", "unfinished", "unfinished\r", "\r", "\0"};
    for (size_t i = 0; i < sizeof unfinished / sizeof *unfinished; i++) {
        int client = client_connect_send(server, "whole\n");
        client_send(client, unfinished[i], strlen(unfinished[i]) + (i == 4));
        client_half_close(client);
        client_expect_text(client, "whole\n");
        client_expect_end(client);
    }
}

ServerTest(half_close, unfinished_line_is_not_the_next_clients, "")
{
    for (int i = 0; i < 20; i++) {
        int client = client_connect_echo(server, "mine\n");
        client_send_text(client, "unfinished business");
        client_half_close(client);
        client_expect_end(client);
    }
}

/* The client is gone without a word: a plain close, unread replies on the way. */
ServerTest(half_close, close_without_reading, "")
{
    for (int i = 0; i < 50; i++) {
        int client = client_connect_send(server, "one\ntwo\nthree\nfo");
        client_close(client);
    }
    client_connect_echo(server, "the server lives\n");
}
