/*
 * The counters: --stats prints them at exit, SIGUSR1 at once; and signals by the thousand disturb
 * nothing.
 */
#include "support/client.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stats, .timeout = 120);

/** Two clients that send 19 bytes in three lines, and five more that are no line. */
static void some_traffic(const struct server_process *server)
{
    int first = client_connect(server);
    int second = client_connect(server);
    client_echo(first, "hello\n");
    client_echo(second, "hello\r\n");
    client_echo(first, "again\n");
    client_send_text(second, "half ");
    client_half_close(first);
    client_half_close(second);
    client_expect_end(first);
    client_expect_end(second);
    client_close(first);
    client_close(second);
}

static void expect_counters(const char *text, int lines)
{
    static const struct {
        const char *name;
        long long value;
    } expected[] = {{"accepted", 2}, {"rejected", 0},  {"closed", 2},
                    {"messages", 3}, {"bytes_in", 24}, {"bytes_out", 19}};
    int found;
    stats_value(text, "accepted", &found);
    cr_assert_eq(found, lines, "expected %d stats lines on standard error, found %d: %s", lines,
                 found, text);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        long long value = stats_value(text, expected[i].name, NULL);
        cr_assert_eq(value, expected[i].value,
                     "two clients, three lines of 19 bytes, 5 bytes unfinished: expected %s=%lld, "
                     "found %lld in: %s",
                     expected[i].name, expected[i].value, value, text);
    }
}

ServerTest(stats, counters_at_exit, "--stats")
{
    char text[4096];
    some_traffic(server);
    server_signal(server, SIGTERM);
    server_await_end(server, test_deadline());
    server_errors(server, text, sizeof text);
    server_expect_exit(server);
    expect_counters(text, 1);
}

ServerTest(stats, silent_without_the_option, "")
{
    char text[4096];
    some_traffic(server);
    server_signal(server, SIGTERM);
    server_await_end(server, test_deadline());
    server_errors(server, text, sizeof text);
    server_expect_exit(server);
    int lines;
    stats_value(text, "accepted", &lines);
    cr_assert_eq(lines, 0, "without --stats there is a stats line: %s", text);
}

ServerTest(stats, sigusr1_prints_counters, "")
{
    char text[4096];
    some_traffic(server);
    server_await_counter(server, "closed", 2);
    server_errors(server, text, sizeof text);
    int lines;
    stats_value(text, "accepted", &lines);
    expect_counters(text, lines);
    client_connect_echo(server, "service goes on\n");
}

ServerTest(stats, rejected_clients_are_counted, "--max-connections 1")
{
    client_connect_echo(server, "I have the place\n");
    for (int i = 0; i < 5; i++) {
        int client = client_connect(server);
        client_expect_text(client, "ERR server busy\n");
        client_close(client);
    }
    server_await_counter(server, "rejected", 5);
    long long rejected = server_counter(server, "rejected");
    cr_assert_eq(rejected, 5, "5 clients got the busy line; rejected=%lld", rejected);
}

/* Signals interrupt whatever call the server is in. */

struct signals {
    const struct server_process *server;
    atomic_bool stop;
    int sent;
};

static void *send_signals(void *argument)
{
    struct signals *signals = argument;
    while (!atomic_load(&signals->stop) || signals->sent < 3000) {
        server_signal(signals->server, SIGUSR1);
        signals->sent++;
        if (signals->sent % 100 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

ServerTest(stats, case_37_signals_by_the_thousand, "--send-buffer 8192")
{
    struct signals signals = {.server = server};
    size_t length;
    char *lines = lines_numbered("between two signals", 2000, &length);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, send_signals, &signals), 0);
    for (int i = 0; i < 20; i++) {
        int client = client_connect(server);
        client_exchange(client, lines, length, lines, length);
        client_half_close(client);
        client_expect_end(client);
        client_close(client);
    }
    atomic_store(&signals.stop, true);
    pthread_join(thread, NULL);
    server_await_counter(server, "messages", 40000); /* the first may be of a while ago */
    long long messages = server_counter(server, "messages");
    cr_assert_eq(messages, 40000, "after %d signals: messages=%lld", signals.sent, messages);
    free(lines);
}
