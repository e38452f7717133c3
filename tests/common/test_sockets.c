/*
 * Sockets: addresses, listening, accepting, and what happens without a free descriptor.
 */
#include "common/server/sockets.h"
#include "faults.h"
#include "helpers.h"
#include "support/deadline.h"
#include "support/probe.h"
#include "support/with.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

TestSuite(sockets, .timeout = 120);

static const struct log quiet = {.program = "prog", .level = LOG_LEVEL_ERROR};
static const struct log warning = {.program = "prog", .level = LOG_LEVEL_WARN};

/* ---- addresses ---- */

static void expect_text(const char *address, unsigned port, const char *expected)
{
    struct endpoint endpoint;
    char text[ENDPOINT_TEXT_SIZE];
    cr_assert(endpoint_parse(&endpoint, address, port), "%s", address);
    endpoint_format(&endpoint, text);
    cr_assert_str_eq(text, expected);
}

Test(sockets, an_address_is_ipv4_or_ipv6)
{
    expect_text("127.0.0.1", 7002, "127.0.0.1:7002");
    expect_text("0.0.0.0", 0, "0.0.0.0:0");
    expect_text("255.255.255.255", 65535, "255.255.255.255:65535");
    expect_text("::1", 7002, "[::1]:7002");
    expect_text("::", 0, "[::]:0");
    expect_text("0:0:0:0:0:0:0:1", 1, "[::1]:1");
    expect_text("ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255", 65535,
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
    expect_text("::ffff:127.0.0.1", 65535, "[::ffff:127.0.0.1]:65535");
}

/* A connection keeps the short form: what comes out of it has to be what went in. */
static void expect_kept(const struct endpoint *endpoint)
{
    struct short_endpoint kept = endpoint_shorten(endpoint);
    struct endpoint back;
    memset(&back, 0xff, sizeof(back));
    endpoint_of_short(&back, &kept);
    cr_assert_eq(back.length, endpoint->length);
    cr_assert_eq(memcmp(&back.address, &endpoint->address, sizeof(back.address)), 0);
}

Test(sockets, an_address_in_its_short_form_is_the_same_one)
{
    struct endpoint endpoint;
    cr_assert(endpoint_parse(&endpoint, "192.0.2.77", 65535));
    expect_kept(&endpoint);
    cr_assert(endpoint_parse(&endpoint, "fe80::1234:5678", 7002));
    ((struct sockaddr_in6 *)&endpoint.address)->sin6_scope_id = 3;
    expect_kept(&endpoint);
    memset(&endpoint, 0, sizeof(endpoint));
    expect_kept(&endpoint);
}

Test(sockets, anything_else_is_no_address)
{
    static const char *const bad[] = {"",           "localhost",  "127.0.0",    "127.0.0.256",
                                      "1.2.3.4.5",  " 127.0.0.1", "127.0.0.1 ", "127.0.0.1:80",
                                      "[::1]",      ":::1",       "12345::",    "::1::2",
                                      "0x7f.0.0.1", "2130706433", "*"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct endpoint endpoint;
        cr_assert_not(endpoint_parse(&endpoint, bad[i], 80), "\"%s\"", bad[i]);
    }
}

/* Groups that are zero by chance, and some of IPv4: as inet_ntop(3) has them, which a signal
 * handler may not call. */
Test(sockets, an_address_has_the_spelling_that_everybody_uses)
{
    unsigned random = 1;
    for (int i = 0; i < 20000; i++) {
        struct endpoint endpoint = {.length = sizeof(struct sockaddr_in6)};
        struct sockaddr_in6 *address = (struct sockaddr_in6 *)&endpoint.address;
        char expected[ENDPOINT_TEXT_SIZE], text[ENDPOINT_TEXT_SIZE], host[INET6_ADDRSTRLEN];
        unsigned char *bytes = address->sin6_addr.s6_addr;
        address->sin6_family = AF_INET6;
        for (int group = 0; group < 8; group++) {
            random = random * 1103515245 + 12345;
            bytes[2 * group] = (random >> 16 & 3) == 0 ? (unsigned char)(random >> 24) : 0;
            bytes[2 * group + 1] = (random >> 18 & 1) == 0 ? (unsigned char)(random >> 20) : 0;
        }
        if (i % 10 == 0) {
            memset(bytes, 0, 10);
            memset(bytes + 10, 0xff, 2);
        } else if (memcmp(bytes, (char[12]){0}, 12) == 0)
            bytes[0] = 1; /* not all libraries agree on those */
        address->sin6_port = htons((uint16_t)i);
        inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
        snprintf(expected, sizeof(expected), "[%s]:%d", host, i);
        endpoint_format(&endpoint, text);
        cr_assert_str_eq(text, expected);
    }
    expect_text("::", 1, "[::]:1");
    expect_text("::1", 1, "[::1]:1");
    expect_text("1::", 1, "[1::]:1");
    expect_text("1:2:3:4:5:6:7:8", 65535, "[1:2:3:4:5:6:7:8]:65535");
    expect_text("1:0:3:4:5:6:7:0", 1, "[1:0:3:4:5:6:7:0]:1");
    expect_text("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", 65535,
                "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535");
}

/* A connection through that address; false: the machine has no such address. */
static bool connect_pair(const char *address, int ends[2])
{
    struct endpoint place;
    struct listener listener;
    cr_assert(endpoint_parse(&place, address, 0));
    if (listener_open(&listener, &place, 0) != 0)
        return false;
    ends[1] = socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(
        connect(ends[1], (struct sockaddr *)&listener.endpoint.address, listener.endpoint.length),
        0);
    ends[0] = accept4(listener.fd, NULL, NULL, SOCK_CLOEXEC);
    cr_assert_geq(ends[0], 0);
    listener_close(&listener);
    return true;
}

/* A client that resets while a handler takes its time is the one that the log has to name. */
Test(sockets, a_peer_has_an_address_also_when_it_has_reset)
{
    static const char *const places[] = {"127.0.0.1", "::1"};
    for (size_t i = 0; i < 2; i++) {
        int ends[2];
        char text[ENDPOINT_TEXT_SIZE], expected[ENDPOINT_TEXT_SIZE];
        struct endpoint peer, own = {.length = sizeof(own.address)};
        if (!connect_pair(places[i], ends)) {
            cr_assert(i > 0, "no %s", places[i]);
            continue;
        }
        cr_assert_eq(getsockname(ends[1], (struct sockaddr *)&own.address, &own.length), 0);
        endpoint_format(&own, expected);
        endpoint_of_peer(&peer, ends[0]);
        endpoint_format(&peer, text);
        cr_assert_str_eq(text, expected);
        close_with_reset(ends[1]);
        cr_assert(test_await(ends[0], POLLIN, test_deadline()));
        endpoint_of_peer(&peer, ends[0]);
        endpoint_format(&peer, text);
#ifdef SO_PEERNAME
        cr_assert_str_eq(text, expected);
        cr_assert_eq(peer.length, own.length);
#endif
        close(ends[0]);
    }
}

Test(sockets, what_is_no_connection_has_no_peer)
{
    static const struct endpoint nobody;
    char text[ENDPOINT_TEXT_SIZE];
    struct endpoint peer;
    int fds[] = {socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), open("/dev/null", O_RDONLY), -1};
    for (size_t i = 0; i < 3; i++) {
        endpoint_of_peer(&peer, fds[i]);
        cr_assert_eq(memcmp(&peer, &nobody, sizeof(peer)), 0, "descriptor %d", fds[i]);
        endpoint_format(&peer,
                        text); /* what is logged of it is of no interest, but must not crash */
        close(fds[i]);
    }
}

/* ---- in the file system ---- */

static char place[64]; /* a path of this test's own */

static struct endpoint local_place(void)
{
    struct endpoint endpoint;
    char folder[] = "/tmp/test-sockets-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    snprintf(place, sizeof(place), "%s/socket", folder);
    cr_assert(endpoint_parse(&endpoint, place, 80), "%s", place);
    return endpoint;
}

static void remove_place(void)
{
    *strrchr(place, '/') = '\0';
    cr_assert_eq(rmdir(place), 0, "the file has been removed: %s", strerror(errno));
}

Test(sockets, a_path_is_an_address_if_it_is_not_too_long)
{
    char text[ENDPOINT_TEXT_SIZE];
    struct endpoint endpoint;
    char path[200];
    memset(path, '/', sizeof(path));
    path[107] = '\0';
    cr_assert(endpoint_parse(&endpoint, path, 80));
    cr_assert_str_eq(endpoint_path(&endpoint), path);
    endpoint_format(&endpoint, text);
    cr_assert_str_eq(text, "local");
    path[107] = '/';
    path[108] = '\0';
    cr_assert_not(endpoint_parse(&endpoint, path, 80), "it would not end");
    cr_assert_not(endpoint_parse(&endpoint, "tmp/socket", 80));
    cr_assert(endpoint_parse(&endpoint, "127.0.0.1", 80));
    cr_assert_null(endpoint_path(&endpoint));
}

Test(sockets, in_the_file_system_accept_a_client_and_leave_no_file)
{
    struct endpoint endpoint = local_place(), peer;
    struct short_endpoint kept;
    struct listener listener, second;
    char text[ENDPOINT_TEXT_SIZE];
    int accepted;
    struct log log = {.program = "test", .level = LOG_LEVEL_ERROR};
    cr_assert_eq(listener_open(&listener, &endpoint, 0), 0, "%s", strerror(errno));
    cr_assert_str_eq(endpoint_path(&listener.endpoint), place);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(client, (struct sockaddr *)&endpoint.address, endpoint.length), 0);
    cr_assert_eq(listener_accept(&listener, SOCK_NONBLOCK, &log, &accepted), ACCEPT_CONNECTION);
    endpoint_of_peer(&peer, accepted);
    kept = endpoint_shorten(&peer);
    endpoint_of_short(&peer, &kept);
    endpoint_format(&peer, text);
    cr_assert_str_eq(text, "local");
    cr_assert_eq(listener_open(&second, &endpoint, 0), -1, "somebody listens there");
    cr_assert_eq(errno, EADDRINUSE);
    cr_assert_eq(access(place, F_OK), 0, "whose file stays");
    listener_close(&listener);
    listener_close(&listener);
    close(client);
    close(accepted);
    remove_place();
}

Test(sockets, in_the_file_system_take_the_place_of_one_that_was_killed)
{
    struct endpoint endpoint = local_place();
    struct listener listener;
    int killed = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(killed, (struct sockaddr *)&endpoint.address, endpoint.length), 0);
    cr_assert_eq(listen(killed, 1), 0);
    close(killed); /* its file is still there */
    cr_assert_eq(access(place, F_OK), 0);
    cr_assert_eq(listener_open(&listener, &endpoint, 0), 0, "%s", strerror(errno));
    listener_close(&listener);
    remove_place();
}

Test(sockets, in_the_file_system_spare_a_file_that_is_no_socket)
{
    struct endpoint endpoint = local_place();
    struct listener listener;
    int file = open(place, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(file, 0);
    close(file);
    cr_assert_eq(listener_open(&listener, &endpoint, 0), -1);
    cr_assert_eq(errno, EADDRINUSE);
    cr_assert_eq(unlink(place), 0, "it is still there");
    remove_place();
}

/* ---- listening ---- */

static struct endpoint loopback(unsigned port)
{
    struct endpoint endpoint;
    cr_assert(endpoint_parse(&endpoint, "127.0.0.1", port));
    return endpoint;
}

static struct listener listening(void)
{
    struct listener listener;
    struct endpoint endpoint = loopback(0);
    cr_assert_eq(listener_open(&listener, &endpoint, 0), 0, "%s", strerror(errno));
    return listener;
}

/* A test that has `listener`. */
#define ListenerTest(suite, name)                                                                  \
    TestWith(suite, name, struct listener, listener, *listener = listening(),                      \
             listener_close(listener))

static struct sockaddr_in where(const struct listener *listener)
{
    struct sockaddr_in address;
    memcpy(&address, &listener->endpoint.address, sizeof(address));
    return address;
}

static int connect_to(const struct listener *listener)
{
    struct sockaddr_in address = where(listener);
    return tcp_connect(&address);
}

static unsigned port_of(const struct listener *listener)
{
    return ntohs(where(listener).sin_port);
}

/* Whether something is readable in time: bytes, an end, or a connection to accept. */
static bool comes(int fd)
{
    return test_await(fd, POLLIN, test_deadline());
}

/* A client who waits to be accepted. */
static int await_client(const struct listener *listener)
{
    int client = connect_to(listener);
    cr_assert(comes(listener->fd));
    return client;
}

ListenerTest(sockets, port_0_becomes_the_port_it_is)
{
    char text[ENDPOINT_TEXT_SIZE];
    char expected[64];
    cr_assert_gt(port_of(listener), 0);
    endpoint_format(&listener->endpoint, text);
    snprintf(expected, sizeof(expected), "127.0.0.1:%u", port_of(listener));
    cr_assert_str_eq(text, expected);
    close(connect_to(listener));
}

Test(sockets, listens_on_ipv6)
{
    struct endpoint endpoint;
    struct listener listener;
    int fd;
    cr_assert(endpoint_parse(&endpoint, "::1", 0));
    if (listener_open(&listener, &endpoint, 0) != 0) {
        cr_assert(errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT, "%s", strerror(errno));
        cr_skip_test("no IPv6 here");
    }
    int client = socket(AF_INET6, SOCK_STREAM, 0);
    cr_assert_eq(connect(client, (const struct sockaddr *)&listener.endpoint.address,
                         listener.endpoint.length),
                 0);
    cr_assert_eq(listener_accept(&listener, 0, &quiet, &fd), ACCEPT_CONNECTION);
    close(fd);
    close(client);
    listener_close(&listener);
}

ListenerTest(sockets, a_listener_never_waits_and_is_not_inherited)
{
    int fd;
    cr_assert(fcntl(listener->fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(listener->fd, F_GETFD) & FD_CLOEXEC);
    cr_assert(fcntl(listener->reserve, F_GETFD) & FD_CLOEXEC);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_NOTHING);
}

Test(sockets, a_port_in_use_is_an_error_that_leaves_nothing_open)
{
    struct listener first = listening();
    struct listener second;
    struct endpoint same = loopback(port_of(&first));
    long before = probe_descriptors(getpid());
    cr_assert_eq(listener_open(&second, &same, 0), -1);
    cr_assert_eq(errno, EADDRINUSE, "%s", strerror(errno));
    cr_assert_eq(probe_descriptors(getpid()), before);
    listener_close(&first);
}

Test(sockets, an_address_of_another_machine_is_an_error)
{
    struct endpoint endpoint;
    struct listener listener;
    cr_assert(endpoint_parse(&endpoint, "192.0.2.1", 0)); /* kept for documentation: nobody's */
    cr_assert_eq(listener_open(&listener, &endpoint, 0), -1);
    cr_assert_eq(errno, EADDRNOTAVAIL, "%s", strerror(errno));
}

/* A server that is started again must not wait for the connections of its last life. */
ListenerTest(sockets, a_port_with_old_connections_can_be_listened_on_again)
{
    int fd;
    char byte;
    struct endpoint same = loopback(port_of(listener));
    int client = await_client(listener);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_CONNECTION);
    close(fd); /* the side that closes first keeps the port for a while */
    cr_assert(comes(client));
    cr_assert_eq(read(client, &byte, 1), 0);
    close(client);
    listener_close(listener);
    cr_assert_eq(listener_open(listener, &same, 0), 0, "%s", strerror(errno));
}

Test(sockets, closing_twice_is_closing_once)
{
    long before = probe_descriptors(getpid());
    struct listener listener = listening();
    cr_assert_eq(probe_descriptors(getpid()), before + 2);
    listener_close(&listener);
    cr_assert_eq(probe_descriptors(getpid()), before);
    cr_assert_eq(listener.fd, -1);
    listener_close(&listener);
    cr_assert_eq(probe_descriptors(getpid()), before);
}

Test(sockets, who_connects_after_the_close_is_refused)
{
    struct listener listener = listening();
    struct sockaddr_in address = where(&listener);
    listener_close(&listener);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(client, (struct sockaddr *)&address, sizeof(address)), -1);
    cr_assert_eq(errno, ECONNREFUSED);
    close(client);
}

/* ---- accepting ---- */

static int option_of(int fd, int level, int name)
{
    int value = 0;
    socklen_t length = sizeof(value);
    cr_assert_eq(getsockopt(fd, level, name, &value, &length), 0);
    return value;
}

ListenerTest(sockets, a_connection_is_as_it_was_asked_for)
{
    static const int flags[] = {0, SOCK_NONBLOCK};
    for (int i = 0; i < 2; i++) {
        int fd;
        int client = await_client(listener);
        cr_assert_eq(listener_accept(listener, flags[i], &quiet, &fd), ACCEPT_CONNECTION);
        cr_assert_eq((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0, flags[i] == SOCK_NONBLOCK);
        cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        cr_assert_neq(option_of(fd, IPPROTO_TCP, TCP_NODELAY), 0, "replies leave at once");
        close(fd);
        close(client);
    }
}

static int accepted_send_buffer(int send_buffer)
{
    int fd;
    struct listener listener;
    struct endpoint endpoint = loopback(0);
    cr_assert_eq(listener_open(&listener, &endpoint, send_buffer), 0);
    int client = await_client(&listener);
    cr_assert_eq(listener_accept(&listener, 0, &quiet, &fd), ACCEPT_CONNECTION);
    int size = option_of(fd, SOL_SOCKET, SO_SNDBUF);
    close(fd);
    close(client);
    listener_close(&listener);
    return size;
}

Test(sockets, the_size_of_the_send_buffer_is_inherited)
{
    int chosen = accepted_send_buffer(16384);
    cr_assert(chosen >= 16384 && chosen <= 4 * 16384, "%d", chosen);
    cr_assert_gt(accepted_send_buffer(0), 4 * 16384, "the system's choice");
}

ListenerTest(sockets, all_who_wait_are_accepted_one_by_one)
{
    int clients[5];
    int fds[5];
    int none;
    for (int i = 0; i < 5; i++)
        clients[i] = connect_to(listener);
    for (int i = 0; i < 5; i++) {
        cr_assert(comes(listener->fd));
        cr_assert_eq(listener_accept(listener, 0, &quiet, &fds[i]), ACCEPT_CONNECTION);
    }
    cr_assert_eq(listener_accept(listener, 0, &quiet, &none), ACCEPT_NOTHING);
    for (int i = 0; i < 5; i++) {
        close(clients[i]);
        close(fds[i]);
    }
}

static int accept_calls;
static const int *accept_errors; /* what the next calls fail with, ended by 0 */

static int fail_to_accept(int fd, int flags)
{
    accept_calls++;
    if (*accept_errors == 0)
        return real_accept4(fd, flags);
    errno = *accept_errors++;
    return -1;
}

static const int no_descriptor[] = {EMFILE, 0};

static void fail_with(const int *errors)
{
    accept_errors = errors;
    accept_calls = 0;
    faults.accept4 = fail_to_accept;
}

ListenerTest(sockets, case_09_peers_that_gave_up_are_passed_over)
{
    static const int errors[] = {ECONNABORTED, EPROTO,      EINTR,        ECONNABORTED, EINTR,
                                 ENETDOWN,     ENETUNREACH, EHOSTUNREACH, EPERM,        0};
    int fd;
    int client = await_client(listener);
    fail_with(errors);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_CONNECTION);
    cr_assert_eq(accept_calls, 10);
    close(fd);
    accept_errors = errors;
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_NOTHING);
    close(client);
}

/* A filter of the system's refuses a peer and leaves it where it is. */
static int refuse_for_good(int fd, int flags)
{
    (void)fd;
    (void)flags;
    accept_calls++;
    errno = EPERM;
    return -1;
}

ListenerTest(sockets, case_20_an_error_that_stays_is_not_passed_over_forever)
{
    int fd;
    faults.accept4 = refuse_for_good;
    accept_calls = 0;
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_EXHAUSTED);
    cr_assert_leq(accept_calls, 16, "%d calls", accept_calls);
}

ListenerTest(sockets, case_20_a_system_without_means_is_asked_again_later)
{
    static const int kinds[] = {ENOBUFS, ENOMEM, EINVAL};
    for (int i = 0; i < 3; i++) {
        int fd;
        int errors[] = {kinds[i], 0};
        fail_with(errors);
        cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_EXHAUSTED);
        cr_assert_eq(accept_calls, 1, "it does not spin");
    }
    cr_assert_geq(listener->reserve, 0);
}

/* ---- without a descriptor ---- */

/* From now on no descriptor can be had but by closing one. */
static void take_all_descriptors(void)
{
    struct rlimit limit;
    int lowest_free = dup(STDERR_FILENO);
    cr_assert_geq(lowest_free, 0);
    close(lowest_free);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)lowest_free;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void give_descriptors_back(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static void expect_busy(int client)
{
    char text[64];
    cr_assert(comes(client), "the client waits in silence");
    size_t length = take_now(client, text, sizeof(text));
    cr_assert_eq(length, 16, "%zu bytes", length);
    cr_assert_eq(memcmp(text, "ERR server busy\n", 16), 0);
    cr_assert(comes(client));
    cr_assert_eq(read(client, text, 1), 0, "then it ends, and not by a reset");
}

ListenerTest(sockets, erratum_06_case_19_without_a_descriptor_the_peer_gets_an_answer_and_a_close)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    int fd;
    int clients[3];
    for (int i = 0; i < 3; i++)
        clients[i] = await_client(listener);
    take_all_descriptors();
    for (int i = 0; i < 3; i++)
        cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_SHED, "client %d", i);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_NOTHING,
                 "nobody is left who could make the loop spin");
    cr_assert_geq(listener->reserve, 0, "the reserve is there again");
    give_descriptors_back();
    for (int i = 0; i < 3; i++) {
        expect_busy(clients[i]);
        close(clients[i]);
    }
    int late = await_client(listener);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_CONNECTION);
    close(fd);
    close(late);
}

/* The log may be a pipe that nobody reads any more. That must not change what becomes of clients.
 */
ListenerTest(sockets, a_log_that_cannot_be_written_does_not_keep_a_client_waiting)
{
    int fd;
    int ends[2];
    int client = await_client(listener);
    signal(SIGPIPE, SIG_IGN);
    cr_assert_eq(pipe(ends), 0);
    int usual = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    pair_close(ends);
    fail_with(no_descriptor);
    enum accept_result result = listener_accept(listener, 0, &warning, &fd);
    dup2(usual, STDERR_FILENO);
    close(usual);
    cr_assert_eq(result, ACCEPT_SHED, "%d", (int)result);
    expect_busy(client);
    close(client);
}

/* Somebody else was faster and took the descriptor that the reserve had been. When it comes back it
 * is the reserve's: if it were the next client's, those behind that one would wait in silence until
 * somebody leaves. */
ListenerTest(sockets, without_even_the_reserve_it_is_tried_again_later)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    int fd;
    int client = await_client(listener);
    close(listener->reserve);
    listener->reserve = -1;
    int other = dup(STDERR_FILENO);
    take_all_descriptors();
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_EXHAUSTED);
    cr_assert_eq(listener->reserve, -1);
    close(other);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_SHED);
    cr_assert_geq(listener->reserve, 0, "the reserve is there again");
    give_descriptors_back();
    expect_busy(client);
    close(client);
}

/* Another thread opens something whenever a descriptor is free. */
static int accept_behind_another(int fd, int flags)
{
    accept_calls++;
    (void)dup(STDERR_FILENO);
    return real_accept4(fd, flags);
}

/* A loop accepts until nobody waits, so this is what follows each connection that took the last
 * descriptor, while the thread that serves it opens a file. */
ListenerTest(sockets, erratum_06_the_reserve_is_not_given_up_for_nobody)
{
    if (!limits_are_real())
        cr_skip_test("not under valgrind");
    int fd;
    take_all_descriptors();
    faults.accept4 = accept_behind_another;
    accept_calls = 0;
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_NOTHING);
    cr_assert_eq(accept_calls, 1);
    faults.accept4 = NULL;
    give_descriptors_back();
    int client = await_client(listener);
    take_all_descriptors();
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_SHED);
    give_descriptors_back();
    expect_busy(client);
    close(client);
}

/* Nobody has to be waited for then: the next one wakes whoever waits. */
ListenerTest(sockets, a_client_that_another_process_takes_is_nobody)
{
    static const int errors[] = {EMFILE, EAGAIN, 0};
    int fd;
    int client = await_client(listener);
    fail_with(errors);
    cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_NOTHING);
    cr_assert_eq(accept_calls, 2);
    cr_assert_geq(listener->reserve, 0);
    close(client);
}

/* Without a standard input, 0 is a descriptor like any other. -1: it was lost. */
ListenerTest(sockets, whatever_the_reserve_was_it_is_opened_again_as_soon_as_that_is_possible)
{
    for (int reserve = 0; reserve >= -1; reserve--) {
        int fd;
        int client = await_client(listener);
        close(listener->reserve);
        if (reserve == STDIN_FILENO)
            cr_assert_eq(dup2(STDERR_FILENO, STDIN_FILENO), STDIN_FILENO);
        listener->reserve = reserve;
        fail_with(no_descriptor);
        cr_assert_eq(listener_accept(listener, 0, &quiet, &fd), ACCEPT_SHED, "it was %d", reserve);
        cr_assert_geq(listener->reserve, 0, "it was %d", reserve);
        expect_busy(client);
        close(client);
    }
}

ListenerTest(sockets, the_log_of_failed_accepts_is_limited)
{
    static const int errors[] = {ENOMEM, 0};
    char text[4096];
    struct capture capture;
    capture_start(&capture, STDERR_FILENO);
    for (int i = 0; i < 100; i++) {
        int fd;
        fail_with(errors);
        listener_accept(listener, 0, &warning, &fd);
        atomic_store(&listener->limit.next_ms, INT64_MAX); /* the second that never ends */
    }
    capture_stop(&capture, text, sizeof(text));
    cr_assert_not_null(strstr(text, "event=accept_failed reason=\"Cannot allocate memory\""), "%s",
                       text);
    cr_assert_eq(strchr(text, '\n'), text + strlen(text) - 1, "more than one line: %s", text);
    cr_assert_eq(atomic_load(&listener->limit.left_out), 99);
}

/* ---- turning away ---- */

Test(sockets, who_is_turned_away_can_read_why)
{
    int ends[2];
    char text[64];
    tcp_pair_open(ends);
    put(ends[1], "hello, I am talking already\n", 28);
    cr_assert(comes(ends[0]));
    socket_turn_away(ends[0], "ERR server busy, try 127.0.0.1:1\n");
    cr_assert(comes(ends[1]));
    size_t length = take_now(ends[1], text, sizeof(text));
    cr_assert_eq(length, 33);
    cr_assert_eq(memcmp(text, "ERR server busy, try 127.0.0.1:1\n", 33), 0);
    cr_assert(comes(ends[1]));
    cr_assert_eq(read(ends[1], text, 1), 0);
    cr_assert_eq(option_of(ends[1], SOL_SOCKET, SO_ERROR), 0, "unread bytes made it a reset");
    cr_assert_eq(fcntl(ends[0], F_GETFD), -1, "it is closed");
    close(ends[1]);
}

/* No SIGPIPE, even before signals_open(): a signal would end the test. */
Test(sockets, turning_away_a_peer_that_is_gone_is_no_signal)
{
    int ends[2];
    pair_open(ends);
    close(ends[1]);
    socket_turn_away(ends[0], "ERR server busy\n");
    cr_assert_eq(fcntl(ends[0], F_GETFD), -1);
    tcp_pair_open(ends);
    close_with_reset(ends[1]);
    cr_assert(comes(ends[0]));
    socket_turn_away(ends[0], "ERR server busy\n");
    cr_assert_eq(fcntl(ends[0], F_GETFD), -1);
}

Test(sockets, turning_away_never_waits)
{
    int ends[2];
    pair_open_small(ends);
    fill_up(ends[0]);
    cr_assert_eq(fcntl(ends[0], F_SETFL, 0), 0, "a blocking socket, as stage 1 has them");
    socket_turn_away(ends[0], "ERR server busy\n"); /* the suite's time limit is the judge */
    close(ends[1]);
}

Test(sockets, discarding_drops_what_is_there_and_tells_the_end)
{
    int ends[2];
    static char data[100000];
    pair_open(ends);
    cr_assert_eq(socket_discard(ends[0]), DROPPED_NOTHING, "nothing there yet");
    put(ends[1], data, 10000);
    cr_assert_eq(socket_discard(ends[0]), DROPPED_BYTES);
    cr_assert_eq(take_now(ends[0], data, 1), 0, "all of it was dropped");
    put(ends[1], data, sizeof(data));
    shutdown(ends[1], SHUT_WR);
    int calls = 1;
    while (socket_discard(ends[0]) != DROPPED_END && calls < 100)
        calls++;
    cr_assert(calls > 1 && calls < 10, "a little at a time, and then the end: %d calls", calls);
    cr_assert_eq(socket_discard(ends[0]), DROPPED_END);
    pair_close(ends);
}

Test(sockets, discarding_never_waits_and_tells_a_reset_from_nothing)
{
    int ends[2];
    tcp_pair_open(ends);
    cr_assert_eq(fcntl(ends[0], F_SETFL, 0), 0);
    cr_assert_eq(socket_discard(ends[0]), DROPPED_NOTHING, "a blocking socket does not block here");
    close_with_reset(ends[1]);
    cr_assert(comes(ends[0]));
    cr_assert_eq(socket_discard(ends[0]), DROPPED_END);
    close(ends[0]);
}

Test(sockets, writable_is_what_takes_a_write_or_fails_it)
{
    int ends[2];
    tcp_pair_open(ends);
    cr_assert(socket_is_writable(ends[0]));
    fill_up(ends[0]);
    cr_assert_not(socket_is_writable(ends[0]));
    close_with_reset(ends[1]);
    cr_assert(test_await(ends[0], POLLHUP, test_deadline()));
    cr_assert(socket_is_writable(ends[0]));
    close(ends[0]);
}

static double milliseconds(void)
{
    return test_now() * 1000.0;
}

/* Probes and their answers go on while the peer has no room, and are no bytes of ours. */
Test(sockets, a_send_is_as_old_as_the_room_that_the_peer_last_had)
{
    enum { OLD = 300, GRAIN = 20 };
    static char got[65536];
    int ends[2];
    tcp_pair_open(ends);
    fill_up(ends[0]);
    double end = milliseconds() + test_deadline_ms();
    while (socket_send_age(ends[0]) < OLD) {
        cr_assert_lt(milliseconds(), end);
        poll(NULL, 0, 5);
    }
    double old = milliseconds();
    for (int i = 0; i < 32; i++) {
        cr_assert(comes(ends[1]));
        cr_assert_gt(read(ends[1], got, sizeof got), 0);
    }
    double age = socket_send_age(ends[0]);
    cr_assert_leq(age, milliseconds() - old + GRAIN, "%g ms", age);
    close(ends[0]);
    close(ends[1]);
}

Test(sockets, what_is_no_connection_has_no_age)
{
    cr_assert_eq(socket_send_age(-1), 0);
}
