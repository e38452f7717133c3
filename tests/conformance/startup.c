/*
 * Starting: the ready line, and what happens when the server cannot listen.
 */
#include "support/client.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(startup, .timeout = 120);

ServerTest(startup, ready_line, "")
{
    char expected[256];
    snprintf(expected, sizeof expected, "%s: echo on 127.0.0.1:%d", server_name(), server->port);
    cr_assert_str_eq(server->ready_line, expected,
                     "the first line on standard output should be `%s`, and is `%s`", expected,
                     server->ready_line);
    client_connect_echo(server, "hello\n");
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool works = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return works;
}

Test(startup, ready_line_of_ipv6)
{
    if (!has_ipv6()) {
        cr_skip_test("this machine has no IPv6 loopback");
    }
    struct server_process server = server_start("--bind ::1");
    char expected[256];
    snprintf(expected, sizeof expected, "%s: echo on [::1]:%d", server_name(), server.port);
    cr_assert_str_eq(server.ready_line, expected, "with --bind ::1 it should be `%s`, and is `%s`",
                     expected, server.ready_line);
    client_connect_echo(&server, "hello over IPv6\n");
    server_close_all(&server);
}

ServerTest(startup, port_is_taken, "")
{
    struct program_result second = program_run("--port %d", server->port);
    char expected[512];
    snprintf(expected, sizeof expected,
             "%s: cannot listen on 127.0.0.1:%d: Address already in use\n", server_name(),
             server->port);
    cr_assert_eq(second.exit_status, 1,
                 "a second server on a taken port should exit with 1; %s %d; standard error: %s",
                 second.started ? "it serves" : "its exit status is", second.exit_status,
                 second.err);
    cr_assert_str_eq(second.err, expected, "its standard error should be `%s`, and is `%s`",
                     expected, second.err);
    cr_assert_str_empty(second.out, "it should print no ready line; it printed `%s`", second.out);
}

Test(startup, port_is_free_again_after_the_end)
{
    struct server_process first = server_start("");
    int client = client_connect_echo(&first, "hello\n");
    int port = first.port;
    server_stop(&first); /* its end of the connection closes first, and lingers in TIME_WAIT */
    client_close(client);
    struct server_process second = server_start("--port=%d", port);
    client = client_connect_echo(&second, "hello again\n");
    server_close_all(&second);
}
