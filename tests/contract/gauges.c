/*
 * The gauges, which are printed in front of the counters; and what the log says of a handler that
 * holds a loop or a worker.
 */
#include "support/client.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(gauges, .timeout = 120);

static char text[1 << 16];

/* Whether the line in which something stands begins with the program and that part. */
static bool is_of(const char *found, const char *part)
{
    while (found > text && found[-1] != '\n') {
        found--;
    }
    const char *begin = strchr(found, ':');
    return begin != NULL && strncmp(begin + 2, part, strlen(part)) == 0;
}

/* The number behind `name=`, added up over the lines of gauges of the last report that are of parts
 * with a name that begins like that; -1: none. */
static long long last_gauge_of(const char *part, const char *name)
{
    char wanted[64];
    long long sum = -1;
    const char *begin = text, *end = NULL; /* each report ends with the memory that is held */
    for (char *next = text; (next = strstr(next, " memory_held=")) != NULL; next++) {
        begin = end != NULL ? end + 1 : text;
        end = next;
    }
    snprintf(wanted, sizeof wanted, " %s=", name);
    for (const char *found = begin;
         end != NULL && (found = strstr(found, wanted)) != NULL && found <= end;
         found += strlen(wanted))
        if (is_of(found, part)) {
            sum = (sum < 0 ? 0 : sum) + atoll(found + strlen(wanted));
        }
    return sum;
}

static long long last_gauge(const char *name)
{
    return last_gauge_of("", name);
}

/* Asks for a report, and for the gauge in it. */
static long long gauge(const struct server_process *server, const char *name)
{
    server_counter(server, "accepted");
    server_errors(server, text, sizeof text);
    return last_gauge(name);
}

/*
 * Asks again and again, until the gauge is at least that much, and at most. One report would be
 * luck: a loop that is held up for 50 ms, be it by a busy machine, lets its last answer stand.
 */
static void await_gauge_of(const struct server_process *server, const char *part, const char *name,
                           long long min, long long max)
{
    double end = test_deadline();
    for (;;) {
        gauge(server, name);
        long long value = last_gauge_of(part, name);
        if (value >= min && value <= max) {
            return;
        }
        cr_assert_gt(test_left_ms(end), 0,
                     "%s: expected %s %s from %lld to %lld, it is %lld in the last report: %s",
                     server_name(), part, name, min, max, value, text);
        poll(NULL, 0, 20);
    }
}

static void await_gauge(const struct server_process *server, const char *name, long long min,
                        long long max)
{
    await_gauge_of(server, "", name, min, max);
}

static bool has_a_loop(void)
{
    return strstr(server_name(), "stage1") == NULL;
}

ServerTest(gauges, connections_that_are_open, "")
{
    int clients[3];
    for (int i = 0; i < 3; i++) {
        clients[i] = client_connect_echo(server, "here\n");
    }
    await_gauge(server, "open", 3, 3);
    client_close(clients[0]);
    await_gauge(server, "open", 2, 2);
}

/* Where the loop runs the handlers, one that blocks makes events wait for as long. */
Test(gauges, the_lag_of_a_loop_that_a_handler_holds)
{
    if (!has_a_loop()) {
        return;
    }
    const char *inline_handlers = server_has_option("--dispatchers") ? "--workers 0" : "";
    struct server_process server =
        server_start("--block-ms 300 --cost-for slow %s", inline_handlers);
    int client = client_connect(&server);
    for (int i = 0; i < 100; i++) {
        client_echo(client, "quick\n");
    }
    client_echo(client, "slow\n");
    bool held = server_has_option("--dispatchers") || !server_has_option("--workers");
    /* The answer leaves before the round is over, and it is then that the round counts. */
    await_gauge(&server, "lag_max_us", held ? 300000 : 0, 10000000);
    long long half = last_gauge("lag_p50_us");
    cr_assert_geq(last_gauge("rounds"), 50, "a hundred messages, one after the other: %s", text);
    cr_assert(half >= 0 && half < 300000, "only one round of a hundred is late: %s", text);
    server_close_all(&server);
}

/* A test with `server`, a pointer, which was started with these options; where it has no such
 * gauge, nothing is tested. */
#define GaugeTest(suite, name, has_it, ...)                                                        \
    static void suite##_##name##_of(struct server_process *server);                                \
    Test(suite, name)                                                                              \
    {                                                                                              \
        if (has_it) {                                                                              \
            struct server_process server = server_start(__VA_ARGS__);                              \
            suite##_##name##_of(&server);                                                          \
            server_close_all(&server);                                                             \
        }                                                                                          \
    }                                                                                              \
    static void suite##_##name##_of(struct server_process *server)

GaugeTest(gauges, output_that_is_held_for_a_client_that_does_not_read, has_a_loop(),
          "--send-buffer 8192 --output-high-mark 65536 --max-line 4096")
{
    size_t length;
    char *line = line_of(4000, "\n", &length);
    int client = client_connect_with(server, (struct client_buffers){.receive = 8192});
    double end = test_deadline();
    do { /* more than once: a server that has no processor for a while takes nothing either */
        client_push(client, line, length, 8 << 20, 20);
        cr_assert_gt(test_left_ms(end), 0, "nobody reads 64 KiB of answers: %s", text);
    } while (gauge(server, "output_held") < 32768);
    client_reset(client);
    await_gauge(server, "output_held", 0, 0);
    free(line);
}

GaugeTest(gauges, tasks_that_wait_for_a_worker_and_for_how_long, server_has_option("--workers"),
          "--workers 1 --block-ms 300 --cost-for slow")
{
    enum { CLIENTS = 10 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_echo(server, "here\n");
    }
    /* The wait is known from main's next look, and all of it is over after three seconds. A test
     * that was not there at the time comes again. */
    bool waited = false, said_how_long = false;
    double end = test_deadline();
    while (!waited || !said_how_long) {
        cr_assert_gt(test_left_ms(end), 0, "seven of ten wait, for 400 ms and longer: %s", text);
        for (int i = 0; i < CLIENTS; i++) {
            client_send_text(clients[i], "slow\n");
        }
        do {
            waited |= gauge(server, "queue") >= 7;
            said_how_long |= last_gauge("queue_wait_ms") >= 400;
        } while (!test_await(clients[CLIENTS - 1], POLLIN, test_now() + 0.02));
        for (int i = 0; i < CLIENTS; i++) {
            client_expect_text(clients[i], "slow\n");
        }
    }
    await_gauge(server, "queue", 0, 0);
    cr_assert_eq(last_gauge("queue_wait_ms"), 0, "nothing waits any more: %s", text);
}

GaugeTest(gauges, workers_that_there_are_and_those_that_have_nothing_to_do,
          server_has_option("--workers"), "--workers 2 --block-ms 300 --cost-for slow")
{
    int clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = client_connect(server);
    }
    bool both_work = false;
    double end = test_deadline();
    while (!both_work) { /* a test that was not there at the time comes again */
        cr_assert_gt(test_left_ms(end), 0, "two workers have a client each: %s", text);
        for (int i = 0; i < 2; i++) {
            client_send_text(clients[i], "slow\n");
        }
        do
            both_work |= gauge(server, "threads") == 2 && last_gauge("idle") == 0;
        while (!test_await(clients[1], POLLIN, test_now() + 0.02));
        for (int i = 0; i < 2; i++) {
            client_expect_text(clients[i], "slow\n");
        }
    }
    await_gauge(server, "idle", 2, 2);
    cr_assert_eq(last_gauge_of("workers", "threads"), 2, "both are kept: %s", text);
}

GaugeTest(gauges, input_that_is_held_because_its_line_has_no_end_yet, has_a_loop(), "")
{
    size_t length;
    char *half = line_of(20000, "", &length);
    int client = client_connect(server);
    client_send(client, half, length);
    await_gauge(server, "input_held", 20000, 20000);
    client_send_text(client, "\n");
    client_expect(client, half, length);
    client_expect_text(client, "\n");
    await_gauge(server, "input_held", 0, 0);
    free(half);
}

/* A segment has room for more than 4,000 bytes. Of what comes back a thread keeps 16 at most, and
 * there are five threads at most that have any. */
ServerTest(gauges, memory_of_the_segments_that_queues_hold, "%s",
           server_has_option("--workers") ? "--workers 2" : "")
{
    enum { CLIENTS = 200, SEGMENT_MIN = 4000, KEPT_MAX = 5 * 16 * 4096 };
    int clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(server, "half a line");
    }
    await_gauge(server, "memory_held", CLIENTS * SEGMENT_MIN, CLIENTS * 3 * 4096);
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    await_gauge(server, "open", 0, 0);
    await_gauge(server, "memory_held", 0, KEPT_MAX);
}

GaugeTest(gauges, each_dispatcher_has_its_own, server_has_option("--dispatchers"),
          "--dispatchers 2 --block-ms 700 --cost-for slow")
{
    int clients[3];
    for (int i = 0; i < 3; i++) { /* they go to the dispatchers in turn */
        clients[i] = client_connect_echo(server, "here\n");
    }
    client_send_text(clients[1], "half");
    client_echo(clients[0], "slow\n");
    await_gauge_of(server, "dispatcher 1", "lag_max_us", 700000, LLONG_MAX);
    await_gauge_of(server, "dispatcher 1", "open", 2, 2);
    await_gauge_of(server, "dispatcher 2", "open", 1, 1);
    await_gauge_of(server, "dispatcher 2", "input_held", 4, 4);
    cr_assert_eq(last_gauge_of("dispatcher 1", "input_held"), 0, "%s", text);
}

/* Waits until the log has a line with both, and returns the line. */
static const char *await_line(const struct server_process *server, const char *event,
                              const char *part)
{
    double end = test_deadline();
    for (;;) {
        server_errors(server, text, sizeof text);
        for (char *line = text; (line = strstr(line, event)) != NULL; line++) {
            char *rest = strchr(line, '\n');
            char *found = strstr(line, part);
            if (rest != NULL && found != NULL && found < rest) {
                *rest = '\0';
                return line;
            }
        }
        cr_assert_gt(test_left_ms(end), 0, "waited in vain for %s of %s in: %s", event, part, text);
        poll(NULL, 0, 20);
    }
}

static int local_port(int fd)
{
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

/* Who runs the handler of the only client. */
static const char *runner(void)
{
    return server_has_option("--dispatchers") ? "part=\"dispatcher 1\""
           : server_has_option("--workers")   ? "part=\"worker 1\""
                                              : "part=\"reactor\"";
}

Test(gauges, a_handler_that_takes_long_is_logged_with_its_client_and_again_when_it_is_back)
{
    if (!has_a_loop()) {
        return;
    }
    char peer[64];
    bool pool = server_has_option("--workers") && !server_has_option("--dispatchers");
    struct server_process server =
        server_start("--block-ms 3500 --cost-for slow %s", pool ? "--workers 1" : "");
    int client = client_connect_echo(&server, "quick\n");
    double began = test_now();
    client_send_text(client, "slow\n");
    const char *line = await_line(&server, "event=handler_slow", runner());
    double waited = test_now() - began;
    snprintf(peer, sizeof peer, "peer=127.0.0.1:%d ", local_port(client));
    cr_assert(strstr(line, peer) != NULL, "expected %s in: %s", peer, line);
    long ms = atol(strstr(line, "for_ms=") + strlen("for_ms="));
    cr_assert(ms >= 1000 && ms < 3500 + 2000, "for_ms=%ld, but it is there for 3.5 s", ms);
    cr_assert_lt(waited, 3.4 * test_deadline_ms() / 1000, "told after %.1f s", waited);
    client_expect_text(client, "slow\n");
    line = await_line(&server, "event=handler_back", runner());
    ms = atol(strstr(line, "for_ms=") + strlen("for_ms="));
    cr_assert(strstr(line, peer) != NULL && ms >= 2000, "back after 3.5 s: %s", line);
    client_echo(client, "quick\n");
    server_close_all(&server);
}

/* The proxy is one and the same for all; who is to be found is its client, 203.0.113.1. */
Test(gauges, a_handler_that_takes_long_is_logged_with_the_client_behind_the_proxy)
{
    if (!has_a_loop()) {
        return;
    }
    static const char header[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"
                                 "\xcb\0\x71\x01\x7f\0\0\x01\x12\x67\0\x50";
    bool pool = server_has_option("--workers") && !server_has_option("--dispatchers");
    struct server_process server = server_start(
        "--proxy-protocol 127.0.0.1 --block-ms 2500 --cost-for slow %s", pool ? "--workers 1" : "");
    int client = client_connect(&server);
    client_send(client, header, sizeof header - 1);
    client_echo(client, "quick\n");
    client_send_text(client, "slow\n");
    const char *line = await_line(&server, "event=handler_slow", runner());
    cr_assert(strstr(line, " peer=203.0.113.1:4711 ") != NULL, "expected the client in: %s", line);
    client_expect_text(client, "slow\n");
    line = await_line(&server, "event=handler_back", runner());
    cr_assert(strstr(line, " peer=203.0.113.1:4711 ") != NULL, "expected the client in: %s", line);
    server_close_all(&server);
}

/* Stops it, so that what two clients send meanwhile is there at once when it goes on. */
static void freeze(const struct server_process *server)
{
    siginfo_t stopped;
    server_signal(server, SIGSTOP);
    cr_assert_eq(waitid(P_PID, (id_t)server->pid, &stopped, WSTOPPED | WNOWAIT), 0);
}

static void expect_slow(const struct server_process *server, const char *part, int client)
{
    char peer[64];
    const char *line = await_line(server, "event=handler_slow", part);
    snprintf(peer, sizeof peer, " peer=127.0.0.1:%d ", local_port(client));
    cr_assert(strstr(line, peer) != NULL, "expected%sin: %s", peer, line);
}

static struct server_process start_slow(const char *options)
{
    bool pool = server_has_option("--workers") && !server_has_option("--dispatchers");
    return server_start("--block-ms 2500 --cost-for slow %s %s", pool ? "--workers 1" : "",
                        options);
}

/* More lines than one turn has, and only the last one is slow: it comes after everybody's events.
 */
static void send_a_slow_turn(int client)
{
    enum { QUICK = 64 };
    for (int i = 0; i < QUICK; i++) {
        client_send_text(client, "quick\n");
    }
    client_send_text(client, "slow\n");
    client_await_delivered(client);
}

Test(gauges, a_turn_that_takes_long_is_logged_with_its_own_client)
{
    if (!has_a_loop()) {
        return;
    }
    struct server_process server = start_slow("");
    int clients[2];
    clients_connect(&server, clients, 2, "hello\n");
    freeze(&server);
    send_a_slow_turn(clients[0]);
    client_send_text(clients[1], "hello\n");
    client_await_delivered(clients[1]);
    server_signal(&server, SIGCONT);
    expect_slow(&server, runner(), clients[0]);
    client_expect_text(clients[1], "hello\n");
    server_close_all(&server);
}

/* From stage 3 on main cuts it short in time, and nobody is slow. */
Test(gauges, a_turn_that_a_stop_waits_for_in_vain_is_logged_with_its_client)
{
    if (!has_a_loop() || server_has_option("--workers")) {
        return;
    }
    struct server_process server = start_slow("--drain-timeout 0.5");
    int client = client_connect(&server);
    client_echo(client, "hello\n");
    freeze(&server);
    send_a_slow_turn(client);
    server_signal(&server, SIGTERM);
    server_signal(&server, SIGCONT);
    expect_slow(&server, runner(), client);
    int status = server_await_end(&server, test_deadline());
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "status 0x%x", status);
    server_forget(&server);
    client_close(client);
}

/* What has it go on is another client's event; then it is a timer. */
Test(gauges, a_turn_behind_a_hold_that_takes_long_is_logged_with_its_own_client)
{
    if (!has_a_loop()) {
        return;
    }
    struct server_process server = start_slow("--app obedient");
    int clients[2];
    clients_connect(&server, clients, 2, "hello\n");
    client_send_text(clients[0], "hold\nslow\n");
    client_expect_text(clients[0], "holding\n");
    client_send_text(clients[1], "tell\n");
    expect_slow(&server, runner(), clients[0]);
    client_expect_text(clients[0], "went on\nslow\n");
    client_expect_text(clients[1], "told\n");
    server_close_all(&server);
    server = start_slow("--app obedient");
    clients[0] = client_connect(&server);
    client_send_text(clients[0], "hold 50\nslow\n");
    expect_slow(&server, runner(), clients[0]);
    client_expect_text(clients[0], "holding\nwent on\nslow\n");
    server_close_all(&server);
}

/* By --saturation caller-runs the loop itself does what no worker takes. */
Test(gauges, a_call_that_takes_long_in_the_loop_instead_of_a_worker_is_logged_with_its_own_client)
{
    if (!server_has_option("--workers")) {
        return;
    }
    bool has_dispatchers = server_has_option("--dispatchers");
    struct server_process server =
        server_start("--block-ms 3500 --cost-for slow --workers 1 --queue bounded:1 --saturation "
                     "caller-runs %s",
                     has_dispatchers ? "--dispatchers 1" : "");
    int clients[4];
    clients_connect(&server, clients, 4, "hello\n");
    client_send_text(clients[0], "slow\n");
    await_gauge_of(&server, "workers", "idle", 0, 0);
    client_send_text(clients[1], "slow\n");
    await_gauge_of(&server, "workers", "queue", 1, 1);
    freeze(&server);
    client_send_text(clients[2], "slow\n");
    client_await_delivered(clients[2]);
    client_send_text(clients[3], "quick\n");
    client_await_delivered(clients[3]);
    server_signal(&server, SIGCONT);
    expect_slow(&server,
                has_dispatchers                  ? "part=\"dispatcher 1\""
                : server_has_option("--helpers") ? "part=\"dispatcher\""
                                                 : "part=\"reactor\"",
                clients[2]);
    server_close_all(&server);
}

/* A hundred calls in two seconds and a half are no call that takes long. On a machine that kept one
 * of them for a second the server would be right to say so, and the test asks again. */
Test(gauges, a_busy_handler_is_not_one_that_takes_long)
{
    if (!has_a_loop()) {
        return;
    }
    double deadline = test_deadline(), slowest;
    do {
        struct server_process server = server_start("--block-ms 20");
        int client = client_connect(&server);
        double end = test_now() + 2.5;
        slowest = 0;
        for (double began = test_now(); began < end; began = test_now()) {
            client_echo(client, "quick\n");
            slowest = test_now() - began > slowest ? test_now() - began : slowest;
        }
        server_errors(&server, text, sizeof text);
        server_close_all(&server);
    } while (slowest >= 1 && test_left_ms(deadline) > 0);
    cr_assert(slowest >= 1 || strstr(text, "handler_slow") == NULL,
              "calls of 20 ms, one after the other: %s", text);
}

/* A pipe without room for one byte more, of which nobody reads the other end. */
static void full_pipe(int ends[2])
{
    char bytes[4096] = "";
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof bytes) > 0) {
    }
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
}

/* Each client that ends is a line, which is lost. Nobody waits for that, and neither does the stop.
 */
Test(gauges, a_log_that_nobody_reads_stops_nobody)
{
    int log[2];
    full_pipe(log);
    struct server_process server = server_start_limited((struct server_limits){.err = log[1]},
                                                        "--log info --idle-timeout 0.1");
    for (int i = 0; i < 3; i++) {
        int client = client_connect_echo(&server, "hello\n");
        client_expect_end(client); /* it was idle, and the log says so */
        client_close(client);
    }
    server_signal(&server, SIGTERM);
    int status = server_await_end(&server, test_deadline());
    if (status == -1) {
        server_signal(&server, SIGKILL);
    }
    cr_assert_eq(status, 0, "expected exit status 0; wait status 0x%x (-1: still runs)",
                 (unsigned)status);
    close(log[0]);
    close(log[1]);
    server_forget(&server);
}
