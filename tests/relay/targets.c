/*
 * To whom a relay connects, and what becomes of its client if nobody answers.
 */
#include "support/backend.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

TestSuite(relay_targets, .timeout = 120);

Test(relay_targets, the_next_one_is_tried_when_one_refuses)
{
    struct backend backend = backend_open(10);
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d --stats",
                     backend_nobody(), backend_nobody(), backend.port);
    client_connect_send(&relay, "is anybody there?\n");
    int server = backend_accept(&backend);
    client_expect_text(server, "is anybody there?\n");
    cr_assert_eq(server_counter(&relay, "connects_failed"), 2);
    cr_assert_eq(server_counter(&relay, "connects"), 3);
    client_close(server);
    server_close_all(&relay);
    backend_close(&backend);
}

Test(relay_targets, a_client_whom_nobody_serves_is_closed_and_the_log_says_why)
{
    int nobody = backend_nobody();
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d,127.0.0.1:%d --stats", nobody, nobody);
    int client = client_connect(&relay);
    client_expect_end(client);
    client_close(client);
    char errors[4096];
    char wanted[128];
    server_errors(&relay, errors, sizeof errors);
    snprintf(wanted, sizeof wanted, " to=127.0.0.1:%d reason=\"Connection refused\"", nobody);
    cr_assert_not_null(strstr(errors, wanted), "%s", errors);
    server_await_counter(&relay, "closed", 3);
    server_stop(&relay);
}

Test(relay_targets, the_one_with_the_fewest_connections_is_first)
{
    struct backend one = backend_open(10);
    struct backend two = backend_open(10);
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d,127.0.0.1:%d --stats", one.port, two.port);
    int clients[6];
    int ones[3];
    int twos[3];
    for (size_t i = 0; i < 3; i++) {
        clients[2 * i] = client_connect(&relay);
        ones[i] = backend_accept(&one);
        clients[2 * i + 1] = client_connect(&relay);
        twos[i] = backend_accept(&two);
    }
    for (size_t i = 0; i < 2; i++) { /* two of the second one's end */
        client_close(twos[i]);
        client_expect_end(clients[2 * i + 1]);
        client_close(clients[2 * i + 1]);
    }
    server_await_counter(&relay, "closed", 4);
    for (size_t i = 0; i < 2; i++) {
        clients[2 * i + 1] = client_connect(&relay);
        twos[i] = backend_accept(&two);
    }
    backend_expect_nobody(&one, 50);
    for (int i = 0; i < 3; i++) {
        client_close(ones[i]);
        client_close(twos[i]);
    }
    server_close_all(&relay);
    backend_close(&one);
    backend_close(&two);
}

/* ---- One that does not answer --------------------------------------------------------------- */

/** A server whose backlog is full answers no connect. */
struct silence {
    struct backend backend;
    int fds[BACKEND_FILL];
};

static struct silence open_silence(void)
{
    struct silence silence = {.backend = backend_open(0)};
    backend_fill(&silence.backend, silence.fds);
    return silence;
}

static void close_silence(struct silence *silence)
{
    for (int i = 0; i < BACKEND_FILL; i++) {
        client_close(silence->fds[i]);
    }
    backend_close(&silence->backend);
}

Test(relay_targets, one_that_does_not_answer_has_the_connect_timeout)
{
    struct silence silence = open_silence();
    struct backend backend = backend_open(10);
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d,127.0.0.1:%d --connect-timeout 0.5 --stats",
                     silence.backend.port, backend.port);
    double begin = test_now();
    client_connect_send(&relay, "waited for\n");
    int server = backend_accept(&backend);
    cr_assert_geq(test_now() - begin, 0.45, "it has not waited for the first one");
    client_expect_text(server, "waited for\n");
    char errors[4096];
    server_errors(&relay, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, "Connection timed out"), "%s", errors);
    client_close(server);
    server_close_all(&relay);
    backend_close(&backend);
    close_silence(&silence);
}

/** Nobody waits for the clients whose server does not answer. */
Test(relay_targets, others_are_served_meanwhile)
{
    struct silence silence = open_silence();
    struct backend backend = backend_open(10);
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d,127.0.0.1:%d --connect-timeout 30 --stats",
                     silence.backend.port, backend.port);
    int stuck = client_connect(&relay);
    server_await_counter(&relay, "connects", 1);
    int client = client_connect(&relay);
    int server = backend_accept(&backend);
    client_pass(client, server, "meanwhile\n");
    client_close(stuck);
    client_close(client);
    client_close(server);
    server_stop(&relay); /* and it does not wait for the answer either */
    backend_close(&backend);
    close_silence(&silence);
}

/** The client has gone when its server answers at last: that connection ends. */
Test(relay_targets, a_client_that_leaves_before_its_server_answers_leaves_nothing)
{
    struct silence silence = open_silence();
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d --connect-timeout 30 --idle-timeout 0 --stats",
                     silence.backend.port);
    int client = client_connect(&relay);
    server_await_counter(&relay, "connects", 1);
    client_reset(client); /* nothing is read from it meanwhile */
    server_await_counter(&relay, "closed", 1);
    for (int i = 0; i < BACKEND_FILL; i++) {
        client_close(backend_accept(&silence.backend)); /* now there is room */
        if (server_counter(&relay, "closed") == 2) {
            break;
        }
    }
    server_await_counter(&relay, "closed", 2);
    server_stop(&relay);
    close_silence(&silence);
}

/* ---- Bad usage ------------------------------------------------------------------------------ */

Test(relay_targets, bad_usage)
{
    static const char *const bad[] = {"127.0.0.1",   ":80",     "127.0.0.1:0", "127.0.0.1:65536",
                                      "127.0.0.1:x", "a:1,",    ",a:1",        "a:1,,b:2",
                                      "::1:80",      "a:",      "[:80",        "[a:80",
                                      "[]:80",       "[::1:80", "::1]:80",     "[127.0.0.1]:80",
                                      "[::1%]:80",   "a*b:80",  "a:1,[b:2"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct program_result result = program_run("--app relay --to=%s", bad[i]);
        cr_assert_eq(result.exit_status, 2, "%s: status %d: %s", bad[i], result.exit_status,
                     result.err);
    }
    struct program_result result = program_run("--app relay --to [:80");
    char wanted[256];
    snprintf(wanted, sizeof wanted,
             "%s: --to: expected HOST:PORT, with an IPv6 address in brackets, or up to 16 with "
             "commas between them, or none, got '[:80'\n",
             server_name());
    cr_assert_str_eq(result.err, wanted);
    result = program_run("--app relay --port 0");
    cr_assert_eq(result.exit_status, 1);
    cr_assert_not_null(strstr(result.err, "relay needs --to"), "%s", result.err);
}

/** No name is like that one, so nobody asks a name server. */
Test(relay_targets, a_name_that_is_not_found_is_one_that_does_not_answer)
{
    struct backend backend = backend_open(10);
    struct server_process relay =
        server_start("--app relay --to a..b:80,127.0.0.1:%d --stats", backend.port);
    char errors[4096];
    client_connect_send(&relay, "is anybody there?\n");
    int server = backend_accept(&backend);
    client_expect_text(server, "is anybody there?\n");
    server_errors(&relay, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, " to=a..b:80 reason="), "%s", errors);
    cr_assert_eq(server_counter(&relay, "connects"), 1);
    client_close(server);
    server_close_all(&relay);
    backend_close(&backend);
}

static void expect_echo_through(const char *bind, const char *target)
{
    struct server_process echo = server_start("--bind %s", bind);
    struct server_process relay = server_start("--app relay --to %s:%d", target, echo.port);
    client_connect_echo(&relay, "there and back\n");
    server_close_all(&relay);
    server_stop(&echo);
}

Test(relay_targets, a_target_may_be_an_ipv6_address)
{
    expect_echo_through("::1", "[::1]");
}

Test(relay_targets, a_target_may_be_a_name)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    char address[64];
    if (getaddrinfo("localhost", NULL, &wanted, &found) != 0)
        cr_skip_test("localhost has no address here");
    cr_assert_eq(getnameinfo(found->ai_addr, found->ai_addrlen, address, sizeof address, NULL, 0,
                             NI_NUMERICHOST),
                 0);
    freeaddrinfo(found);
    expect_echo_through(address, "localhost");
}
