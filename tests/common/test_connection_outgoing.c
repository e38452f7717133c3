/*
 * A connection that we have asked for: what its handler hears, whichever way it goes; and the two
 * halves of one whose handler keeps them apart.
 */
#include "common/base/clock.h"
#include "common/server/connection.h"
#include "common/server/connection_find.h"
#include "common/server/connection_shared.h"
#include "common/server/socket_state.h"
#include "helpers.h"
#include "noting.h"
#include "support/deadline.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(connection_outgoing, .timeout = 120);

struct bench {
    struct server server;
    struct input_handler_verbs verbs;
    struct noting noting;
    struct connection connection;
    int listening;
    int fd;
    int peer;
};

static void bench_init(struct bench *bench)
{
    memset(bench, 0, sizeof(*bench));
    bench->verbs = noting_verbs;
    bench->verbs.timed_out = NULL;
    bench->verbs.duplex = true;
    bench->noting.handler.verbs = input_handler_complete(&bench->verbs);
    bench->peer = -1;
    noting_server_init(&bench->server);
}

/* Begins to connect to a listener, or to where there was one. */
static void bench_open(struct bench *bench, bool listens)
{
    struct sockaddr_in address;
    struct endpoint to = {.length = sizeof(address)};
    bench_init(bench);
    bench->listening = tcp_listen(&address);
    if (!listens)
        close(bench->listening);
    memcpy(&to.address, &address, sizeof(address));
    bench->fd = socket_connect(&to, 0);
    cr_assert_geq(bench->fd, 0, "%s", strerror(errno));
    connection_open_outgoing(&bench->connection, &bench->server.home, bench->fd, &to, 1000,
                             &bench->noting.handler);
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

static void await_writable(const struct bench *bench)
{
    cr_assert(test_await(bench->fd, POLLOUT, test_deadline()));
}

static void bench_connect(struct bench *bench)
{
    bench_open(bench, true);
    cr_assert_eq(connection_wants(&bench->connection), SELECT_WRITE);
    await_writable(bench);
    cr_assert_eq(run(bench, false), SELECT_READ);
    cr_assert_str_eq(bench->noting.calls, "starting");
    cr_assert(test_await(bench->listening, POLLIN, test_deadline()));
    bench->peer = accept(bench->listening, NULL, NULL);
}

static void bench_close(struct bench *bench, const char *calls)
{
    close(connection_detach(&bench->connection));
    cr_assert_str_eq(bench->noting.calls, calls);
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_ACCEPTED), 0);
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_CONNECTS), 1);
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_CLOSED), 1);
    cr_assert_eq(buffer_factory_out(&bench->server.buffers), 0);
    buffer_factory_destroy(&bench->server.buffers);
    if (bench->peer >= 0)
        close(bench->peer);
}

/* A test of a connection that `opens` makes, and whose handler heard of these calls in the end. */
#define OutgoingTest(suite, name, opens, calls)                                                    \
    TestWith(suite, name, struct bench, bench, opens, bench_close(bench, calls))

Test(connection_outgoing, one_that_has_connected_is_like_any_other)
{
    struct bench bench;
    char got[100];
    bench_connect(&bench);
    cr_assert_eq(send(bench.peer, "hello\n", 6, 0), 6);
    cr_assert(test_await(bench.fd, POLLIN, test_deadline()));
    cr_assert_eq(run(&bench, true), SELECT_READ);
    cr_assert_eq(recv(bench.peer, got, sizeof(got), 0), 6);
    close(bench.listening);
    bench_close(&bench, "starting line end_of_input stopped");
    cr_assert_eq(counters_get(&bench.server.counters, COUNTER_CONNECTS_FAILED), 0);
}

Test(connection_outgoing, one_that_is_refused_tells_its_handler_why)
{
    struct bench bench;
    bench_open(&bench, false);
    await_writable(&bench);
    cr_assert_eq(run(&bench, false), CONNECTION_OVER);
    cr_assert_eq(bench.noting.error, ECONNREFUSED);
    bench_close(&bench, "not_connected");
    cr_assert_eq(counters_get(&bench.server.counters, COUNTER_CONNECTS_FAILED), 1);
}

/* It is no client: how long one may be silent or stay does not hold for it, nor what is dropped. */
OutgoingTest(connection_outgoing, what_is_demanded_of_clients_does_not_hold_for_it,
             bench_connect(bench), "starting end_of_input stopped")
{
    enum { HOUR = 3600 * 1000 };
    bench->server.settings.deadlines = (struct deadline_limits){.idle = 10, .lifetime = 10};
    bench->server.outgoing = (struct deadline_limits){.progress = HOUR};
    int64_t now = clock_ms();
    cr_assert_gt(connection_deadline(&bench->connection, now), now + HOUR);
    cr_assert_not(connection_expire(&bench->connection, now + HOUR));
    cr_assert_eq(connection_wants(&bench->connection), SELECT_READ);
    cr_assert(connection_must_run(&bench->connection), "its messages are not refused");
    close(bench->listening);
}

/* ---- One that gets no answer ---- */

/* A socket that connects to a listener whose backlog is full: the system tries, and waits. */
static void bench_open_silent(struct bench *bench)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    struct endpoint to = {.length = length};
    bench_init(bench);
    bench->listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    cr_assert_eq(bind(bench->listening, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(listen(bench->listening, 0), 0);
    cr_assert_eq(getsockname(bench->listening, (struct sockaddr *)&address, &length), 0);
    memcpy(&to.address, &address, sizeof(address));
    do
        bench->fd = socket_connect(&to, 0); /* those before it stay with the process */
    while (test_await(bench->fd, POLLOUT, test_now() + 0.1));
    connection_open_outgoing(&bench->connection, &bench->server.home, bench->fd, &to, 1000,
                             &bench->noting.handler);
}

/* SO_ERROR is 0 meanwhile, too. */
Test(connection_outgoing, a_run_that_comes_for_something_else_does_not_take_it_for_connected)
{
    struct bench bench;
    bench_open_silent(&bench);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(run(&bench, false), SELECT_WRITE);
    cr_assert_str_eq(bench.noting.calls, "");
    connection_ask(&bench.connection, ASK_END, 0);
    cr_assert_eq(run(&bench, false), CONNECTION_OVER);
    bench_close(&bench, "not_connected");
}

OutgoingTest(connection_outgoing, it_may_take_its_own_timeout_and_no_other,
             bench_open_silent(bench), "not_connected")
{
    bench->server.settings.deadlines.idle = 10;
    bench->server.settings.deadlines.request = 10;
    int64_t end = connection_deadline(&bench->connection, clock_ms());
    cr_assert_leq(end, clock_ms() + 1000);
    cr_assert_not(connection_expire(&bench->connection, end - 1));
    cr_assert_eq(connection_wants(&bench->connection), SELECT_WRITE);
    cr_assert(connection_expire(&bench->connection, end));
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    cr_assert_eq(run(bench, false), CONNECTION_OVER);
    cr_assert_eq(bench->noting.error, ETIMEDOUT);
}

/* The answer comes when the time is over, and nobody has looked yet: it counts. */
Test(connection_outgoing, an_answer_that_comes_just_in_time_counts)
{
    struct bench bench;
    bench_open(&bench, true);
    await_writable(&bench);
    cr_assert(connection_expire(&bench.connection, clock_ms() + 1000));
    cr_assert_eq(connection_wants(&bench.connection), CONNECTION_RUN);
    cr_assert_eq(run(&bench, false), SELECT_READ);
    cr_assert_str_eq(bench.noting.calls, "starting");
    close(bench.listening);
    bench_close(&bench, "starting end_of_input stopped");
    cr_assert_eq(counters_get(&bench.server.counters, COUNTER_CONNECTS_FAILED), 0);
}

/* However long it took. */
OutgoingTest(connection_outgoing, its_idle_time_begins_when_it_has_connected,
             bench_open(bench, true), "starting end_of_input stopped")
{
    bench->server.outgoing.idle = 1000;
    bench->connection.deadlines.active -= 900;
    await_writable(bench);
    cr_assert_eq(run(bench, false), SELECT_READ);
    int64_t now = clock_ms();
    cr_assert_gt(connection_deadline(&bench->connection, now), now + 500);
}

Test(connection_outgoing, a_server_that_stops_waits_for_an_answer_no_longer_than_for_a_message)
{
    struct bench bench;
    bench_open_silent(&bench);
    connection_ask(&bench.connection, ASK_STOP, 0);
    cr_assert_eq(connection_wants(&bench.connection), CONNECTION_RUN);
    cr_assert_eq(run(&bench, false), SELECT_WRITE);
    int64_t until = deadlines_born(&bench.connection.deadlines, clock_ms()) + SERVER_GRACE_MS;
    cr_assert_leq(connection_deadline(&bench.connection, clock_ms()), until);
    bench.connection.deadlines.born -= SERVER_GRACE_MS;
    bench.connection.connect_timeout = 0;
    cr_assert(connection_expire(&bench.connection, clock_ms()));
    cr_assert_eq(connection_wants(&bench.connection), CONNECTION_RUN);
    cr_assert_eq(run(&bench, false), CONNECTION_OVER);
    cr_assert_eq(bench.noting.error, ECANCELED);
    bench_close(&bench, "not_connected");
}

/* The second is over, but nobody has looked since it came about: what waits for it is not lost. */
OutgoingTest(connection_outgoing, an_answer_that_is_there_when_a_server_stops_counts,
             bench_open(bench, true), "starting end_of_input stopped")
{
    await_writable(bench);
    bench->connection.deadlines.born -= SERVER_GRACE_MS;
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(run(bench, false), SELECT_READ);
    cr_assert_str_eq(bench->noting.calls, "starting");
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_CONNECTS_FAILED), 0);
}

/* ---- Two halves ---- */

static void end_peer(struct bench *bench)
{
    shutdown(bench->peer, SHUT_WR);
    cr_assert(test_await(bench->fd, POLLIN, test_deadline()));
}

OutgoingTest(connection_outgoing, a_duplex_one_stays_open_for_output_after_the_end_of_its_input,
             bench_connect(bench), "starting end_of_input stopped")
{
    char got[100];
    end_peer(bench);
    cr_assert_eq(run(bench, true), SELECT_LOSS);
    cr_assert_str_eq(bench->noting.calls, "starting end_of_input");
    channel_enqueue(&bench->connection.facade, piece_bytes("later\n", 6));
    cr_assert_eq(run(bench, false), SELECT_LOSS);
    cr_assert_eq(recv(bench->peer, got, sizeof(got), 0), 6);
    channel_finish(&bench->connection.facade);
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    cr_assert_eq(run(bench, false), CONNECTION_OVER);
}

OutgoingTest(connection_outgoing, a_finished_output_ends_when_it_has_left_and_input_goes_on,
             bench_connect(bench), "starting end_of_input stopped")
{
    char got[100];
    channel_enqueue(&bench->connection.facade, piece_bytes("last\n", 5));
    channel_finish(&bench->connection.facade);
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    cr_assert_eq(run(bench, false), SELECT_READ);
    cr_assert_eq(recv(bench->peer, got, sizeof(got), MSG_WAITALL), 5);
    cr_assert_eq(recv(bench->peer, got, sizeof(got), 0), 0, "the end of the stream");
    end_peer(bench);
    cr_assert_eq(run(bench, true), CONNECTION_OVER);
}

/* It serves another connection, which ends it. */
OutgoingTest(connection_outgoing, a_duplex_one_goes_on_when_the_server_stops, bench_connect(bench),
             "starting end_of_input stopped")
{
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(run(bench, false), SELECT_READ);
    cr_assert_str_eq(bench->noting.calls, "starting");
    channel_close(&bench->connection.facade);
    end_peer(bench);
    cr_assert_eq(run(bench, false), CONNECTION_OVER);
}

/* ---- A reset ---- */

/* Runs it until it is over: the peer's system may take its time to acknowledge. */
static void run_to_the_end(struct bench *bench)
{
    int64_t end = clock_ms() + test_deadline_ms();
    while (connection_wants(&bench->connection) != CONNECTION_OVER) {
        int64_t now = clock_ms();
        cr_assert_lt(now, end, "it does not end");
        connection_expire(&bench->connection, now);
        run(bench, false);
    }
}

Test(connection_outgoing, a_reset_comes_behind_all_output)
{
    struct bench bench;
    char got[100];
    bench_connect(&bench);
    channel_enqueue(&bench.connection.facade, piece_bytes("last words", 10));
    channel_reset(&bench.connection.facade);
    run_to_the_end(&bench);
    int peer = bench.peer;
    bench.peer = -1;
    close(bench.listening);
    bench_close(&bench, "starting end_of_input stopped");
    cr_assert_eq(recv(peer, got, sizeof(got), 0), 10);
    cr_assert_eq(recv(peer, got, sizeof(got), 0), -1);
    cr_assert_eq(errno, ECONNRESET);
    close(peer);
}

/* What is on its way to a peer that has gone is never acknowledged, and no event says so. */
OutgoingTest(connection_outgoing, a_reset_does_not_wait_for_a_peer_that_has_reset,
             bench_connect(bench), "starting end_of_input stopped")
{
    static const char much[16384];
    const struct linger at_once = {.l_onoff = 1};
    int fd = bench->connection.output.fd;
    int64_t end = clock_ms() + test_deadline_ms();
    while (socket_unacknowledged(fd) < 2 * sizeof(much)) { /* until the peer's system is full */
        cr_assert_lt(clock_ms(), end, "the peer takes everything");
        channel_enqueue(&bench->connection.facade, piece_bytes(much, sizeof(much)));
        run(bench, false);
    }
    channel_reset(&bench->connection.facade);
    cr_assert_neq(run(bench, false), CONNECTION_OVER, "the peer has not got all");
    setsockopt(bench->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(bench->peer);
    bench->peer = -1;
    run_to_the_end(bench);
    close(bench->listening);
}
