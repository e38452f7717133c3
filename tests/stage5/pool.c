/*
 * The pool of dispatchers, seen from outside: who serves whom, with which threads, and what a
 * message that blocks does to the others, without workers and with them.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage5_pool, .timeout = 120);

/* ---- connections are given to each in turn ---- */

/** The last line of one dispatcher, or of the server itself (0), in what it has printed. */
static const char *last_line_of(const char *text, int dispatcher)
{
    char start[128];
    const char *last = NULL;
    size_t length = (size_t)snprintf(start, sizeof start, "%s: stats ", server_name());
    if (dispatcher > 0) {
        length = (size_t)snprintf(start, sizeof start, "%s: dispatcher %d: stats ", server_name(),
                                  dispatcher);
    }
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        last = strncmp(line, start, length) == 0 ? line : last;
    }
    return last;
}

/** A counter in such a line; -1 if there is no line. */
static long long value_in(const char *text, int dispatcher, const char *name)
{
    char wanted[64];
    const char *line = last_line_of(text, dispatcher);
    snprintf(wanted, sizeof wanted, " %s=", name);
    const char *found = line ? strstr(line, wanted) : NULL;
    return found && found < line + strcspn(line, "\n") ? atoll(found + strlen(wanted)) : -1;
}

/** Each dispatcher has counted as much, and the server as much as all of them. */
static void expect_even(const char *text, int dispatchers, const char *name, long long each)
{
    long long sum = 0;
    for (int i = 1; i <= dispatchers; i++) {
        long long value = value_in(text, i, name);
        cr_assert_eq(value, each, "dispatcher %d: expected %s=%lld, got %lld in: %s", i, name, each,
                     value, text);
        sum += value;
    }
    cr_assert_eq(value_in(text, 0, name), sum, "%s: the server's line does not tell %lld: %s", name,
                 sum, text);
    cr_assert_null(last_line_of(text, dispatchers + 1));
}

static void read_lines_of(struct server_process *server, int dispatchers, char *text, size_t size)
{
    double end = test_deadline();
    do {
        server_errors(server, text, size);
    } while (!last_line_of(text, dispatchers) && test_left_ms(end) > 0);
}

Test(stage5_pool, connections_are_spread_evenly)
{
    enum { DISPATCHERS = 3, EACH = 10, ALL = DISPATCHERS * EACH };
    static char text[65536];
    int clients[ALL];
    struct server_process server = server_start("--dispatchers %d --stats", DISPATCHERS);
    clients_connect(&server, clients, ALL, "hello\n");
    server_signal(&server, SIGUSR1);
    read_lines_of(&server, DISPATCHERS, text, sizeof text);
    expect_even(text, DISPATCHERS, "accepted", EACH);
    expect_even(text, DISPATCHERS, "messages", EACH);
    expect_even(text, DISPATCHERS, "closed", 0);
    /* What one does counts for its dispatcher alone. */
    client_echo(clients[1], "one more\n");
    clients_close(clients, ALL);
    server_await_counter(&server, "closed", ALL);
    server_signal(&server, SIGTERM);
    cr_assert_eq(server_await_end(&server, test_deadline()), 0);
    server_errors(&server, text, sizeof text);
    expect_even(text, DISPATCHERS, "accepted", EACH);
    expect_even(text, DISPATCHERS, "closed", EACH);
    cr_assert_eq(value_in(text, 1, "messages"), EACH);
    cr_assert_eq(value_in(text, 2, "messages"), EACH + 1);
    cr_assert_eq(value_in(text, 0, "bytes_in"), ALL * 6 + 9);
    cr_assert_eq(value_in(text, 0, "bytes_out"), ALL * 6 + 9);
    server_forget(&server);
}

/* Without --stats the dispatchers' lines come when they are asked for, and then only. */
ServerTest(stage5_pool, dispatchers_tell_nothing_unasked, "--dispatchers 2")
{
    static char text[65536];
    int client = client_connect_echo(server, "hello\n");
    client_close(client);
    server_signal(server, SIGTERM);
    cr_assert_eq(server_await_end(server, test_deadline()), 0);
    server_errors(server, text, sizeof text);
    cr_assert_str_empty(text);
    server_forget(server);
}

/* ---- threads ---- */

Test(stage5_pool, threads_are_an_acceptor_and_dispatchers)
{
    enum { DISPATCHERS = 3, CLIENTS = 60 };
    int clients[CLIENTS];
    struct server_process server = server_start("--dispatchers %d", DISPATCHERS);
    clients_connect(&server, clients, CLIENTS, "hello\n");
    cr_assert_eq(probe_own_threads(server.pid), 1 + DISPATCHERS,
                 "with %d dispatchers and no workers there are %ld threads", DISPATCHERS,
                 probe_own_threads(server.pid));
    server_close_all(&server);
}

ServerTest(stage5_pool, a_dispatcher_for_each_cpu_unless_it_is_told_otherwise, "")
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    cr_assert(probe_await_own_threads(server->pid, 1 + processors), "%ld threads on %ld processors",
              probe_own_threads(server->pid), processors);
}

Test(stage5_pool, workers_come_on_top)
{
    enum { DISPATCHERS = 2, WORKERS = 3, CLIENTS = 20 };
    int clients[CLIENTS];
    struct server_process server =
        server_start("--dispatchers %d --workers %d", DISPATCHERS, WORKERS);
    clients_connect(&server, clients, CLIENTS, "hello\n");
    cr_assert_eq(probe_own_threads(server.pid), 1 + DISPATCHERS + WORKERS, "there are %ld threads",
                 probe_own_threads(server.pid));
    server_close_all(&server);
}

/* ---- a message that blocks ---- */

enum { BLOCK_MS = 5000 };

/** One client whose message blocks, and others, on dispatchers 1, 2, 1, 2, ... */
static void block_one(struct server_process *server, int clients[], int count)
{
    clients[0] = client_connect_send(server, "this takes a while\n");
    server_await_counter(server, "messages", 1); /* the first message of all pays */
    for (int i = 1; i < count; i++) {
        clients[i] = client_connect(server);
    }
}

/*
 * The price of doing without workers: a handler that blocks stops its dispatcher, and with it every
 * connection that was given to it; the other dispatcher's go on.
 */
ServerTest(stage5_pool, without_workers_a_slow_message_delays_its_dispatcher_only,
           "--dispatchers 2 --workers 0 --block-ms %d --cost-every 1000000 "
           "--drain-timeout 0.1",
           BLOCK_MS)
{
    enum { CLIENTS = 6 };
    int clients[CLIENTS];
    block_one(server, clients, CLIENTS);
    double begin = test_now();
    for (int round = 0; round < 20; round++) {
        for (int i = 1; i < CLIENTS; i += 2) {
            client_echo(clients[i], "the other dispatcher's\n");
        }
    }
    for (int i = 2; i < CLIENTS; i += 2) {
        client_send_text(clients[i], "the same dispatcher's\n");
        client_expect_silence(clients[i], 20);
    }
    client_expect_silence(clients[0], 1);
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0, "quick messages took %.1f s beside a slow one", took);
}

ServerTest(stage5_pool, with_workers_a_slow_message_delays_nobody_else,
           "--dispatchers 2 --workers 2 --block-ms %d --cost-every 1000000 "
           "--drain-timeout 0.1",
           BLOCK_MS)
{
    enum { CLIENTS = 6 };
    int clients[CLIENTS];
    block_one(server, clients, CLIENTS);
    double begin = test_now();
    for (int round = 0; round < 20; round++) {
        for (int i = 1; i < CLIENTS; i++) {
            client_echo(clients[i], "anybody's\n");
        }
    }
    client_expect_silence(clients[0], 1);
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0, "quick messages took %.1f s beside a slow one", took);
}

/*
 * Erratum 16: in Roth's code each read event schedules a task, and the tasks of one busy connection
 * wait for each other in as many workers as there are.
 */
Test(stage5_pool, erratum_16_a_client_that_pipelines_slow_messages_has_one_worker)
{
    enum { WORKERS = 4, EACH_MS = 200, LINES = 100 };
    struct server_process server = server_start(
        "--dispatchers 2 --workers %d --block-ms %d --drain-timeout 0.1", WORKERS, EACH_MS);
    int busy = client_connect(&server);
    int others[WORKERS - 1];
    for (int i = 0; i < LINES; i++) { /* as many events as there are lines, or nearly */
        client_send_text(busy, "again and again\n");
    }
    server_await_counter(&server, "messages", 1);
    double begin = test_now();
    for (int i = 0; i < WORKERS - 1; i++) {
        others[i] = client_connect_send(&server, "side by side\n");
    }
    for (int i = 0; i < WORKERS - 1; i++) {
        client_expect_text(others[i], "side by side\n");
        client_close(others[i]);
    }
    double took = test_now() - begin;
    cr_assert_lt(took, LINES * EACH_MS / 1000.0 / 4, "beside the busy one the others took %.1f s",
                 took);
    server_close_all(&server);
}

/* The end is not delayed by a handler that blocks in a dispatcher. */
ServerTest(stage5_pool, case_39_drain_timeout_holds_while_a_dispatcher_is_blocked,
           "--dispatchers 2 --workers 0 --block-ms 30000 --drain-timeout 0.3")
{
    client_connect_send(server, "this takes a while\n");
    server_await_counter(server, "messages", 1);
    double begin = test_now();
    server_stop(server);
    double took = test_now() - begin;
    cr_assert_lt(took, 10, "the end took %.1f s", took);
}

/* ---- what waits costs nothing ---- */

/* As many as descriptors allow, up to 2,000, with all timeouts on. */
Test(stage5_pool, idle_connections_with_timers_cost_no_cpu)
{
    enum { MOST = 2000 };
    static int clients[MOST];
    long descriptors = descriptors_raise();
    int count = descriptors < MOST + 100 ? (int)descriptors - 100 : MOST;
    struct server_process server =
        server_start("--idle-timeout 60 --request-timeout 50 --lifetime 70 --progress-timeout 40");
    clients_connect(&server, clients, count, NULL);
    clients_echo(clients, count, "hello\n");
    double most = probe_sanitized() ? 0.1 : 0.02; /* ThreadSanitizer's own thread wakes up, too */
    double busy = probe_busy_during(server.pid, 700);
    cr_assert(busy >= 0 && busy < most, "%d idle connections keep %.1f %% of a core busy", count,
              busy * 100);
    client_echo(clients[count / 2], "hello\n");
    server_close_all(&server);
}

/* ---- erratum 20 ---- */

/*
 * One byte in each idle period: the idle timeout is put off forever, the other limits are not.
 * Those begin when the server accepts, which may be long before the connect of a test that has to
 * wait for a processor returns; and such a test must not miss an idle period, so that is ten times
 * its own.
 */
static void one_byte_per_period(const char *limit, double seconds)
{
    struct server_process server = server_start("--idle-timeout 1 %s", limit);
    double begin = test_now();
    int client = client_connect(&server);
    double end = test_deadline();
    while (!test_await(client, POLLIN, test_now() + 0.1)) {
        cr_assert(test_left_ms(end) > 0, "a byte every 100 ms keeps a useless connection");
        client_try_send(client, "x", 1, end);
    }
    client_expect_gone(client);
    double took = test_now() - begin;
    cr_assert_gt(took, seconds - 0.01, "closed after %.3f s", took);
    server_close_all(&server);
}

Test(stage5_pool, erratum_20_one_byte_per_idle_period_and_a_request_timeout)
{
    one_byte_per_period("--request-timeout 1.5", 1.5);
}

Test(stage5_pool, erratum_20_one_byte_per_idle_period_and_a_lifetime)
{
    one_byte_per_period("--request-timeout 0 --lifetime 1.5", 1.5);
}

/* ---- options ---- */

ClientTest(stage5_pool, no_workers_are_as_good_as_any_number,
           "--workers 0 --suspicious ::/0 --throttle 1000000")
{
    client_echo(client, "hello\n");
}
