/*
 * The header of the PROXY protocol: what each part may be, in whatever pieces it comes; and the
 * connection that begins with one.
 */
#include "common/base/clock.h"
#include "common/server/connection.h"
#include "common/server/connection_feed.h"
#include "common/server/proxy_protocol.h"
#include "helpers.h"
#include "noting.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(proxy_protocol, .timeout = 120);

/* ---- headers ---- */

enum {
    LOCAL = 0x20,
    PROXY = 0x21,
    TCP4 = 0x11,
    TCP6 = 0x21,
    ROOM = 8192,
};

struct bytes {
    unsigned char data[ROOM];
    size_t length;
};

/* A header with so many bytes behind the fixed part; those of addresses are 1, 2, 3 ... */
static struct bytes header(unsigned command, unsigned family, size_t rest)
{
    static const unsigned char signature[] = {13, 10, 13, 10, 0, 13, 10, 81, 85, 73, 84, 10};
    struct bytes bytes = {.length = PROXY_HEADER_FIXED + rest};
    memcpy(bytes.data, signature, sizeof(signature));
    bytes.data[12] = (unsigned char)command;
    bytes.data[13] = (unsigned char)family;
    bytes.data[14] = (unsigned char)(rest >> 8);
    bytes.data[15] = (unsigned char)rest;
    for (size_t i = 0; i < rest && i < 36; i++)
        bytes.data[PROXY_HEADER_FIXED + i] = (unsigned char)(i + 1);
    return bytes;
}

/* Gives it in pieces of `step` bytes. How many bytes were taken before it was done or bad. */
static enum proxy_header_result take(struct proxy_header *parsed, const struct bytes *bytes,
                                     size_t step, size_t *taken)
{
    enum proxy_header_result result = PROXY_HEADER_MORE;
    *parsed = (struct proxy_header){0};
    *taken = 0;
    while (result == PROXY_HEADER_MORE && *taken < bytes->length) {
        size_t piece = bytes->length - *taken < step ? bytes->length - *taken : step;
        size_t used;
        result = proxy_header_take(parsed, bytes->data + *taken, piece, &used);
        *taken += used;
    }
    return result;
}

static void expect_client(const struct bytes *bytes, const char *client, size_t length)
{
    for (size_t step = 1; step <= bytes->length; step++) {
        struct proxy_header parsed;
        char text[ENDPOINT_TEXT_SIZE];
        size_t taken;
        cr_assert_eq(take(&parsed, bytes, step, &taken), PROXY_HEADER_DONE, "in pieces of %zu: %s",
                     step, parsed.fault);
        cr_assert_eq(taken, length, "in pieces of %zu: %zu bytes", step, taken);
        cr_assert_eq(proxy_header_lacks(&parsed), 0);
        cr_assert_not(parsed.is_local);
        endpoint_format(&parsed.client, text);
        cr_assert_str_eq(text, client, "in pieces of %zu", step);
    }
}

static void expect_fault(const struct bytes *bytes, const char *fault, size_t latest)
{
    for (size_t step = 1; step <= bytes->length; step += 7) {
        struct proxy_header parsed;
        size_t taken;
        cr_assert_eq(take(&parsed, bytes, step, &taken), PROXY_HEADER_BAD, "in pieces of %zu",
                     step);
        cr_assert_str_eq(parsed.fault, fault);
        cr_assert(step > 1 || taken == latest, "seen after %zu bytes, not %zu", taken, latest);
    }
}

/* What stands behind the addresses is skipped, and not a byte behind the header is taken. */
Test(proxy_protocol, a_client_over_ipv4_or_ipv6)
{
    static const char over_ipv6[] = "[102:304:506:708:90a:b0c:d0e:f10]:8482";
    struct bytes bytes = header(PROXY, TCP4, 12);
    expect_client(&bytes, "1.2.3.4:2314", 28); /* port 9 * 256 + 10 */
    bytes = header(PROXY, TCP6, 36);
    expect_client(&bytes, over_ipv6, 52);
    bytes = header(PROXY, TCP4, 12 + 300);
    expect_client(&bytes, "1.2.3.4:2314", 16 + 12 + 300);
    bytes = header(PROXY, TCP6, 36 + 1);
    expect_client(&bytes, over_ipv6, 53);
    bytes = header(PROXY, TCP4, 12 + 5);
    memcpy(bytes.data + bytes.length, "hello\n", 6);
    bytes.length += 6;
    expect_client(&bytes, "1.2.3.4:2314", 33);
}

Test(proxy_protocol, a_connection_of_the_proxys_own)
{
    static const unsigned families[] = {0, TCP4, TCP6, 0x31, 0xff};
    for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
        for (size_t rest = 0; rest < 250; rest += 83) {
            struct bytes bytes = header(LOCAL, families[i], rest);
            struct proxy_header parsed;
            size_t taken;
            cr_assert_eq(take(&parsed, &bytes, 5, &taken), PROXY_HEADER_DONE, "%s", parsed.fault);
            cr_assert(parsed.is_local);
            cr_assert_eq(taken, PROXY_HEADER_FIXED + rest);
        }
    }
}

Test(proxy_protocol, the_longest_header_and_one_byte_more)
{
    struct bytes longest = header(PROXY, TCP4, PROXY_HEADER_MAX - PROXY_HEADER_FIXED);
    struct bytes longer = header(PROXY, TCP4, PROXY_HEADER_MAX - PROXY_HEADER_FIXED + 1);
    struct bytes endless = header(LOCAL, 0, 65535 < ROOM - 16 ? 65535 : ROOM - 16);
    struct proxy_header parsed;
    size_t taken;
    cr_assert_eq(take(&parsed, &longest, 1000, &taken), PROXY_HEADER_DONE);
    cr_assert_eq(taken, PROXY_HEADER_MAX);
    expect_fault(&longer, "longer than 4096 bytes", 16);
    expect_fault(&endless, "longer than 4096 bytes", 16);
}

/* Of each byte of the signature: all other values. */
Test(proxy_protocol, other_bytes_are_refused_at_the_first_of_them)
{
    for (size_t i = 0; i < 12; i++) {
        for (unsigned value = 0; value < 256; value++) {
            struct bytes bytes = header(PROXY, TCP4, 12);
            if (bytes.data[i] == value)
                continue;
            bytes.data[i] = (unsigned char)value;
            expect_fault(&bytes, "expected a header of version 2, got other bytes", i + 1);
        }
    }
}

Test(proxy_protocol, every_other_version_and_command_is_refused)
{
    for (unsigned command = 0; command < 256; command++) {
        struct bytes bytes = header(command, TCP4, 12);
        if (command != LOCAL && command != PROXY)
            expect_fault(&bytes, "expected the command PROXY or LOCAL of version 2", 16);
    }
}

/* UNIX sockets, datagrams, an unspecified family: there is no address that limits could count. */
Test(proxy_protocol, every_other_family_is_refused)
{
    for (unsigned family = 0; family < 256; family++) {
        struct bytes bytes = header(PROXY, family, 216);
        if (family != TCP4 && family != TCP6)
            expect_fault(&bytes, "expected TCP over IPv4 or IPv6, got another family", 16);
    }
}

Test(proxy_protocol, addresses_that_are_cut_short_are_refused)
{
    for (size_t rest = 0; rest < 36; rest++) {
        struct bytes four = header(PROXY, TCP4, rest);
        struct bytes six = header(PROXY, TCP6, rest);
        if (rest < 12)
            expect_fault(&four, "too short for its addresses", 16);
        expect_fault(&six, "too short for its addresses", 16);
    }
}

/* ---- a connection ---- */

struct bench {
    struct server server;
    struct input_handler_verbs verbs;
    struct noting listener;
    struct connection connection;
    int ends[2];
};

static void bench_open(struct bench *bench)
{
    struct server *server = &bench->server;
    memset(bench, 0, sizeof(*bench));
    bench->verbs = noting_verbs;
    bench->verbs.end_of_input = NULL;
    bench->listener.handler.verbs = input_handler_complete(&bench->verbs);
    noting_server_init(server);
    server->settings.deadlines.request = 1000;
    tcp_pair_open(bench->ends);
    connection_open(&bench->connection, &server->home, bench->ends[0], &bench->listener.handler);
    connection_advance(&bench->connection, LIFE_STARTING);
}

static unsigned run(struct bench *bench, bool ready)
{
    struct run turn = {0};
    if (ready)
        connection_receive(&bench->connection);
    connection_handle(&bench->connection, &turn, HANDLE_MESSAGES);
    connection_send(&bench->connection, &turn);
    return connection_wants(&bench->connection);
}

static void bench_close(struct bench *bench, const char *calls)
{
    connection_detach(&bench->connection);
    cr_assert_str_eq(bench->listener.calls, calls);
    cr_assert_eq(buffer_factory_out(&bench->server.buffers), 0);
    buffer_factory_destroy(&bench->server.buffers);
    pair_close(bench->ends);
}

/* However it goes wrong, the handler never knew of it, and the peer gets no byte. */
static void expect_unused(struct bench *bench, bool ready)
{
    char got[100];
    cr_assert_eq(run(bench, ready), CONNECTION_OVER);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 0);
    bench_close(bench, "unused");
}

/* A test of a connection that begins with a header, and how it ends. */
#define HeaderTest(suite, name, ends)                                                              \
    TestWith(suite, name, struct bench, bench, bench_open(bench), ends)

HeaderTest(proxy_protocol, the_handler_hears_of_a_connection_when_its_header_has_come,
           bench_close(bench, "starting line stopped"))
{
    struct bytes bytes = header(PROXY, TCP4, 12 + 50);
    char got[100];
    cr_assert_eq(connection_wants(&bench->connection), SELECT_READ);
    for (size_t i = 0; i < bytes.length; i++) {
        cr_assert_str_eq(bench->listener.calls, "", "after %zu bytes", i);
        put(bench->ends[1], bytes.data + i, 1);
        cr_assert_eq(run(bench, true), SELECT_READ);
    }
    cr_assert_str_eq(bench->listener.calls, "starting");
    cr_assert_str_eq(bench->listener.peer, "1.2.3.4:2314");
    put(bench->ends[1], "hello\n", 6);
    cr_assert_eq(run(bench, true), SELECT_READ);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 6);
}

HeaderTest(proxy_protocol, a_local_connection_has_the_sockets_own_peer,
           bench_close(bench, "starting stopped"))
{
    struct bytes bytes = header(LOCAL, 0, 0);
    struct endpoint own;
    char text[ENDPOINT_TEXT_SIZE];
    put(bench->ends[1], bytes.data, bytes.length);
    run(bench, true);
    endpoint_of_peer(&own, bench->ends[0]);
    endpoint_format(&own, text);
    cr_assert_str_eq(bench->listener.peer, text);
}

HeaderTest(proxy_protocol, bytes_that_are_given_may_be_header_and_message,
           bench_close(bench, "starting line stopped"))
{
    struct bytes bytes = header(PROXY, TCP6, 36);
    char got[100];
    memcpy(bytes.data + bytes.length, "hello\n", 6);
    cr_assert(connection_feed(&bench->connection, bytes.data, 20));
    cr_assert(connection_feed(&bench->connection, bytes.data + 20, bytes.length + 6 - 20));
    cr_assert_eq(run(bench, false), SELECT_READ);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 6);
}

HeaderTest(proxy_protocol, a_wrong_header_ends_the_connection, expect_unused(bench, true))
{
    put(bench->ends[1], "hello\n", 6);
}

HeaderTest(proxy_protocol, a_stream_that_ends_in_the_header_ends_the_connection,
           expect_unused(bench, false))
{
    struct bytes bytes = header(PROXY, TCP4, 12);
    put(bench->ends[1], bytes.data, 20);
    cr_assert_eq(run(bench, true), SELECT_READ);
    cr_assert(connection_feed(&bench->connection, bytes.data, 0));
}

HeaderTest(proxy_protocol, a_header_has_the_time_of_a_request, expect_unused(bench, false))
{
    struct bytes bytes = header(PROXY, TCP4, 12);
    int64_t now = deadlines_born(&bench->connection.deadlines, INT64_C(1) << 30);
    now = connection_deadline(&bench->connection, now) - 1000;
    put(bench->ends[1], bytes.data, 20);
    cr_assert_eq(run(bench, true), SELECT_READ);
    cr_assert_not(connection_expire(&bench->connection, now + 999), "half a header is no message");
    cr_assert(connection_expire(&bench->connection, now + 1000));
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
}

HeaderTest(proxy_protocol, a_server_that_stops_serves_those_whose_header_has_come,
           bench_close(bench, "starting line stopped"))
{
    struct bytes bytes = header(PROXY, TCP4, 12);
    char got[100];
    put(bench->ends[1], bytes.data, bytes.length);
    put(bench->ends[1], "last\n", 5);
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    run(bench, false);
    cr_assert_eq(take_now(bench->ends[1], got, sizeof(got)), 5);
}

HeaderTest(proxy_protocol, a_server_that_stops_waits_for_a_header_as_long_as_for_a_first_message,
           expect_unused(bench, false))
{
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    cr_assert_eq(run(bench, false), SELECT_READ);
    int64_t until = deadlines_born(&bench->connection.deadlines, clock_ms()) + SERVER_GRACE_MS;
    cr_assert_leq(connection_deadline(&bench->connection, clock_ms()), until);
    bench->connection.deadlines.born -= SERVER_GRACE_MS;
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
}

/* A proxy that sends slowly is not idle. */
HeaderTest(proxy_protocol, a_part_of_a_header_is_heard, bench_close(bench, "unused"))
{
    struct bytes bytes = header(PROXY, TCP4, 12);
    bench->server.settings.deadlines = (struct deadline_limits){.idle = 1000};
    bench->connection.deadlines.active -= 900;
    put(bench->ends[1], bytes.data, 20);
    cr_assert_eq(run(bench, true), SELECT_READ);
    int64_t now = clock_ms();
    cr_assert_gt(connection_deadline(&bench->connection, now), now + 500);
}

/* The time that the header took is not taken from the client's first message. */
HeaderTest(proxy_protocol, the_time_of_a_header_ends_with_it,
           bench_close(bench, "starting stopped"))
{
    struct bytes bytes = header(PROXY, TCP4, 12);
    bench->server.settings.deadlines = (struct deadline_limits){.request = 1000};
    bench->connection.deadlines.request -= 900;
    memcpy(bytes.data + bytes.length, "half a li", 9);
    cr_assert(connection_feed(&bench->connection, bytes.data, bytes.length + 9));
    cr_assert_eq(run(bench, false), SELECT_READ);
    int64_t now = clock_ms();
    cr_assert_gt(connection_deadline(&bench->connection, now), now + 500);
}

Test(proxy_protocol, no_memory_for_a_header_ends_the_connection)
{
    struct bench bench;
    if (!memory_can_run_out())
        cr_skip_test("memory cannot run out here");
    bench_open(&bench);
    connection_detach(&bench.connection);
    bench.listener.calls[0] = '\0';
    memory_take_all();
    connection_open(&bench.connection, &bench.server.home, bench.ends[0], &bench.listener.handler);
    memory_give_back();
    cr_assert_eq(connection_wants(&bench.connection), CONNECTION_RUN);
    cr_assert(connection_feed(&bench.connection, (const unsigned char *)"x", 1));
    expect_unused(&bench, true);
}
