/*
 * The end: SIGTERM or SIGINT stops listening, answers the whole lines that were received, flushes
 * what waits until the drain timeout, and exits with 0; a second signal ends the server at once.
 */
#include "support/client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(shutdown, .timeout = 120);

ServerTest(shutdown, case_39_idle_server_exits_0, "")
{
}

/* It may come before anybody waits for anything. */
Test(shutdown, case_32_a_stop_right_after_the_start_is_not_lost)
{
    for (int i = 0; i < 10; i++) {
        struct server_process server = server_start("");
        server_signal(&server, SIGUSR1); /* one that asks for something else must not hide it */
        server_stop(&server);
    }
}

ServerTest(shutdown, sigint_exits_0, "")
{
    int client = client_connect_echo(server, "hello\n");
    server_signal(server, SIGINT);
    int status = server_await_end(server, test_deadline());
    cr_assert_eq(status, 0,
                 "sent SIGINT, expected exit status 0; wait status 0x%x (-1: still runs)",
                 (unsigned)status);
    client_expect_end(client);
    client_close(client);
    server_forget(server);
}

/* Clients with nothing under way do not hold the server up, and are not reset. */
ServerTest(shutdown, case_39_idle_clients_get_end_of_stream, "--drain-timeout 30")
{
    enum { CLIENTS = 20 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_echo(server, "hello\n");
        if (i % 2) {
            client_send_text(clients[i], "unfinished");
        }
    }
    server_stop(server);
    for (int i = 0; i < CLIENTS; i += 2) {
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    for (int i = 1; i < CLIENTS; i += 2) {
        client_expect_gone(clients[i]); /* its unfinished line may have cost it the good order */
        client_close(clients[i]);
    }
}

/**
 * A client whose reply has begun and has to wait for its reader: one long line, sent whole, nothing
 * read. The buffers between the two are much smaller than the line.
 */
struct waiting {
    struct server_process server;
    int client;
    char *line;
    size_t length;
};

static void waiting_open(struct waiting *waiting, const char *drain_timeout)
{
    waiting->server = server_start("--send-buffer 4096 --drain-timeout %s", drain_timeout);
    waiting->client =
        client_connect_with(&waiting->server, (struct client_buffers){.receive = 4096});
    waiting->line = line_of(65000, "\n", &waiting->length);
    client_send(waiting->client, waiting->line, waiting->length);
    client_await_reply(waiting->client);
}

/** The client reads at last, and the server ends. */
static void waiting_expect_all(struct waiting *waiting)
{
    client_expect(waiting->client, waiting->line, waiting->length);
    client_expect_end(waiting->client);
    client_close(waiting->client);
    server_expect_exit(&waiting->server);
}

static void waiting_close(struct waiting *waiting)
{
    server_close_all(&waiting->server);
    free(waiting->line);
}

/** A test that has `waiting`. */
#define WaitingTest(suite, name, drain_timeout)                                                    \
    TestWith(suite, name, struct waiting, waiting, waiting_open(waiting, drain_timeout),           \
             waiting_close(waiting))

WaitingTest(shutdown, case_39_waiting_output_is_flushed, "30")
{
    server_signal(&waiting->server, SIGTERM);
    client_await_refusal(&waiting->server);
    waiting_expect_all(waiting);
}

/* All lines are in the server when the first reply comes: they came in one segment. */
ServerTest(shutdown, case_39_lines_already_received_are_answered, "--block-ms 5 --drain-timeout 30")
{
    enum { LINES = 200 };
    int client = client_connect(server);
    size_t length;
    char *lines = lines_numbered("received", LINES, &length);
    size_t one = length / LINES;
    client_send(client, lines, length);
    client_expect(client, lines, one);
    server_signal(server, SIGTERM);
    client_expect(client, lines + one, length - one);
    client_expect_end(client);
    client_close(client);
    free(lines);
    server_expect_exit(server);
}

/* Numbered lines, without a pause and without a look at the answers; as many as the client takes.
 */
static void send_lines(int client, int *next, int pieces)
{
    for (int i = 0; i < pieces; i++) {
        char lines[20 * 8 + 1];
        for (int line = 0; line < 20; line++) {
            snprintf(lines + (size_t)line * 8, 9, "%07d\n", *next + line);
        }
        if (send(client, lines, 20 * 8, MSG_DONTWAIT | MSG_NOSIGNAL) == 20 * 8) {
            *next += 20;
        }
        test_pause_ms(2);
    }
}

/* Takes what comes, until the end, however that comes. Returns how many bytes. */
static long long take_all(int client)
{
    char bytes[4096];
    long long all = 0;
    size_t got;
    while (client_try_receive(client, bytes, 1, test_deadline(), &got) == CLIENT_GOT) {
        all += 1;
    }
    return all;
}

/*
 * Its answers are in the server's send buffer, because its own buffer is small. If the server
 * closed there and then, the client's next line would be answered with a reset, which destroys
 * them.
 */
ServerTest(shutdown, case_39_answers_arrive_although_the_client_still_sends,
           "--stats --drain-timeout 30")
{
    int client = client_connect_with(server, (struct client_buffers){.receive = 2048});
    char errors[8192];
    int next = 0;
    while (server_counter(server, "bytes_out") < 20000) {
        send_lines(client, &next, 20);
    }
    server_signal(server, SIGTERM);
    client_await_refusal(server);
    send_lines(client, &next, 100);
    long long got = take_all(client);
    client_close(client);
    cr_assert_eq(server_await_end(server, test_deadline()), 0);
    server_errors(server, errors, sizeof errors);
    long long sent = stats_value(errors, "bytes_out", NULL);
    cr_assert_eq(got, sent, "the server sent %lld bytes of answers, and %lld arrived", sent, got);
    server_forget(server);
}

/* The system has connected them, and has their lines; the server has not accepted them yet. */
ServerTest(shutdown, case_39_clients_that_were_not_accepted_yet_are_answered, "--drain-timeout 30")
{
    enum { CLIENTS = 100 };
    int clients[CLIENTS];
    server_signal(server, SIGSTOP);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(server, "in time\n");
    }
    server_signal(server, SIGTERM);
    server_signal(server, SIGCONT);
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "in time\n");
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    server_expect_exit(server);
}

/* The first message, once the server listens no more. Whether it was sent in the client's second.
 */
static bool say_first_message(struct server_process *server, int *client)
{
    double connected = test_now();
    *client = client_connect(server);
    server_signal(server, SIGTERM);
    client_await_refusal(server);
    client_try_send(*client, "just connected\n", 15, test_deadline());
    return test_now() < connected + 1;
}

/*
 * It has only just connected, so its first message is on its way. A machine that takes a second for
 * that has shown nothing, and is asked again.
 */
Test(shutdown, case_39_a_first_message_may_come_after_the_signal)
{
    double end = test_deadline();
    struct server_process server = server_start("--drain-timeout 30");
    int client;
    while (!say_first_message(&server, &client)) {
        cr_assert_lt(test_now(), end, "the machine is too slow for this test");
        client_close(client);
        server_expect_exit(&server);
        server = server_start("--drain-timeout 30");
    }
    client_expect_text(client, "just connected\n");
    client_expect_end(client);
    client_close(client);
    server_expect_exit(&server);
}

/* They are in the server's system, and far more than it takes in at once. */
ServerTest(shutdown, case_39_lines_not_yet_read_are_answered, "--block-ms 100 --drain-timeout 30")
{
    enum { LINES = 6 };
    int client = client_connect(server);
    size_t length;
    char *line = line_of(8000, "\n", &length);
    client_send_text(client, "the server is at work while the others come\n");
    client_await_delivered(client);
    for (int i = 0; i < LINES; i++) {
        client_send(client, line, length);
    }
    client_await_delivered(client);
    server_signal(server, SIGTERM);
    client_expect_text(client, "the server is at work while the others come\n");
    for (int i = 0; i < LINES; i++) {
        client_expect(client, line, length);
    }
    client_expect_end(client);
    client_close(client);
    free(line);
    server_expect_exit(server);
}

WaitingTest(shutdown, case_39_new_clients_are_refused, "30")
{
    server_signal(&waiting->server, SIGTERM);
    client_await_refusal(&waiting->server);
    cr_assert_eq(server_await_end(&waiting->server, test_now()), -1,
                 "the server ended although output waits and its drain timeout is 30 s");
    waiting_expect_all(waiting);
}

WaitingTest(shutdown, case_39_stuck_reader_is_cut_at_the_deadline, "0.5")
{
    double begin = test_now();
    server_stop(&waiting->server); /* exits with 0, too */
    double took = test_now() - begin;
    cr_assert(took >= 0.45,
              "a client does not read and --drain-timeout is 0.5 s: the server ended "
              "after %.3f s already",
              took);
}

static void check_second_signal(int second)
{
    struct waiting waiting;
    waiting_open(&waiting, "50");
    server_signal(&waiting.server, SIGTERM);
    client_await_refusal(&waiting.server);
    server_signal(&waiting.server, second);
    int status = server_await_end(&waiting.server, test_deadline());
    cr_assert(status != -1 && WIFSIGNALED(status) && WTERMSIG(status) == second,
              "while it drained the server got signal %d and should be killed by it; wait status "
              "0x%x (-1: still runs)",
              second, (unsigned)status);
    server_forget(&waiting.server);
    waiting_close(&waiting);
}

Test(shutdown, case_39_second_signal_ends_at_once)
{
    check_second_signal(SIGTERM);
    check_second_signal(SIGINT);
}

/* Connected by the system, not yet accepted: the end of listening is the end for them. */
ServerTest(shutdown, clients_that_wait_for_a_place_are_let_go,
           "--max-connections 1 --overload wait")
{
    int first = client_connect_echo(server, "I have the place\n");
    int second = client_connect_send(server, "I wait\n");
    server_stop(server);
    client_expect_gone(second);
    client_expect_end(first);
}

WaitingTest(shutdown, drain_timeout_of_0_waits_for_nobody, "0")
{
    server_stop(&waiting->server);
}

/* ---- A stop that hangs ---- */

/* A pipe that nobody reads, without room for one byte more. */
static void full_pipe(int ends[2])
{
    char bytes[4096] = "";
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
}

/*
 * SIGUSR1 has main print the counters, which never returns. What hangs in other threads and in
 * other ways is in tests/faults/hangs.c.
 */
Test(shutdown, case_39_a_log_that_nobody_reads_does_not_keep_the_server)
{
    if (probe_thread_sanitized()) {
        cr_skip_test("ThreadSanitizer keeps signals back from a thread that is in write(2)");
    }
    int log[2];
    full_pipe(log);
    struct server_process server =
        server_start_limited((struct server_limits){.err = log[1]}, "--drain-timeout 0.5");
    int client = client_connect_echo(&server, "hello\n");
    server_signal(&server, SIGUSR1);
    double begin = test_now();
    server_signal(&server, SIGTERM);
    int status = server_await_end(&server, test_deadline());
    double took = test_now() - begin;
    if (status == -1) {
        server_signal(&server, SIGKILL);
    }
    cr_assert_eq(status, 1 << 8, "expected exit status 1; wait status 0x%x (-1: still runs)",
                 (unsigned)status);
    cr_assert_geq(took, 1.5, "the drain timeout is 0.5 s, and a second more is left; it took %.2f",
                  took);
    client_close(client);
    close(log[0]);
    close(log[1]);
    server_forget(&server);
}
