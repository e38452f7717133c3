/*
 * The longest line: --max-line counts a line without its LF or CR LF. One that is longer gets an
 * error line after the replies to the lines before it, then the end of stream; and the server keeps
 * taking what the client still sends for a while, so that the client can read the error instead of
 * being reset.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(line_limit, .timeout = 120);

#define ERROR_LINE "ERR line too long\n"

ClientTest(line_limit, longest_line, "--max-line 10")
{
    client_echo(client, "0123456789\n");
    client_echo(client, "123456789\n");
    client_echo(client, "\n0123456789\n0123456789\n");
}

ClientTest(line_limit, longest_line_with_cr_lf, "--max-line=10")
{
    client_echo(client, "0123456789\r\n");
    client_echo(client, "123456789\r\r\n"); /* the first CR belongs to the line */
    for (const char *byte = "0123456789\r\n"; *byte; byte++) {
        client_send(client, byte, 1);
    }
    client_expect_text(client, "0123456789\r\n");
}

ServerTest(line_limit, one_byte_too_long, "--max-line 10")
{
    static const char *const bad[] = {"0123456789a\n", "0123456789a\r\n", "0123456789\r\r\n",
                                      "0123456789\rx\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int client = client_connect_send(server, bad[i]);
        client_expect_text(client, ERROR_LINE);
        client_expect_end(client);
        client_close(client);
    }
    client_connect_echo(server, "go on\n");
}

ClientTest(line_limit, shortest_limit, "--max-line 1")
{
    client_echo(client, "a\n\nb\r\n\r\n\r\r\n");
    client_send_text(client, "ab");
    client_ask(client, "\n", ERROR_LINE);
    client_expect_end(client);
}

ClientTest(line_limit, default_is_65536, "")
{
    size_t length;
    char *line = line_of(65536, "\r\n", &length);
    client_exchange(client, line, length, line, length);
    free(line);
    line = line_of(65537, "\n", &length);
    client_exchange(client, line, length, ERROR_LINE, strlen(ERROR_LINE));
    client_expect_end(client);
    free(line);
}

ClientTest(line_limit, lines_before_are_answered_first, "--max-line 10")
{
    client_send_text(client, "one\ntwo\r\nthree\nthis one is too long\nnever answered\n");
    client_expect_text(client, "one\ntwo\r\nthree\n" ERROR_LINE);
    client_expect_end(client);
}

/* Bounded memory: the error comes while the line goes on, long before it could all be kept. */
ClientTest(line_limit, case_17_endless_line, "--max-line 1000")
{
    enum { ENDLESS = 8 << 20 };
    char *line = malloc(ENDLESS);
    cr_assert_not_null(line);
    memset(line, 'x', ENDLESS);
    client_send(client, line, 1002);
    client_expect_text(client, ERROR_LINE);
    /* The rest is taken and thrown away; the stream still ends in good order. */
    client_try_send(client, line, ENDLESS - 1002, test_now() + 0.5);
    client_expect_end(client);
    free(line);
}

/*
 * The end of stream comes with the error and not with the close, so the client need not wait out
 * the time for which the server lingers, and what it sends meanwhile is not answered by a reset. A
 * slow machine may take longer than that time, so it is enough if one of several clients sees it.
 */
ServerTest(line_limit, the_end_comes_before_the_server_stops_taking, "--max-line 10")
{
    enum { CLIENTS = 5 };
    int error = ECONNRESET;
    for (int i = 0; i < CLIENTS && error != 0; i++) {
        int client = client_connect(server);
        socklen_t length = sizeof error;
        client_ask(client, "this one is too long\n", ERROR_LINE);
        client_expect_end(client);
        client_send_text(client, "and there is more of it\n");
        client_await_delivered(client);
        cr_assert_eq(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length), 0);
        client_close(client);
    }
    cr_assert_eq(error, 0, "the server sent its end when it had closed already: %s",
                 strerror(error));
}

/* The client sends all before it reads: closing at once would reset it and the error could be lost.
 */
ServerTest(line_limit, lingers_while_the_client_sends, "--max-line 1000")
{
    enum { SENT = 256 << 10 };
    for (int i = 0; i < 5; i++) {
        int client = client_connect(server);
        char *line = malloc(SENT);
        cr_assert_not_null(line);
        memset(line, 'x', SENT);
        client_send(client, line, SENT);
        client_expect_text(client, ERROR_LINE);
        client_expect_end(client);
        client_close(client);
        free(line);
    }
}

/* The server wants to close in its read step while it also has output to write. */
ServerTest(line_limit, case_25_error_line_while_output_waits,
           "--max-line 1000 --send-buffer 4096 --output-high-mark 1000000")
{
    int client = client_connect_with(server, (struct client_buffers){.receive = 4096});
    size_t length;
    char *lines = lines_numbered("a reply that has to wait for its reader", 700, &length);
    size_t too_long_length;
    char *too_long = line_of(1001, "\nnever answered\n", &too_long_length);
    client_send(client, lines, length);
    client_send(client, too_long, too_long_length);
    client_await_delivered(client);
    client_expect(client, lines, length);
    client_expect_text(client, ERROR_LINE);
    client_expect_end(client);
    free(lines);
    free(too_long);
}
