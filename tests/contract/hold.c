/*
 * A handler that holds messages until it is told to go on (channel_hold() in channel_calls.h): the
 * same in all stages. The handler is that of server/obedient.c.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(contract_hold, .timeout = 120);

#define OBEDIENT "--app obedient "

/* Without a limit to what a client may do: what ends then is ended by something else. */
#define PATIENT OBEDIENT "--idle-timeout 0 --request-timeout 0 "

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

/* A client whose handler holds messages, as `line` asks for. */
static int client_that_waits(const struct server_process *server, const char *line)
{
    int client = client_connect_send(server, line);
    client_expect_text(client, "holding\n");
    return client;
}

/* Another client has all go on. */
static void tell(const struct server_process *server, const char *line)
{
    int other = client_connect_send(server, line);
    client_expect_text(other, "told\n");
    client_close(other);
}

static void skip_without_selector(void)
{
    if (!server_has_option("--selector")) {
        cr_skip_test("there is no selector");
    }
}

/* ---- going on ---- */

ServerTest(contract_hold, what_comes_behind_it_waits, PATIENT)
{
    int client = client_that_waits(server, "hold\ntwo\n");
    client_send_text(client, "three\n");
    client_expect_silence(client, 100);
    tell(server, "tell\n");
    client_expect_text(client, "went on\ntwo\nthree\n");
    client_echo(client, "four\n");
}

ServerTest(contract_hold, its_own_timer_ends_it, PATIENT)
{
    int client = client_that_waits(server, "hold 50\ntwo\nhold 50\nthree\n");
    client_expect_text(client, "went on\ntwo\nholding\nwent on\nthree\n");
}

ServerTest(contract_hold, a_thread_that_is_nobodys_ends_it, PATIENT)
{
    int client = client_that_waits(server, "hold\ntwo\n");
    tell(server, "tell thread\n");
    client_expect_text(client, "went on\ntwo\n");
}

ServerTest(contract_hold, it_may_be_ended_before_it_begins, PATIENT)
{
    int client = client_that_waits(server, "early\ntwo\nearly\n");
    client_expect_text(client, "went on\ntwo\nholding\nwent on\n");
}

/* It hears that it is told, and only then holds: for once, and not again. */
ServerTest(contract_hold, it_may_be_ended_long_before_it_begins, PATIENT)
{
    int client = client_connect_send(server, "join\n");
    client_expect_text(client, "joined\n");
    tell(server, "tell thread\n");
    client_echo(client, "meanwhile\n");
    client_ask(client, "hold\ntwo\n", "holding\nwent on\ntwo\n");
    client_ask(client, "hold\nthree\n", "holding\n");
    client_expect_silence(client, 100);
    tell(server, "tell\n");
    client_expect_text(client, "went on\nthree\n");
}

/* Each round is told by a thread of its own, at any moment of the others' runs. */
ServerTest(contract_hold, none_of_many_is_forgotten, PATIENT)
{
    enum { CLIENTS = 50, ROUNDS = 20 };
    int clients[CLIENTS];
    clients_connect(server, clients, CLIENTS, "hello\n");
    for (int round = 0; round < ROUNDS; round++) {
        clients_send_text(clients, CLIENTS, round % 2 == 0 ? "early\n" : "hold\n");
        clients_expect_text(clients, CLIENTS, "holding\n");
        tell(server, round % 4 == 1 ? "tell\n" : "tell thread\n");
        clients_expect_text(clients, CLIENTS, "went on\n");
    }
}

/* More than the input queue holds: the rest waits in the sockets, and nothing is lost. */
ServerTest(contract_hold, what_does_not_fit_is_read_later, PATIENT "--max-line 1000")
{
    size_t length;
    char *lines = lines_numbered("line ", 8000, &length);
    cr_assert_gt(length, 80000);
    int client = client_that_waits(server, "hold\n");
    client_send(client, lines, length);
    client_await_delivered(client);
    tell(server, "tell\n");
    client_expect_text(client, "went on\n");
    client_expect(client, lines, length);
    client_echo(client, "and on\n");
    free(lines);
}

/* ---- clocks ---- */

/* Neither one that has sent nothing nor one that has sent half a line is to blame. */
ServerTest(contract_hold, no_clock_runs_meanwhile,
           OBEDIENT "--idle-timeout 0.5 --request-timeout 0.5")
{
    int quiet = client_that_waits(server, "hold 1500\n");
    int busy = client_that_waits(server, "hold 1500\nhalf a ");
    int idle = client_connect(server);
    client_expect_end(idle);
    client_expect_text(quiet, "went on\n");
    client_echo(quiet, "still there\n");
    client_expect_text(busy, "went on\n");
    client_ask(busy, "line\n", "half a line\n");
}

/* ---- a client that goes ---- */

static void a_reset_ends_it(const char *selector, size_t behind)
{
    struct server_process server = server_start(PATIENT "--max-line 1000 %s", selector);
    char *bytes = calloc(1, behind + 1);
    int client = client_that_waits(&server, "hold\n");
    memset(bytes, '\n', behind);
    client_send(client, bytes, behind);
    client_await_delivered(client);
    client_reset(client);
    await_said(&server, "ended: the connection was lost\n");
    server_await_counter(&server, "closed", 1);
    free(bytes);
    server_stop(&server);
}

Test(contract_hold, a_reset_is_noticed)
{
    a_reset_ends_it("", 10);
    a_reset_ends_it("", 50000);
}

Test(contract_hold, a_reset_is_noticed_with_poll)
{
    skip_without_selector();
    a_reset_ends_it("--selector poll", 10);
    a_reset_ends_it("--selector poll", 50000);
}

static void an_end_of_stream_ends_it(const char *selector, size_t behind)
{
    struct server_process server = server_start(PATIENT "--max-line 1000 %s", selector);
    char *bytes = calloc(1, behind + 1);
    int client = client_that_waits(&server, "hold\n");
    memset(bytes, '\n', behind);
    client_send(client, bytes, behind);
    client_half_close(client);
    client_expect_end(client);
    await_said(&server, "ended: the client has closed\n");
    free(bytes);
    server_close_all(&server);
}

Test(contract_hold, an_end_of_stream_is_noticed)
{
    an_end_of_stream_ends_it("", 10);
}

Test(contract_hold, an_end_of_stream_is_noticed_with_poll)
{
    skip_without_selector();
    an_end_of_stream_ends_it("--selector poll", 10);
}

/* Behind more than the input queue holds, which only epoll can tell. */
Test(contract_hold, an_end_of_stream_is_noticed_behind_all_that_waits)
{
    skip_without_selector();
    if (strstr(server_program(), "posix") != NULL) {
        cr_skip_test("there is no epoll");
    }
    an_end_of_stream_ends_it("--selector epoll", 50000);
}

/* A handler that wants to answer a client that has only ended its half. */
static void a_handler_may_stay(const char *selector, const char *line)
{
    struct server_process server = server_start(PATIENT "%s", selector);
    int client = client_that_waits(&server, line);
    client_half_close(client);
    client_expect_text(client, "left\n");
    await_said(&server, "left: the client has closed\n");
    tell(&server, "tell\n");
    client_expect_text(client, "went on\ntwo\n");
    client_expect_end(client);
    await_said(&server, "ended: the client has closed\n");
    server_close_all(&server);
}

Test(contract_hold, a_handler_may_answer_a_client_that_has_ended_its_half)
{
    a_handler_may_stay("", "stay\ntwo\n");
}

Test(contract_hold, a_handler_may_answer_a_client_that_has_ended_its_half_with_poll)
{
    skip_without_selector();
    a_handler_may_stay("--selector poll", "stay\ntwo\n");
}

/* It has heard `left`, and goes on waiting for one that is lost then. */
ServerTest(contract_hold, a_reset_is_noticed_after_the_end_of_the_stream, PATIENT)
{
    int client = client_that_waits(server, "stay\n");
    client_half_close(client);
    client_expect_text(client, "left\n");
    client_reset(client);
    await_said(server, "ended: the connection was lost\n");
    server_await_counter(server, "closed", 1);
}

/* ---- the server stops ---- */

ServerTest(contract_hold, a_stop_ends_it, PATIENT "--drain-timeout 30")
{
    int client = client_that_waits(server, "hold\ntwo\n");
    server_signal(server, SIGTERM);
    client_expect_end(client);
    client_close(client);
    await_said(server, "ended: the server stops\n");
    server_expect_exit(server);
}

/* It is told a second later, and what has arrived by then is answered before the end. */
ServerTest(contract_hold, a_stop_waits_for_a_handler_that_stays, PATIENT "--drain-timeout 30")
{
    int client = client_that_waits(server, "stay 1000\ntwo\n");
    server_signal(server, SIGTERM);
    client_expect_text(client, "left\n");
    await_said(server, "left: the server stops\n");
    client_expect_text(client, "went on\ntwo\n");
    client_expect_end(client);
    client_close(client);
    server_expect_exit(server);
}
