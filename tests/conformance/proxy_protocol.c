/*
 * Clients that come through a proxy: --proxy-protocol. What goes wrong with a header costs the
 * connection it stands in front of, and no other.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(proxy_protocol, .timeout = 120);

enum {
    FIXED = 16,
    LOCAL = 0x20,
    PROXY = 0x21,
    TCP4 = 0x11,
};

struct header {
    unsigned char data[FIXED + 65535];
    size_t length;
};

/** Another server that is graded here may not know the option. */
static void need_option(void)
{
    if (!server_has_option("--proxy-protocol")) {
        cr_skip_test("the server has no --proxy-protocol");
    }
}

/** A header from 203.0.113.7, port 4711, or with another command, family or length. */
static const struct header *header(unsigned command, unsigned family, size_t rest)
{
    static const unsigned char start[] = {13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10};
    static const unsigned char addresses[] = {203, 0, 113, 7, 127, 0, 0, 1, 18, 103, 0, 80};
    static struct header made;
    memset(&made, 0, sizeof made);
    memcpy(made.data, start, sizeof start);
    made.data[12] = (unsigned char)command;
    made.data[13] = (unsigned char)family;
    made.data[14] = (unsigned char)(rest >> 8);
    made.data[15] = (unsigned char)rest;
    memcpy(made.data + FIXED, addresses, rest < sizeof addresses ? rest : sizeof addresses);
    made.length = FIXED + rest;
    return &made;
}

/** A client that has sent such a header. */
static int come_with(const struct server_process *server, const struct header *made)
{
    int client = client_connect(server);
    client_send(client, made->data, made->length);
    return client;
}

static int come(const struct server_process *server)
{
    return come_with(server, header(PROXY, TCP4, 12));
}

/** A test with `server`, a pointer, if it has the option: it is started with these. */
#define ProxyTest(suite, name, options)                                                            \
    TestWith(suite, name, struct server_process, server,                                           \
             (need_option(), *server = server_start(options)), server_close_all(server))

ProxyTest(proxy_protocol, a_client_behind_a_proxy_is_served,
          "--proxy-protocol 10.0.0.0/8,127.0.0.1")
{
    int client = come(server);
    client_echo(client, "one\n");
    client_echo(client, "two\n");
    int local = come_with(server, header(LOCAL, 0, 0));
    client_echo(local, "the proxy's own\n");
    int longest = come_with(server, header(PROXY, TCP4, 4096 - FIXED));
    client_echo(longest, "with all that a proxy knows\n");
    client_half_close(client);
    client_expect_end(client);
}

/** The header, and lines behind it, in all kinds of pieces. */
ProxyTest(proxy_protocol, a_header_may_come_in_pieces_and_lines_with_it,
          "--proxy-protocol 127.0.0.1")
{
    const struct header *made = header(PROXY, TCP4, 12 + 20);
    unsigned char all[FIXED + 32 + 12];
    memcpy(all, made->data, made->length);
    for (size_t i = 0; i < 12; i++) {
        all[made->length + i] = (unsigned char)"hello\nworld\n"[i];
    }
    for (size_t step = 1; step <= sizeof all; step += step < 20 ? 3 : 13) {
        int client = client_connect(server);
        for (size_t i = 0; i < sizeof all; i += step) {
            client_send(client, all + i, sizeof all - i < step ? sizeof all - i : step);
            client_await_delivered(client);
        }
        client_expect_text(client, "hello\nworld\n");
        client_close(client);
    }
}

/** All lines of ten thousand that come right behind the header. */
ProxyTest(proxy_protocol, nothing_behind_a_header_is_lost, "--proxy-protocol 127.0.0.1")
{
    size_t length;
    char *lines = lines_numbered("behind the header", 10000, &length);
    int client = come(server);
    client_exchange(client, lines, length, lines, length);
    client_half_close(client);
    client_expect_end(client);
    free(lines);
}

ProxyTest(proxy_protocol, a_stranger_is_closed_without_a_byte, "--proxy-protocol 127.0.0.1 --stats")
{
    int witness = come(server);
    client_echo(witness, "I came with a proxy\n");
    for (int i = 2; i < 12; i++) {
        int client = client_connect_with(server, (struct client_buffers){.source = i});
        const struct header *made = header(PROXY, TCP4, 12);
        double end = test_deadline();
        client_try_send(client, made->data, made->length, end);
        client_expect_gone(client);
        client_close(client);
    }
    client_echo(witness, "and am still served\n");
    server_await_counter(server, "rejected", 10);
    char errors[4096];
    server_errors(server, errors, sizeof errors);
    cr_assert(strstr(errors, "--proxy-protocol does not name it"), "%s", errors);
}

/** A place is for those who may come: a stranger neither takes one nor hears that there is none. */
ProxyTest(proxy_protocol, a_stranger_takes_no_place,
          "--proxy-protocol 127.0.0.1 --max-connections 1 --stats")
{
    int stranger = client_connect_with(server, (struct client_buffers){.source = 9});
    client_expect_gone(stranger);
    int first = come(server);
    client_echo(first, "I have the place\n");
    int other = client_connect_with(server, (struct client_buffers){.source = 9});
    client_expect_gone(other);
}

Test(proxy_protocol, a_wrong_header_costs_its_sender_only)
{
    need_option();
    static const struct {
        unsigned command;
        unsigned family;
        size_t rest;
        const char *fault;
    } wrong[] = {
        {PROXY, TCP4, 11, "too short for its addresses"},
        {PROXY, 0x21, 35, "too short for its addresses"},
        {PROXY, 0x31, 216, "another family"},
        {PROXY, 0x12, 12, "another family"},
        {PROXY, 0x00, 0, "another family"},
        {PROXY, 0x71, 12, "another family"},
        {0x22, TCP4, 12, "expected the command"},
        {0x11, TCP4, 12, "expected the command"},
        {PROXY, TCP4, 4096 - FIXED + 1, "longer than 4096 bytes"},
        {LOCAL, 0, 65535, "longer than 4096 bytes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct server_process server = server_start("--proxy-protocol 127.0.0.1");
        int witness = come(&server);
        client_echo(witness, "before\n");
        int client = client_connect(&server);
        const struct header *made = header(wrong[i].command, wrong[i].family, wrong[i].rest);
        double end = test_deadline();
        client_try_send(client, made->data, made->length, end);
        client_expect_gone(client);
        client_echo(witness, "and after\n");
        char errors[4096];
        server_errors(&server, errors, sizeof errors);
        cr_assert(strstr(errors, wrong[i].fault), "header %zu: %s", i, errors);
        client_close(client);
        client_close(witness);
        server_stop(&server);
    }
}

ProxyTest(proxy_protocol, a_client_without_a_header_is_closed, "--proxy-protocol 127.0.0.1")
{
    int client = client_connect(server);
    client_send_text(client, "h"); /* the first byte shows it */
    client_expect_gone(client);
    client_close(client);
    client = client_connect_send(server, "PROXY TCP4 203.0.113.7 127.0.0.1 4711 80\r\nhello\n");
    client_expect_gone(client);
}

ProxyTest(proxy_protocol, a_header_that_does_not_end_is_closed_on_time,
          "--proxy-protocol 127.0.0.1 --request-timeout 0.5 --idle-timeout 0")
{
    const struct header *made = header(PROXY, TCP4, 12 + 1000);
    static const size_t parts[] = {0, 1, FIXED, FIXED + 12, FIXED + 12 + 999};
    int clients[5];
    double begin = test_now();
    for (int i = 0; i < 5; i++) {
        clients[i] = client_connect(server);
        client_send(clients[i], made->data, parts[i]);
    }
    for (int i = 0; i < 5; i++) {
        client_expect_gone(clients[i]);
        cr_assert_geq(test_now() - begin, 0.45, "closed too soon");
        client_close(clients[i]);
    }
}

/** A byte now and then does not put the moment off. */
ProxyTest(proxy_protocol, a_header_that_trickles_is_closed_on_time,
          "--proxy-protocol 127.0.0.1 --request-timeout 0.5 --idle-timeout 0")
{
    int client = client_connect(server);
    const struct header *made = header(PROXY, TCP4, 12 + 4000);
    double end = test_deadline();
    size_t sent = 0;
    while (sent < made->length && client_try_send(client, made->data + sent, 1, end) == 1) {
        sent++;
        test_pause_ms(20);
    }
    cr_assert_lt(sent, made->length, "%zu bytes, one every 20 ms, were taken", sent);
}

ProxyTest(proxy_protocol, a_client_that_leaves_in_its_header_leaves_nothing,
          "--proxy-protocol 127.0.0.1 --stats")
{
    const struct header *made = header(PROXY, TCP4, 12);
    for (size_t length = 0; length < made->length; length++) {
        int client = client_connect(server);
        client_send(client, made->data, length);
        if (length % 3 == 0) {
            client_reset(client);
        } else {
            client_half_close(client);
            client_expect_gone(client);
            client_close(client);
        }
    }
    server_await_counter(server, "closed", server_counter(server, "accepted"));
}

/** Who it was is known although the connection is over before it is accepted. */
ProxyTest(proxy_protocol, a_client_that_resets_before_it_is_accepted_is_no_stranger,
          "--proxy-protocol 127.0.0.1 --max-connections 1 --overload wait --stats")
{
    int first = come(server);
    client_echo(first, "I have the place\n");
    for (int i = 0; i < 5; i++) {
        client_reset(come(server));
    }
    client_close(first);
    server_await_counter(server, "closed", 6);
    cr_assert_eq(server_counter(server, "rejected"), 0);
}

ProxyTest(proxy_protocol, a_server_that_stops_does_not_wait_for_headers,
          "--proxy-protocol 127.0.0.1 --drain-timeout 60")
{
    int silent = client_connect(server);
    int half = client_connect(server);
    int served = come(server);
    client_send(half, header(PROXY, TCP4, 12)->data, 20);
    client_echo(served, "all three are in\n");
    server_await_counter(server, "accepted", 3);
    server_stop(server);
    client_expect_gone(silent);
    client_expect_gone(half);
}

ProxyTest(proxy_protocol, over_ipv6, "--bind ::1 --proxy-protocol ::1")
{
    int client = come(server);
    client_echo(client, "an IPv4 client behind an IPv6 proxy\n");
}

Test(proxy_protocol, bad_usage)
{
    need_option();
    static const char *const bad[] = {"x", "127.0.0.1,", "10.0.0.0/33", "127.0.0.1:80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct program_result result = program_run("--proxy-protocol %s", bad[i]);
        char expected[512];
        snprintf(expected, sizeof expected,
                 "%s: --proxy-protocol: expected up to 16 addresses or networks with commas "
                 "between them, or none, got '%s'\n",
                 server_name(), bad[i]);
        cr_assert_eq(result.exit_status, 2);
        cr_assert_str_eq(result.err, expected);
    }
}

/* ---- HAProxy ---- */

/** Listens on a free port, which haproxy inherits, so that nobody else can have it meanwhile. */
static int listen_somewhere(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(listen(fd, 10), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

/** Runs haproxy between a socket that listens and the server; it dies with the test. */
static pid_t start_haproxy(const struct server_process *server, int fd)
{
    int configuration = memfd_create("haproxy", 0);
    dprintf(configuration,
            "global\n    maxconn 100\n"
            "defaults\n    mode tcp\n    timeout connect 5s\n    timeout client 30s\n"
            "    timeout server 30s\n"
            "frontend front\n    bind fd@%d\n    default_backend back\n"
            "backend back\n    server one 127.0.0.1:%d send-proxy-v2 "
            "proxy-v2-options unique-id,crc32c check inter 100ms\n",
            fd, server->port);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", configuration);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execlp("haproxy", "haproxy", "-q", "-db", "-f", path, (char *)NULL);
        _exit(127);
    }
    close(configuration);
    return child;
}

/** Haproxy says who the client is, with TLVs; and checks the server's health with LOCAL. */
Test(proxy_protocol, haproxy_in_front)
{
    need_option();
    if (system("command -v haproxy >/dev/null 2>&1") != 0) { // NOLINT
        cr_skip_test("haproxy is not installed");
    }
    struct server_process server = server_start("--proxy-protocol 127.0.0.1 --stats");
    struct server_process front = {.family = AF_INET};
    int listening = listen_somewhere(&front.port);
    pid_t haproxy = start_haproxy(&server, listening);
    close(listening);
    int client = client_connect(&front);
    double end = test_deadline();
    bool echoed = client_try_echo(client, "through haproxy\n", end);
    server_await_counter(&server, "accepted", 3); /* those that look whether it lives, too */
    kill(haproxy, SIGTERM);
    waitpid(haproxy, NULL, 0);
    char errors[4096];
    server_errors(&server, errors, sizeof errors);
    cr_assert(echoed, "no line came back; %s", errors);
    cr_assert_null(strstr(errors, "PROXY header"), "%s", errors);
    server_close_all(&server);
}
