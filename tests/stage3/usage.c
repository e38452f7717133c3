/*
 * The options that only stage 3 has, as a user meets them, and the second port.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage3_usage, .timeout = 60);

static void expect_refused(const char *arguments, const char *complaint)
{
    char expected[512];
    struct program_result result = program_run("%s", arguments);
    snprintf(expected, sizeof expected, "%s: %s\n", server_name(), complaint);
    cr_assert(result.exit_status == 2 && strcmp(result.err, expected) == 0 && !*result.out,
              "`%s`: expected exit status 2 and `%s` on standard error, got %d and `%s`", arguments,
              expected, result.exit_status, result.err);
}

Test(stage3_usage, bad_numbers)
{
    expect_refused("--workers 0", "--workers: not a number from 1 to 10000: 0");
    expect_refused("--workers x", "--workers: not a number from 1 to 10000: x");
    expect_refused("--workers=", "--workers: not a number from 1 to 10000: ");
    expect_refused("--workers 10001", "--workers: not a number from 1 to 10000: 10001");
    expect_refused("--workers", "--workers: needs a value: N");
    expect_refused("--max-workers -1", "--max-workers: not a number from 0 to 10000: -1");
    expect_refused("--keep-alive soon", "--keep-alive: not a number of seconds: soon");
}

Test(stage3_usage, bad_choices)
{
    static const char queues[] = "--queue: not one of direct, bounded:N, unbounded, priority: ";
    static const char *const bad_queues[] = {"x", "bounded", "bounded:", "bounded:0", "bounded:x"};
    for (size_t i = 0; i < sizeof bad_queues / sizeof *bad_queues; i++) {
        char arguments[64];
        char complaint[128];
        snprintf(arguments, sizeof arguments, "--queue %s", bad_queues[i]);
        snprintf(complaint, sizeof complaint, "%s%s", queues, bad_queues[i]);
        expect_refused(arguments, complaint);
    }
    expect_refused(
        "--saturation x",
        "--saturation: not one of abort, block, caller-runs, discard, discard-oldest: x");
    expect_refused("--guard x", "--guard: not one of lock, none: x");
    expect_refused("--guard=", "--guard: not one of lock, none: ");
}

Test(stage3_usage, bad_priority_port)
{
    expect_refused("--priority-port 70000", "--priority-port: not a port number or none: 70000");
    expect_refused("--priority-port x", "--priority-port: not a port number or none: x");
    expect_refused("--priority-port=", "--priority-port: not a port number or none: ");
    expect_refused("--priority-port -1", "--priority-port: not a port number or none: -1");
}

Test(stage3_usage, help_lists_the_options)
{
    static const char *const options[] = {"--selector",   "--workers", "--max-workers",
                                          "--keep-alive", "--queue",   "--saturation",
                                          "--guard",      "none",      "--priority-port"};
    struct program_result result = program_run("--help");
    cr_assert_eq(result.exit_status, 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        cr_assert(strstr(result.out, options[i]), "--help does not list %s; it prints: %s",
                  options[i], result.out);
    }
}

/* ---- the second port ---- */

/** The line that a server prints after its first, without the LF; asserts that it comes. */
static void read_second_line(const struct server_process *server, char *line, size_t size)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    size_t length = 0;
    while (length + 1 < size && test_await(server->out, POLLIN, end) &&
           read(server->out, line + length, 1) == 1 && line[length] != '\n') {
        length++;
    }
    cr_assert_eq(line[length], '\n', "no second line on standard output");
    line[length] = '\0';
}

static int port_in(const char *line, const char *host)
{
    char start[128];
    snprintf(start, sizeof start, "%s: urgent echo on %s:", server_name(), host);
    cr_assert_eq(strncmp(line, start, strlen(start)), 0, "expected `%sPORT`, got `%s`", start,
                 line);
    return atoi(line + strlen(start));
}

/** Both ports serve, and are closed at the stop. */
static void expect_two_ports(const char *bind, const char *host)
{
    char line[256] = "";
    struct server_process server =
        server_start("--bind %s --queue priority --priority-port 0", bind);
    struct server_process urgent = server;
    read_second_line(&server, line, sizeof line);
    urgent.port = port_in(line, host);
    cr_assert_neq(urgent.port, server.port);
    int usual = client_connect(&server);
    int favoured = client_connect(&urgent);
    client_echo(usual, "hello\n");
    client_echo(favoured, "hello\n");
    server_signal(&server, SIGTERM);
    client_expect_end(usual);
    client_expect_end(favoured);
    client_close(usual);
    client_close(favoured);
    server_expect_exit(&server);
    client_await_refusal(&urgent);
}

Test(stage3_usage, the_second_port_is_announced_in_a_second_line)
{
    expect_two_ports("127.0.0.1", "127.0.0.1");
}

Test(stage3_usage, the_second_port_has_the_same_address)
{
    expect_two_ports("::1", "[::1]");
}

Test(stage3_usage, without_the_option_there_is_one_line)
{
    static const char *const options[] = {"", "--queue priority", "--priority-port none"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        struct server_process server = server_start("%s", options[i]);
        int client = client_connect(&server);
        client_echo(client, "it serves\n");
        client_close(client);
        server_signal(&server, SIGTERM);
        char byte;
        cr_assert(test_await(server.out, POLLIN, test_now() + test_deadline_ms() / 1000.0));
        cr_assert_eq(read(server.out, &byte, 1), 0, "`%s`: more on standard output", options[i]);
        server_expect_exit(&server);
    }
}

/* Its clients count like all others. */
Test(stage3_usage, the_second_port_keeps_to_max_connections)
{
    char line[256] = "";
    struct server_process server =
        server_start("--max-connections 2 --queue priority --priority-port 0");
    struct server_process urgent = server;
    read_second_line(&server, line, sizeof line);
    urgent.port = port_in(line, "127.0.0.1");
    int first = client_connect(&server);
    client_echo(first, "hello\n");
    int second = client_connect(&urgent);
    client_echo(second, "hello\n");
    for (int i = 0; i < 2; i++) {
        int third = client_connect(i == 0 ? &server : &urgent);
        client_expect_text(third, "ERR server busy\n");
        client_expect_end(third);
        client_close(third);
    }
    client_close(second);
    client_close(first);
    server_stop(&server);
}

/* --overload wait holds both ports back, and lets both in again. */
Test(stage3_usage, the_second_port_waits_for_a_place)
{
    char line[256] = "";
    struct server_process server =
        server_start("--max-connections 1 --overload wait --queue priority --priority-port 0");
    struct server_process urgent = server;
    read_second_line(&server, line, sizeof line);
    urgent.port = port_in(line, "127.0.0.1");
    int first = client_connect(&server);
    client_echo(first, "hello\n");
    int second = client_connect(&urgent);
    client_send_text(second, "patient\n");
    client_expect_silence(second, 60);
    client_close(first);
    client_expect_text(second, "patient\n");
    int third = client_connect(&server);
    client_send_text(third, "patient too\n");
    client_expect_silence(third, 60);
    client_close(second);
    client_expect_text(third, "patient too\n");
    client_close(third);
    server_stop(&server);
}

Test(stage3_usage, a_second_port_that_is_taken_is_no_start)
{
    struct server_process server = server_start("%s", "");
    char expected[256];
    struct program_result result = program_run("--port 0 --priority-port %d", server.port);
    snprintf(expected, sizeof expected,
             "%s: cannot listen on 127.0.0.1:%d: Address already in use\n", server_name(),
             server.port);
    cr_assert_eq(result.exit_status, 1, "exit status %d", result.exit_status);
    cr_assert_str_eq(result.err, expected);
    cr_assert_str_empty(result.out);
    server_stop(&server);
}
