/*
 * How a connection ends, or does not, whatever its handler does: the same in all stages, because it
 * stands in the contract (input_handler.h, channel_facade.h). The handler is that of
 * server/obedient.c.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(contract_ends, .timeout = 120);

#define OBEDIENT "--app obedient "

/* Waits until standard error has a text; asserts that it comes. */
static void await_said(const struct server_process *server, const char *text)
{
    char errors[8192];
    double end = test_deadline();
    do {
        server_errors(server, errors, sizeof errors);
        if (strstr(errors, text) != NULL) {
            return;
        }
        test_pause_ms(5);
    } while (test_left_ms(end) > 0);
    cr_assert_fail("expected the server to say '%s', got: %s", text, errors);
}

/* Waits until the log has told which client was closed, its connection's number, and why. */
static void await_named(const struct server_process *server, int client, const char *why)
{
    static char errors[1 << 16];
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    char told[64], reason[100];
    int fd = -1, used = 0;
    getsockname(client, (struct sockaddr *)&own, &length);
    snprintf(told, sizeof told, "event=closed peer=127.0.0.1:%u ", (unsigned)ntohs(own.sin_port));
    await_said(server, told);
    server_errors(server, errors, sizeof errors);
    const char *rest = strstr(errors, told) + strlen(told);
    snprintf(reason, sizeof reason, "reason=\"%s\"\n", why);
    cr_assert(sscanf(rest, "fd=%d %n", &fd, &used) == 1 && fd > 2, "%s", rest);
    cr_assert_eq(strncmp(rest + used, reason, strlen(reason)), 0, "expected %s, got %s", reason,
                 rest);
}

static void expect_bytes(int client, size_t length)
{
    char *bytes = malloc(length);
    cr_assert_not_null(bytes);
    memset(bytes, 'x', length);
    client_expect(client, bytes, length);
    free(bytes);
}

/* ---- false of handle_input, and channel_close() ---- */

/*
 * Most of the answer has to wait for the client, which is in no hurry. What the client has sent
 * behind the message is dropped.
 */
ServerTest(contract_ends, false_of_a_handler_delivers_what_was_enqueued,
           OBEDIENT "--send-buffer 8192 --idle-timeout 0")
{
    enum { BYTES = 900000 };
    int client = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_send_text(client, "fail 900000\nnot handled\n");
    client_await_reply(client);
    test_pause_ms(100);
    expect_bytes(client, BYTES);
    client_expect_end(client);
    client_close(client);
    await_said(server, "ended: closed by the application\n");
}

/*
 * A client that sends all it has before it reads anything. If the server left that unread, each
 * would wait for the other, until the progress timeout cuts the client off without its answer.
 */
ServerTest(contract_ends, who_sends_on_after_a_close_gets_all_that_was_queued,
           OBEDIENT "--send-buffer 8192 --idle-timeout 0")
{
    enum { BYTES = 900000, PIECES = 256 };
    static char piece[65536];
    int client = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_send_text(client, "fail 900000\n");
    client_await_reply(client);
    memset(piece, 'y', sizeof piece);
    for (int i = 0; i < PIECES; i++) {
        double end = test_deadline();
        cr_assert_eq(client_try_send(client, piece, sizeof piece, end), sizeof piece,
                     "the server stopped reading after %d pieces", i);
    }
    expect_bytes(client, BYTES);
    client_expect_end(client);
    client_close(client);
    await_said(server, "ended: closed by the application\n");
}

/* ---- suspended input ---- */

static void a_reset_ends_at_once(const char *selector)
{
    struct server_process server =
        server_start(OBEDIENT "--idle-timeout 0 --request-timeout 0 %s", selector);
    int client = client_connect_send(&server, "suspend\n");
    client_expect_text(client, "suspended\n");
    client_send_text(client, "not read any more\n");
    client_await_delivered(client);
    client_reset(client);
    await_said(&server, "ended: the connection was lost\n");
    server_await_counter(&server, "closed", 1);
    server_stop(&server);
}

Test(contract_ends, a_reset_while_input_is_suspended)
{
    a_reset_ends_at_once("");
}

Test(contract_ends, a_reset_while_input_is_suspended_with_poll)
{
    if (!server_has_option("--selector")) {
        cr_skip_test("there is no selector");
    }
    a_reset_ends_at_once("--selector poll");
}

static void an_end_of_stream_is_no_loss(const char *selector)
{
    struct server_process server = server_start(OBEDIENT "%s", selector);
    int client = client_connect_send(&server, "later 200\ntwo\n");
    client_half_close(client);
    client_expect_text(client, "later\ntwo\n");
    client_expect_end(client);
    client_close(client);
    await_said(&server, "ended: the client has closed\n");
    server_stop(&server);
}

Test(contract_ends, an_end_of_stream_while_input_is_suspended)
{
    an_end_of_stream_is_no_loss("");
}

Test(contract_ends, an_end_of_stream_while_input_is_suspended_with_poll)
{
    if (!server_has_option("--selector")) {
        cr_skip_test("there is no selector");
    }
    an_end_of_stream_is_no_loss("--selector poll");
}

/* It may not send, so it cannot be blamed for sending nothing. */
ClientTest(contract_ends, suspended_input_is_not_idle, OBEDIENT "--idle-timeout 0.6")
{
    client_ask(client, "later 1500\n", "later\n");
    client_echo(client, "still there\n");
}

/* Nor for the half of a line that it has sent. */
ClientTest(contract_ends, a_message_has_its_time_when_input_is_not_suspended,
           OBEDIENT "--request-timeout 1")
{
    client_ask(client, "later 2500\nhalf a ", "later\n");
    client_ask(client, "line\n", "half a line\n");
}

/* ---- output after the end ---- */

/* Whoever has a facade may send until `stopped`; its handler tries to at that moment. */
static void expect_none_was_taken(const struct server_process *server, const char *why)
{
    char errors[8192];
    await_said(server, why);
    server_errors(server, errors, sizeof errors);
    cr_assert_null(strstr(errors, "taken after the end"), "%s", errors);
}

ClientTest(contract_ends, after_the_end_no_output_is_taken, OBEDIENT "--lifetime 0.3")
{
    client_echo(client, "hello\n");
    client_expect_end(client);
    expect_none_was_taken(server, "ended: lifetime\n");
}

/* The drain timeout ends one that does not read its answer. */
ServerTest(contract_ends, after_a_cut_no_output_is_taken,
           OBEDIENT "--send-buffer 8192 --drain-timeout 0.3 --idle-timeout 0")
{
    int client = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_send_text(client, "big 900000\n");
    client_await_reply(client);
    server_signal(server, SIGTERM);
    expect_none_was_taken(server, "ended: ");
    client_close(client);
    server_expect_exit(server);
}

/* ---- a message that is too long for the input queue ---- */

ClientTest(contract_ends, a_message_that_does_not_fit_is_too_long,
           OBEDIENT "--max-line 1000 --log info")
{
    enum { BYTES = 100000 };
    char *bytes = malloc(BYTES);
    cr_assert_not_null(bytes);
    memset(bytes, 'x', BYTES);
    memcpy(bytes, "# ", 2);
    client_send(client, bytes, BYTES);
    client_expect_end(client);
    await_said(server, "ended: a message was too long\n");
    await_named(server, client, "a message was too long");
    client_close(client);
    cr_assert_eq(server_counter(server, "too_long"), 1);
    free(bytes);
}

/* ---- the log ---- */

static void check_log(const char *options, const char *sent, const char *why)
{
    struct server_process server = server_start(OBEDIENT "--log info %s", options);
    int client = client_connect_send(&server, sent);
    client_expect_end(client);
    await_named(&server, client, why);
    server_close_all(&server);
}

Test(contract_ends, the_log_names_a_client_that_took_too_long)
{
    check_log("--idle-timeout 0.2", "", "idle timeout");
    check_log("--request-timeout 0.2", "half a line", "request timeout");
    check_log("--lifetime 0.2", "", "lifetime");
}
