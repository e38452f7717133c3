/*
 * The connection without a server round it: bytes that are given to it, its runs, and output from
 * many threads.
 */
#include "common/apps/application.h"
#include "common/apps/handler_element.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/bytes/input_queue_more.h"
#include "common/bytes/shared_message.h"
#include "common/server/channel_calls.h"
#include "common/server/connection.h"
#include "common/server/connection_feed.h"
#include "common/server/connection_find.h"
#include "common/server/connection_shared.h"
#include "helpers.h"
#include "noting.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <regex.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

TestSuite(connection, .timeout = 120);
TestSuite(connection_shared, .timeout = 120);

/* ---- a connection of an echo server ---- */

struct bench {
    struct server server;
    struct input_handler_factory *echo;
    struct connection connection;
    int ends[2]; /* of the stream that it is on, if a test asks for no other: the peer's is ends[1]
                  */
};

extern const struct application echo_application;

/* Everything but the connection; returns a handler for it. */
static struct input_handler *bench_prepare(struct bench *bench)
{
    struct server *server = &bench->server;
    memset(bench, 0, sizeof(*bench));
    bare_server_init(server, 1 << 24);
    service_init(&server->service);
    server->service.cost_every = 1;
    bench->echo = application_open(&echo_application, server);
    return bench->echo->create(bench->echo, NULL);
}

static void bench_begin(struct bench *bench, int fd, struct input_handler *handler)
{
    struct server *server = &bench->server;
    connection_open(&bench->connection, &server->home, fd, handler);
    connection_advance(&bench->connection, LIFE_STARTED);
}

static void bench_open(struct bench *bench, int fd)
{
    bench_begin(bench, fd, bench_prepare(bench));
}

static void bench_close(struct bench *bench)
{
    connection_detach(&bench->connection);
    application_close(&echo_application, bench->echo);
    service_destroy(&bench->server.service);
    cr_assert_eq(buffer_factory_out(&bench->server.buffers), 0);
    buffer_factory_destroy(&bench->server.buffers);
}

static void expect_end(struct bench *bench, enum end_reason reason)
{
    enum end_reason ended = channel_end_reason(&bench->connection.facade);
    cr_assert_eq(ended, reason, "it ended because: %s", end_reason_text(ended));
}

static void pair_bench_open(struct bench *bench)
{
    int ends[2];
    pair_open(ends);
    bench_open(bench, ends[0]);
    memcpy(bench->ends, ends, sizeof(ends));
    expect_end(bench, END_NONE);
}

static void pair_bench_close(struct bench *bench)
{
    bench_close(bench);
    pair_close(bench->ends);
}

static void end_bench_close(struct bench *bench, enum end_reason reason)
{
    pair_bench_close(bench);
    expect_end(bench, reason);
}

/* A test of a connection whose peer is bench->ends[1]. */
#define PairTest(suite, name)                                                                      \
    TestWith(suite, name, struct bench, bench, pair_bench_open(bench), pair_bench_close(bench))

/* The same, and in the end the connection has ended for that reason. */
#define EndTest(suite, name, reason)                                                               \
    TestWith(suite, name, struct bench, bench, pair_bench_open(bench),                             \
             end_bench_close(bench, reason))

static bool give(struct bench *bench, const char *text)
{
    return connection_feed(&bench->connection, (const unsigned char *)text, strlen(text));
}

static unsigned run(struct bench *bench)
{
    struct run turn = {0};
    connection_handle(&bench->connection, &turn, HANDLE_MESSAGES);
    connection_send(&bench->connection, &turn);
    return connection_wants(&bench->connection);
}

static void expect(int fd, const char *text)
{
    char got[1000] = "";
    size_t length = take_now(fd, got, sizeof(got) - 1);
    cr_assert_eq(length, strlen(text), "'%s', not '%s'", got, text);
    cr_assert_eq(memcmp(got, text, length), 0, "'%s', not '%s'", got, text);
}

/* It gets a line, and its peer the answer. */
static void echo(struct bench *bench)
{
    cr_assert(give(bench, "hello\n"));
    run(bench);
    expect(bench->ends[1], "hello\n");
}

PairTest(connection, bytes_can_be_given_to_it_in_pieces)
{
    cr_assert(give(bench, "hel"));
    cr_assert_eq(run(bench), SELECT_READ);
    expect(bench->ends[1], "");
    cr_assert(give(bench, "lo\nwor"));
    cr_assert_eq(run(bench), SELECT_READ);
    expect(bench->ends[1], "hello\n");
    put(bench->ends[1], "ld\n", 3); /* and the rest comes by the socket */
    connection_receive(&bench->connection);
    cr_assert_eq(run(bench), SELECT_READ);
    expect(bench->ends[1], "world\n");
}

PairTest(connection, no_bytes_given_are_the_end_of_the_stream)
{
    cr_assert(give(bench, "last\nand a part of a line"));
    cr_assert(give(bench, ""));
    cr_assert_eq(run(bench), CONNECTION_OVER);
    expect(bench->ends[1], "last\n");
    cr_assert_eq(bench->connection.life, LIFE_STOPPED);
}

PairTest(connection, it_lingers_until_no_bytes_are_given)
{
    connection_ask(&bench->connection, ASK_CLOSE, 0);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(bench->connection.phase, CONNECTION_LINGERING);
    cr_assert(give(bench, "too late\n"));
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert(give(bench, ""));
    cr_assert_eq(run(bench), CONNECTION_OVER);
}

/* Its peer may read nothing before it has sent all. */
PairTest(connection, what_comes_while_output_drains_is_dropped_until_no_bytes_are_given)
{
    fill_up(bench->ends[0]);
    cr_assert(give(bench, "an answer that waits\n"));
    cr_assert_eq(run(bench), SELECT_READ | SELECT_WRITE);
    connection_ask(&bench->connection, ASK_CLOSE, 0);
    cr_assert_eq(run(bench), SELECT_READ | SELECT_WRITE);
    cr_assert_eq(bench->connection.phase, CONNECTION_DRAINING);
    cr_assert(give(bench, "too late\n"));
    cr_assert_eq(run(bench), SELECT_READ | SELECT_WRITE);
    cr_assert(give(bench, ""));
    cr_assert_eq(run(bench), SELECT_WRITE);
}

PairTest(connection, more_than_there_is_room_for_is_not_taken_at_all)
{
    char long_line[200];
    memset(long_line, 'x', sizeof(long_line) - 1);
    long_line[sizeof(long_line) - 1] = '\0';
    cr_assert_not(give(bench, long_line));
    cr_assert(give(bench, "short\n"));
    cr_assert_eq(run(bench), SELECT_READ);
    expect(bench->ends[1], "short\n");
}

PairTest(connection, a_message_that_was_found_waits_for_the_thread_that_handles_it)
{
    struct run turn = {0};
    struct connection_message found;
    cr_assert_not(connection_find(&bench->connection, &found));
    give(bench, "one\ntwo\n");
    cr_assert(connection_find(&bench->connection, &found));
    turn.found = &found;
    connection_handle(&bench->connection, &turn, HANDLE_MESSAGES);
    connection_send(&bench->connection, &turn);
    expect(bench->ends[1], "one\ntwo\n");
}

PairTest(connection, a_message_that_is_refused_or_dropped_is_one_message)
{
    struct run turn = {0};
    give(bench, "one\ntwo\nthree\n");
    connection_handle(&bench->connection, &turn, REFUSE_MESSAGE);
    connection_send(&bench->connection, &turn);
    expect(bench->ends[1], "ERR server busy\n");
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    connection_handle(&bench->connection, &turn, DROP_MESSAGE);
    connection_send(&bench->connection, &turn);
    cr_assert_eq(run(bench), SELECT_READ);
    expect(bench->ends[1], "three\n");
}

PairTest(connection, its_deadline_is_that_of_its_first_clock)
{
    int64_t now = clock_ms();
    cr_assert_eq(connection_deadline(&bench->connection, now), INT64_MAX);
    bench->server.settings.deadlines.idle = 60000;
    bench->server.settings.deadlines.request = 1000;
    cr_assert_gt(connection_deadline(&bench->connection, now), now + 50000);
    give(bench, "a part of a line");
    run(bench);
    cr_assert_leq(connection_deadline(&bench->connection, now), clock_ms() + 1000);
    cr_assert_not(connection_expire(&bench->connection, now));
    cr_assert(connection_expire(&bench->connection, clock_ms() + 1000));
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    cr_assert_eq(run(bench), CONNECTION_OVER);
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_TIMED_OUT), 1);
}

/* ---- why it ends ---- */

EndTest(connection, it_ends_because_the_peer_closes, END_PEER_CLOSED)
{
    put(bench->ends[1], "hello\n", 6);
    connection_receive(&bench->connection);
    run(bench);
    expect_end(bench, END_NONE);
    shutdown(bench->ends[1], SHUT_WR);
    connection_receive(&bench->connection);
    expect_end(bench, END_PEER_CLOSED);
    channel_close(&bench->connection.facade);
    run(bench);
}

/* All that it had to say we have heard: what is lost is only ours, and that is another matter. */
Test(connection, a_peer_that_has_closed_and_does_not_want_the_rest_has_closed)
{
    enum { MUCH = 1 << 20 };
    char *much = mapped(MUCH);
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    pair_bench_open(&bench);
    channel_enqueue(&bench.connection.facade, piece_bytes(much, MUCH));
    shutdown(bench.ends[1], SHUT_WR);
    connection_receive(&bench.connection);
    channel_close(&bench.connection.facade);
    run(&bench);
    cr_assert_eq(bench.connection.phase, CONNECTION_DRAINING);
    close(bench.ends[1]);
    cr_assert_eq(run(&bench), CONNECTION_OVER);
    bench_close(&bench);
    expect_end(&bench, END_PEER_CLOSED);
    close(bench.ends[0]);
}

EndTest(connection, it_ends_because_the_application_closes, END_CLOSED)
{
    channel_close(&bench->connection.facade);
    run(bench);
}

EndTest(connection, it_ends_because_a_message_is_too_long, END_TOO_LONG)
{
    char line[103];
    memset(line, 'x', sizeof(line));
    put(bench->ends[1], line, sizeof(line) - 1);
    connection_receive(&bench->connection);
    run(bench);
}

Test(connection, it_ends_because_it_is_lost)
{
    struct bench bench;
    struct sockaddr_in address;
    int listener = tcp_listen(&address);
    int client = tcp_connect(&address);
    int fd = accept(listener, NULL, NULL);
    struct linger now = {.l_onoff = 1};
    bench_open(&bench, fd);
    setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(client); /* a reset */
    connection_receive(&bench.connection);
    run(&bench);
    expect_end(&bench, END_PEER_LOST);
    struct endpoint peer;
    channel_peer(&bench.connection.facade, &peer);
    cr_assert_eq(((struct sockaddr_in *)&peer.address)->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    bench_close(&bench);
    close(fd);
    close(listener);
}

Test(connection, it_ends_because_a_write_fails)
{
    struct bench bench;
    signal(SIGPIPE, SIG_IGN);
    pair_bench_open(&bench);
    close(bench.ends[1]);
    give(&bench, "hello\n");
    run(&bench);
    bench_close(&bench);
    expect_end(&bench, END_PEER_LOST);
    close(bench.ends[0]);
}

Test(connection, it_ends_because_a_time_is_over)
{
    static const enum end_reason reasons[] = {END_IDLE, END_REQUEST, END_LIFETIME};
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct bench bench;
        pair_bench_open(&bench);
        struct deadline_limits *limits = &bench.server.settings.deadlines;
        if (reasons[i] == END_REQUEST)
            give(&bench, "begun");
        run(&bench);
        *(i == 0 ? &limits->idle : i == 1 ? &limits->request : &limits->lifetime) = 1;
        cr_assert(connection_expire(&bench.connection, clock_ms() + 10));
        run(&bench);
        end_bench_close(&bench, reasons[i]);
    }
}

/* What it gets then finds the output ended. That is no loss: what was sent before is on its way. */
PairTest(connection, a_linger_outlives_what_others_send)
{
    channel_close(&bench->connection.facade);
    run(bench);
    cr_assert_eq(bench->connection.phase, CONNECTION_LINGERING);
    cr_assert_eq(channel_enqueue(&bench->connection.facade, piece_bytes("late", 4)), OUTPUT_BROKEN);
    run(bench);
    cr_assert_eq(bench->connection.phase, CONNECTION_LINGERING);
}

/* A stage looks at a time that is over until that is acted on: one look has to be enough. */
EndTest(connection, a_linger_is_over_once_even_if_its_end_was_asked_for, END_CLOSED)
{
    struct connection *connection = &bench->connection;
    channel_close(&connection->facade);
    run(bench);
    cr_assert_eq(connection->phase, CONNECTION_LINGERING);
    int64_t over = connection_deadline(connection, clock_ms());
    cr_assert(!connection_expire(connection, over - 1));
    connection_ask(connection, ASK_END, 0);
    cr_assert(connection_expire(connection, over));
    run(bench);
    cr_assert(connection_is_over(connection));
}

/* However long ago it has received or sent something: the linger begins when the output has left.
 */
EndTest(connection, a_linger_begins_at_the_close, END_CLOSED)
{
    struct connection *connection = &bench->connection;
    deadlines_received(&connection->deadlines, clock_ms() - SERVER_LINGER_MS);
    channel_close(&connection->facade);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_not(connection_expire(connection, clock_ms()));
    cr_assert_eq(run(bench), SELECT_READ);
}

/* A reset would destroy it, so the timeouts of other output decide for how long. */
EndTest(connection, a_linger_lasts_until_the_peer_has_got_all, END_CLOSED)
{
    char got[100];
    struct connection *connection = &bench->connection;
    bench->server.settings.deadlines.progress = 60000;
    put(connection->output.fd, "what the peer reads late", 24);
    channel_close(&connection->facade);
    cr_assert_eq(run(bench), SELECT_READ);
    int64_t over = connection_deadline(connection, clock_ms());
    cr_assert_not(connection_expire(connection, over), "the peer has not got it");
    cr_assert_gt(connection_deadline(connection, over), over);
    cr_assert(connection_expire(connection, clock_ms() + 60000), "and does not want it");
    bench->server.settings.deadlines.idle = 5000;
    cr_assert_not(connection_expire(connection, clock_ms() + 4000));
    cr_assert(connection_expire(connection, clock_ms() + 5000));
    take_now(bench->ends[1], got, sizeof(got));
    cr_assert(connection_expire(connection, connection_deadline(connection, over)));
}

/* The peer sends and sends: whenever a timer looks, a worker is running the connection. */
EndTest(connection, a_linger_is_over_even_if_it_never_rests, END_CLOSED)
{
    struct connection *connection = &bench->connection;
    channel_close(&connection->facade);
    cr_assert_eq(run(bench), SELECT_READ);
    deadlines_received(&connection->deadlines, clock_ms() - SERVER_LINGER_MS);
    cr_assert_eq(run(bench), CONNECTION_OVER);
}

EndTest(connection, it_ends_because_too_much_waits, END_CAP)
{
    bench->server.home.output.cap = 10;
    fill_up(bench->ends[0]);
    for (int i = 0; i < 3; i++)
        channel_enqueue(&bench->connection.facade, piece_bytes("0123456789", 10));
    run(bench);
}

EndTest(connection, it_ends_because_the_server_stops, END_SERVER)
{
    connection_ask(&bench->connection, ASK_STOP, 0);
    run(bench);
}

/* ---- the server stops ---- */

static void ask_to_stop(struct bench *bench)
{
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
}

EndTest(connection, at_a_stop_a_new_client_may_say_its_first_message, END_SERVER)
{
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert(give(bench, "the fi"));
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert(give(bench, "rst\n"));
    run(bench);
    expect(bench->ends[1], "the first\n");
    run(bench);
    cr_assert_neq(bench->connection.phase, CONNECTION_OPEN, "it says no second one");
}

EndTest(connection, at_a_stop_a_new_client_has_a_second, END_SERVER)
{
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
    int64_t until = deadlines_born(&bench->connection.deadlines, clock_ms()) + SERVER_GRACE_MS;
    cr_assert_eq(connection_deadline(&bench->connection, clock_ms()), until);
    cr_assert_not(connection_expire(&bench->connection, until - 1));
    bench->connection.deadlines.born -= SERVER_GRACE_MS;
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert_eq(connection_wants(&bench->connection), CONNECTION_RUN);
    run(bench);
    cr_assert_neq(bench->connection.phase, CONNECTION_OPEN);
}

/* What it sends is taken in, for when its handler wants input again. */
EndTest(connection, at_a_stop_a_new_client_is_read_though_its_input_is_suspended, END_SERVER)
{
    channel_suspend(&bench->connection.facade);
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
}

/*
 * It has sent nothing for a while, so that nothing can come to harm. But it may send its next line
 * just before the close, which becomes a reset then: it has heard the end of the stream before.
 */
EndTest(connection, at_a_stop_a_quiet_client_does_not_linger, END_SERVER)
{
    char byte;
    echo(bench);
    deadlines_received(&bench->connection.deadlines, clock_ms() - SERVER_QUIET_MS);
    ask_to_stop(bench);
    cr_assert_eq(run(bench), CONNECTION_OVER);
    cr_assert_eq(recv(bench->ends[1], &byte, 1, MSG_DONTWAIT), 0, "it has not heard of the end");
}

EndTest(connection, at_a_stop_a_client_that_has_just_sent_something_lingers, END_SERVER)
{
    echo(bench);
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(bench->connection.phase, CONNECTION_LINGERING);
    cr_assert_leq(connection_deadline(&bench->connection, clock_ms()),
                  clock_ms() + SERVER_QUIET_MS);
    cr_assert(connection_expire(&bench->connection, clock_ms() + SERVER_QUIET_MS));
    cr_assert_eq(run(bench), CONNECTION_OVER);
}

/*
 * It may be busy with sending, and look for the end of our stream only behind that. A close would
 * answer what it sends until then with a reset.
 */
EndTest(connection, at_a_stop_a_client_that_goes_on_sending_may_look_later, END_SERVER)
{
    echo(bench);
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
    put(bench->ends[1], "what it did not wait with\n", 26);
    cr_assert(connection_receive(&bench->connection));
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_not(connection_expire(&bench->connection, clock_ms() + SERVER_LINGER_MS - 100));
    cr_assert(connection_expire(&bench->connection, clock_ms() + SERVER_LINGER_MS));
    cr_assert_eq(run(bench), CONNECTION_OVER);
}

/* Nor is it quiet if what it has sent has not been read when its last answer has left. */
EndTest(connection, at_a_stop_a_client_with_unread_bytes_is_not_quiet, END_SERVER)
{
    echo(bench);
    deadlines_received(&bench->connection.deadlines, clock_ms() - SERVER_QUIET_MS);
    bench->connection.reads_left = 0;
    put(bench->ends[1], "too late\n", 9);
    ask_to_stop(bench);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(bench->connection.phase, CONNECTION_LINGERING);
}

/* Nothing can be read and nothing handled before there is room for output: that is an event. */
EndTest(connection, at_a_stop_choked_output_is_waited_for, END_SERVER)
{
    bench->server.home.output.low_mark = 5;
    bench->server.home.output.high_mark = 10;
    cr_assert(give(bench, "hello\n"));
    run(bench);
    fill_up(bench->ends[0]);
    channel_enqueue(&bench->connection.facade, piece_bytes("0123456789ab", 12));
    while (give(bench, "x"))
        ;
    run(bench);
    connection_ask(&bench->connection, ASK_STOP, 0);
    cr_assert_eq(connection_wants(&bench->connection), SELECT_WRITE);
    cr_assert_eq(run(bench), SELECT_WRITE);
}

/* ---- lost while it rests ---- */

Test(connection, one_that_is_reset_while_input_is_suspended_ends)
{
    struct bench bench;
    int ends[2];
    tcp_pair_open(ends);
    bench_open(&bench, ends[0]);
    channel_suspend(&bench.connection.facade);
    cr_assert_eq(connection_wants(&bench.connection), SELECT_LOSS);
    put(ends[1], "never handled\n", 14);
    close_with_reset(ends[1]);
    struct pollfd loss = {.fd = ends[0]};
    cr_assert_eq(poll(&loss, 1, test_deadline_ms()), 1);
    cr_assert_eq(run(&bench), CONNECTION_OVER);
    bench_close(&bench);
    expect_end(&bench, END_PEER_LOST);
    close(ends[0]);
}

/* Neither is lost. It is not looked at forever, either: the kernel would report it again and again.
 */
Test(connection, one_that_ends_while_input_is_suspended_goes_on)
{
    struct bench bench;
    int ends[2];
    tcp_pair_open(ends);
    bench_open(&bench, ends[0]);
    channel_suspend(&bench.connection.facade);
    cr_assert_eq(connection_wants(&bench.connection), SELECT_LOSS);
    put(ends[1], "handled\n", 8);
    shutdown(ends[1], SHUT_WR);
    struct pollfd loss = {.fd = ends[0]};
    cr_assert_eq(poll(&loss, 1, 50), 0, "an end of stream is reported like a loss");
    cr_assert_eq(run(&bench), SELECT_LOSS);
    shutdown(ends[0], SHUT_WR);
    cr_assert_eq(poll(&loss, 1, test_deadline_ms()), 1);
    cr_assert_eq(run(&bench), SELECT_NOTHING);
    channel_resume(&bench.connection.facade);
    cr_assert_eq(connection_wants(&bench.connection), SELECT_READ);
    connection_receive(&bench.connection);
    run(&bench);
    cr_assert_eq(counters_get(&bench.server.counters, COUNTER_MESSAGES), 1);
    bench_close(&bench);
    pair_close(ends);
}

/* ---- times while it rests ---- */

static void expect_time_left(struct bench *bench)
{
    int64_t now = clock_ms();
    cr_assert_gt(connection_deadline(&bench->connection, now), now + 500);
}

/* The client has been told nothing, and its bytes are not even read. */
EndTest(connection, suspended_input_is_not_idle, END_IDLE)
{
    bench->server.settings.deadlines.idle = 1000;
    channel_suspend(&bench->connection.facade);
    cr_assert_eq(run(bench), SELECT_LOSS);
    bench->connection.deadlines.active -= 5000;
    cr_assert_not(connection_expire(&bench->connection, clock_ms()));
    expect_time_left(bench);
    bench->connection.deadlines.active -= 900;
    channel_resume(&bench->connection.facade);
    cr_assert_eq(connection_wants(&bench->connection), SELECT_READ);
    expect_time_left(bench);
    cr_assert(connection_expire(&bench->connection, clock_ms() + 1000));
}

EndTest(connection, a_message_has_its_time_while_input_is_not_suspended, END_REQUEST)
{
    bench->server.settings.deadlines.request = 1000;
    cr_assert(give(bench, "half a li"));
    cr_assert_eq(run(bench), SELECT_READ);
    channel_suspend(&bench->connection.facade);
    cr_assert_eq(connection_wants(&bench->connection), SELECT_LOSS);
    bench->connection.deadlines.request -= 5000;
    cr_assert_not(connection_expire(&bench->connection, clock_ms()));
    bench->connection.deadlines.request -= 900;
    channel_resume(&bench->connection.facade);
    cr_assert_eq(connection_wants(&bench->connection), SELECT_READ);
    expect_time_left(bench);
    cr_assert(connection_expire(&bench->connection, clock_ms() + 1000));
}

/* ---- no thread ---- */

/* Nobody has served it, and nobody has asked it to end. */
EndTest(connection, it_ends_because_there_is_no_thread_for_it, END_RESOURCES)
{
}

/* ---- output: flushed, and drained ---- */

PairTest(connection, an_answer_leaves_at_once_if_no_other_can_leave_with_it)
{
    struct run turn = {0};
    cr_assert(give(bench, "alone\n"));
    connection_handle(&bench->connection, &turn, HANDLE_MESSAGES);
    expect(bench->ends[1], "alone\n");
    connection_send(&bench->connection, &turn);
    cr_assert(give(bench, "one\ntwo\n"));
    connection_handle(&bench->connection, &turn, HANDLE_MESSAGES);
    expect(bench->ends[1], "");
    connection_send(&bench->connection, &turn);
    expect(bench->ends[1], "one\ntwo\n");
}

PairTest(connection, what_is_held_back_can_be_flushed)
{
    struct channel_facade *facade = &bench->connection.facade;
    cr_assert_eq(channel_flush(facade), OUTPUT_FLOWING);
    output_chain_cork(&bench->connection.output); /* as in a run */
    channel_enqueue(facade, piece_bytes("one\n", 4));
    expect(bench->ends[1], "");
    cr_assert_eq(channel_flush(facade), OUTPUT_FLOWING);
    expect(bench->ends[1], "one\n");
    channel_enqueue(facade, piece_bytes("two\n", 4));
    expect(bench->ends[1], "");
    connection_send(&bench->connection, &(struct run){.corks = true});
    expect(bench->ends[1], "two\n");
    cr_assert_eq(counters_get(&bench->server.counters, COUNTER_BYTES_OUT), 8);
}

/* The socket of stage 1 does, and the peer does not read. */
PairTest(connection, a_flush_does_not_wait_even_if_the_socket_blocks)
{
    enum { MUCH = 4 << 20 };
    unsigned char *bytes = mapped(MUCH);
    fcntl(bench->ends[0], F_SETFL, fcntl(bench->ends[0], F_GETFL) & ~O_NONBLOCK);
    output_chain_cork(&bench->connection.output);
    channel_enqueue(&bench->connection.facade, piece_bytes(bytes, MUCH));
    channel_flush(&bench->connection.facade);
    cr_assert_gt(output_chain_length(&bench->connection.output), 0);
    cr_assert_lt(output_chain_length(&bench->connection.output), MUCH);
}

static int drains;
static const struct input_handler_verbs *echo_verbs;

static void on_drained(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    drains++;
}

static struct input_handler_verbs draining_verbs;

/* Chokes the connection; the peer has read nothing yet. */
static void choke(struct bench *bench, size_t more)
{
    enum { MOST = 1 << 20 };
    unsigned char *bytes = mapped(MOST);
    bench->server.home.output.high_mark = 1000;
    bench->server.home.output.low_mark = 10;
    fill_up(bench->connection.output.fd);
    cr_assert_leq(more, MOST);
    channel_enqueue(&bench->connection.facade, piece_bytes(bytes, more));
    cr_assert_eq(output_chain_look(&bench->connection.output), OUTPUT_CHOKED);
}

static void read_all(int fd)
{
    static unsigned char bytes[65536];
    while (take_now(fd, bytes, sizeof(bytes)) > 0)
        ;
}

static void drain(struct bench *bench, bool heard)
{
    echo_verbs = bench->connection.handler->verbs;
    draining_verbs = *echo_verbs;
    draining_verbs.drained = heard ? on_drained : NULL;
    bench->connection.handler->verbs = input_handler_complete(&draining_verbs);
    channel_set_handler(&bench->connection.facade, bench->connection.handler);
    choke(bench, 5000);
    cr_assert_eq(run(bench), SELECT_WRITE);
    cr_assert_eq(drains, 0, "it is choked still");
    read_all(bench->ends[1]);
    cr_assert_eq(run(bench), heard ? CONNECTION_RUN : SELECT_READ);
    cr_assert_eq(connection_must_run(&bench->connection), heard, "a policy may give it up");
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(drains, heard);
    choke(bench, 5000); /* choked again before anybody has heard of it: nothing to go on with */
    read_all(bench->ends[1]);
    connection_send(&bench->connection, &(struct run){0});
    choke(bench, 5000);
    run(bench);
    cr_assert_eq(drains, heard, "it was told while it is choked");
    bench->connection.handler->verbs = echo_verbs;
}

PairTest(connection, its_handler_hears_once_that_output_has_drained)
{
    drain(bench, true);
}

PairTest(connection, a_handler_that_does_not_wait_for_output_gets_no_run_for_it)
{
    drain(bench, false);
}

/* It is the client that does not read, so its line has no more time. */
PairTest(connection, half_a_line_has_no_more_time_while_output_is_choked)
{
    struct connection *connection = &bench->connection;
    bench->server.settings.deadlines.request = 1000;
    give(bench, "half a ");
    cr_assert_eq(run(bench), SELECT_READ);
    connection->deadlines.request -= 300;
    int64_t deadline = connection_deadline(connection, clock_ms());
    choke(bench, 5000); /* as others do */
    cr_assert_eq(run(bench), SELECT_WRITE);
    cr_assert_eq(connection_deadline(connection, clock_ms()), deadline, "while it is choked");
    read_all(bench->ends[1]);
    cr_assert_eq(run(bench), CONNECTION_RUN);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(connection_deadline(connection, clock_ms()), deadline, "when it has drained");
    give(bench, "line\n");
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(connection_deadline(connection, clock_ms()), INT64_MAX);
}

static void go_on(struct channel_hold *hold, struct channel_facade *facade)
{
    (void)hold;
    (void)facade;
}

/* Then it is the handler that keeps it waiting, and its time begins when that goes on. */
PairTest(connection, half_a_line_has_all_of_its_time_after_a_hold)
{
    struct connection *connection = &bench->connection;
    struct channel_hold hold = {.went_on = go_on};
    bench->server.settings.deadlines.request = 1000;
    give(bench, "half a ");
    cr_assert_eq(run(bench), SELECT_READ);
    connection->deadlines.request -= 300;
    cr_assert(channel_hold(&connection->facade, &hold));
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_eq(connection_deadline(connection, clock_ms()), INT64_MAX);
    int64_t before = clock_ms();
    channel_go_on(&connection->facade, &hold);
    cr_assert_eq(run(bench), SELECT_READ);
    cr_assert_geq(connection_deadline(connection, clock_ms()), before + 1000);
}

/* ---- timers ---- */

/* What was called, a letter for each. */
static char calls[200];

struct call {
    struct channel_timer timer;
    char letter;
    bool again; /* it is set anew, for at once */
};

static void expect_calls(const char *expected)
{
    cr_assert_str_eq(calls, expected);
    memset(calls, 0, sizeof(calls));
}

static void on_fired(struct channel_timer *timer, struct channel_facade *facade)
{
    struct call *call = container_of(timer, struct call, timer);
    size_t length = strlen(calls);
    cr_assert_lt(length, sizeof(calls) - 1);
    calls[length] = call->letter;
    if (call->again)
        channel_set_timer(facade, timer, 0);
}

static struct call call_of(char letter)
{
    return (struct call){.timer.fired = on_fired, .letter = letter};
}

/* What a stage with a timer keeps: it asks only if there is a mark, and that is early enough. */
static void keep_deadline(struct bench *bench, int64_t *kept)
{
    int64_t now = clock_ms();
    if (bench->connection.marks != 0)
        *kept = connection_deadline(&bench->connection, now);
    cr_assert_leq(*kept, connection_deadline(&bench->connection, now), "it is late");
}

/* As a timer that has fired, which is set again then. */
static void fire_deadline(struct bench *bench, int64_t *kept)
{
    connection_expire(&bench->connection, clock_ms());
    *kept = INT64_MAX;
    keep_deadline(bench, kept);
}

static void read_all_that_waits(struct bench *bench)
{
    char got[10000];
    do
        take_now(bench->ends[1], got, sizeof(got));
    while ((run(bench) & SELECT_WRITE) != 0);
}

PairTest(connection, its_deadline_does_not_come_nearer_without_a_mark)
{
    struct connection *connection = &bench->connection;
    struct call a = call_of('a');
    int64_t kept = INT64_MAX;
    bench->server.settings.deadlines =
        (struct deadline_limits){.idle = 60000, .request = 5000, .progress = 3000};
    give(bench, "hello\n");
    run(bench);
    keep_deadline(bench, &kept);
    cr_assert_eq(connection->marks, 0, "an ordinary line leaves one");
    deadlines_received(&connection->deadlines, clock_ms() - 1000);
    fire_deadline(bench, &kept);
    give(bench, "a part");
    run(bench);
    keep_deadline(bench, &kept);
    give(bench, " and the rest\n");
    run(bench);
    fire_deadline(bench, &kept);
    channel_set_timer(&connection->facade, &a.timer, 500);
    run(bench);
    keep_deadline(bench, &kept);
    channel_cancel_timer(&connection->facade, &a.timer);
    fire_deadline(bench, &kept);
    fill_up(connection->output.fd);
    channel_enqueue(&connection->facade, piece_bytes("waits", 5));
    run(bench);
    keep_deadline(bench, &kept);
    read_all_that_waits(bench);
    fire_deadline(bench, &kept);
    channel_close(&connection->facade);
    run(bench);
    cr_assert_eq(connection->phase, CONNECTION_LINGERING);
    keep_deadline(bench, &kept);
    fire_deadline(bench, &kept);
}

/* Of one that we have asked for, only what is left when nobody needs it has a client's time. */
PairTest(connection, a_deadline_comes_nearer_when_it_drains_with_a_mark)
{
    struct connection *connection = &bench->connection;
    int64_t kept = INT64_MAX;
    bench->server.settings.deadlines.progress = 3000;
    connection->traits |= TRAIT_OUTGOING;
    fill_up(connection->output.fd);
    give(bench, "waits\n");
    run(bench);
    keep_deadline(bench, &kept);
    channel_close(&connection->facade);
    run(bench);
    cr_assert_eq(connection->phase, CONNECTION_DRAINING);
    keep_deadline(bench, &kept);
}

PairTest(connection, a_deadline_comes_nearer_before_a_reset_with_a_mark)
{
    struct connection *connection = &bench->connection;
    int64_t kept = INT64_MAX;
    give(bench, "hello\n");
    run(bench);
    fill_up(connection->output.fd);
    channel_enqueue(&connection->facade, piece_bytes("waits", 5));
    channel_reset(&connection->facade);
    run(bench);
    cr_assert_eq(connection->phase, CONNECTION_DRAINING);
    keep_deadline(bench, &kept);
    read_all_that_waits(bench);
    cr_assert_eq(connection->phase, CONNECTION_RESETTING);
    keep_deadline(bench, &kept);
}

PairTest(connection, a_timer_fires_in_a_run_at_its_moment)
{
    struct connection *connection = &bench->connection;
    struct channel_facade *facade = &connection->facade;
    struct call a = call_of('a'), b = call_of('b'), c = call_of('c');
    int64_t now = clock_ms();
    channel_set_timer(facade, &a.timer, 60000);
    channel_set_timer(facade, &b.timer, 0);
    channel_set_timer(facade, &c.timer, 0);
    channel_cancel_timer(facade, &c.timer);
    cr_assert_leq(connection_deadline(connection, now), clock_ms());
    cr_assert_eq(connection_wants(connection), SELECT_READ, "a wakeup before the time");
    cr_assert(connection_expire(connection, clock_ms()));
    cr_assert_eq(connection_wants(connection), CONNECTION_RUN);
    cr_assert(connection_must_run(connection), "a policy may give it up");
    cr_assert_eq(run(bench), SELECT_READ);
    expect_calls("b");
    int64_t next = connection_deadline(connection, clock_ms());
    cr_assert(next >= now + 60000 && next <= clock_ms() + 60000);
    cr_assert_not(connection_expire(connection, clock_ms()));
}

/* Each time that it is due it is set for the moment after, and a plain one is set no more. */
PairTest(connection, a_timer_that_repeats_does_not_drift)
{
    enum { PERIOD = 1000 };
    struct channel_facade *facade = &bench->connection.facade;
    struct call a = call_of('a');
    channel_repeat_timer(facade, &a.timer, PERIOD);
    int64_t first = a.timer.place.moment;
    a.timer.place.moment = first - PERIOD - 1; /* as if it were that late */
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert_eq(run(bench), SELECT_READ);
    expect_calls("a");
    cr_assert_eq(a.timer.place.moment, first - 1);
    a.timer.place.moment = first - 3 * PERIOD - 1; /* it has missed two moments */
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert_eq(run(bench), SELECT_READ);
    expect_calls("a");
    cr_assert_eq(a.timer.place.moment, first - 1);
    channel_set_timer(facade, &a.timer, 0);
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert_eq(run(bench), SELECT_READ);
    expect_calls("a");
    cr_assert_eq(connection_deadline(&bench->connection, clock_ms()), INT64_MAX);
}

/* A stage that hands messages to workers has to do the same with a timer. */
PairTest(connection, a_timer_is_found_like_a_message)
{
    struct connection_message found;
    struct call a = call_of('a');
    channel_set_timer(&bench->connection.facade, &a.timer, 0);
    cr_assert(connection_expire(&bench->connection, clock_ms()));
    cr_assert(connection_find(&bench->connection, &found));
    expect_calls("");
    connection_handle(&bench->connection, &(struct run){.found = &found}, HANDLE_MESSAGES);
    expect_calls("a");
}

/* With messages waiting, output choked or input suspended. */
PairTest(connection, a_timer_fires_while_input_is_suspended)
{
    struct call a = call_of('a');
    channel_suspend(&bench->connection.facade);
    give(bench, "not handled\n");
    channel_set_timer(&bench->connection.facade, &a.timer, 0);
    run(bench);
    expect_calls("a");
    expect(bench->ends[1], "");
    channel_resume(&bench->connection.facade);
    run(bench);
    expect(bench->ends[1], "not handled\n");
}

PairTest(connection, a_timer_that_sets_itself_again_does_not_hold_the_run)
{
    struct call a = call_of('a');
    a.again = true;
    channel_set_timer(&bench->connection.facade, &a.timer, 0);
    run(bench);
    cr_assert(strlen(calls) >= 1 && strlen(calls) <= 64);
}

PairTest(connection, no_timer_fires_after_the_end)
{
    struct channel_facade *facade = &bench->connection.facade;
    struct call a = call_of('a');
    struct call b = call_of('b');
    channel_set_timer(facade, &a.timer, 0);
    channel_set_timer(facade, &b.timer, 0);
    connection_advance(&bench->connection, LIFE_STOPPED);
    channel_cancel_timer(facade, &a.timer);
    channel_set_timer(facade, &b.timer, 0);
    cr_assert_eq(connection_deadline(&bench->connection, clock_ms()), INT64_MAX);
    expect_calls("");
}

/* ---- the order of calls ---- */

/* A handler with every verb, each of which writes a letter. */
static char order[4000];
static bool goes_on;

static void write_letter(char letter)
{
    size_t length = strlen(order);
    cr_assert_lt(length, sizeof(order) - 1);
    order[length] = letter;
}

static enum framing_result order_next(struct input_handler *self, struct channel_facade *facade,
                                      struct message *message)
{
    (void)self;
    write_letter('n');
    return line_framing_next(channel_input(facade), 1000, message);
}

static void order_post(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
    write_letter('p');
}

static void order_drop(struct channel_post *post)
{
    (void)post;
    write_letter('x');
}

static void order_fired(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    (void)facade;
    write_letter('f');
}

static bool order_handle(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    static struct channel_post post = {.run = order_post, .dropped = order_drop};
    static struct channel_timer timer = {.fired = order_fired};
    static unsigned char much[3000];
    (void)self;
    write_letter('h');
    switch (message.data[0]) {
    case 'p': channel_post(facade, &post); break;
    case 't': channel_set_timer(facade, &timer, 0); break;
    case 'b': channel_enqueue(facade, piece_bytes(much, sizeof(much))); break;
    case 'c': goes_on = true; break;
    case 'f': return false;
    }
    return true;
}

static bool order_continue(struct input_handler *self, struct channel_facade *facade)
{
    bool result = goes_on;
    (void)self;
    (void)facade;
    goes_on = false;
    write_letter('c');
    return result;
}

#define ORDER_CALL(name, letter)                                                                   \
    static void name(struct input_handler *self, struct channel_facade *facade)                    \
    {                                                                                              \
        (void)self;                                                                                \
        (void)facade;                                                                              \
        write_letter(letter);                                                                      \
    }
ORDER_CALL(order_drained, 'd')
ORDER_CALL(order_idle, 'i')
ORDER_CALL(order_timed_out, 'l')
ORDER_CALL(order_starting, '1')
ORDER_CALL(order_started, '2')
ORDER_CALL(order_end_of_input, '3')
ORDER_CALL(order_stopping, '4')
ORDER_CALL(order_stopped, '5')

static void order_refuse(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
    write_letter('r');
}

static struct input_handler_verbs order_verbs = {.next_message = order_next,
                                                 .handle_input = order_handle,
                                                 .refuse_input = order_refuse,
                                                 .continue_output = order_continue,
                                                 .drained = order_drained,
                                                 .timed_out = order_timed_out,
                                                 .idle = order_idle,
                                                 .starting = order_starting,
                                                 .started = order_started,
                                                 .end_of_input = order_end_of_input,
                                                 .stopping = order_stopping,
                                                 .stopped = order_stopped};

/*
 * The grammar that stands at the top of input_handler_calls.h, as a regular expression, for this
 * handler: it is not duplex, and nothing is posted to it within a long answer.
 */
static void expect_grammar(const char *must_have)
{
    static const char grammar[] = "^12(f*d?p*([li]|(c+n[hr]?p*)*))*345x*$";
    regex_t expression;
    cr_assert_eq(regcomp(&expression, grammar, REG_EXTENDED | REG_NOSUB), 0);
    cr_assert_eq(regexec(&expression, order, 0, NULL, 0), 0, "%s", order);
    regfree(&expression);
    for (; *must_have != '\0'; must_have++)
        cr_assert_not_null(strchr(order, *must_have), "no %c: %s", *must_have, order);
}

static void live_in_order(struct bench *bench)
{
    struct run turn = {0};
    static struct input_handler handler;
    handler.verbs = input_handler_complete(&order_verbs);
    pair_bench_open(bench);
    connection_detach(&bench->connection);
    bench->server.home.output.low_mark = 10;
    bench->server.home.output.high_mark = 1000;
    connection_open(&bench->connection, &bench->server.home, bench->ends[0], &handler);
    connection_advance(&bench->connection, LIFE_STARTING);
    give(bench, "one\npost\ntimer\ncontinued\nbig\nand on\n");
    for (int i = 0; i < 10; i++) {
        read_all(bench->ends[1]);
        run(bench);
    }
    give(bench, "refused\n");
    connection_handle(&bench->connection, &turn, REFUSE_MESSAGE);
    connection_send(&bench->connection, &turn);
}

static void end_in_order(struct bench *bench, const char *letters)
{
    pair_bench_close(bench);
    expect_grammar(letters);
}

/* A test of a connection that has had each call, and in the end just these. */
#define OrderTest(suite, name, letters)                                                            \
    TestWith(suite, name, struct bench, bench, live_in_order(bench), end_in_order(bench, letters))

OrderTest(connection, its_calls_come_in_the_order_of_the_grammar, "12fdpcnhr345")
{
    give(bench, "fail\n");
    run(bench);
}

OrderTest(connection, what_was_posted_is_dropped_last, "12fdpcnhr345x")
{
    static struct channel_post post = {.run = order_post, .dropped = order_drop};
    channel_post(&bench->connection.facade, &post);
    connection_ask(&bench->connection, ASK_END, 0);
    run(bench);
}

OrderTest(connection, after_a_deadline_no_message_comes, "12fdpcnhrl345")
{
    give(bench, "begun");
    run(bench);
    bench->server.settings.deadlines.request = 1;
    cr_assert(connection_expire(&bench->connection, clock_ms() + 10));
    give(bench, " and ended\n");
    run(bench);
    cr_assert_not_null(strstr(order, "l3"), "%s", order);
}

/* ---- many threads ---- */

enum {
    THREADS = 8,
    MESSAGES = 500, /* of each thread */
    MOST_CONTENT = 300,
};

/* What stands in front of each message on the wire. */
struct header {
    uint16_t thread;
    uint16_t number;
    uint16_t length; /* of the content that follows */
};

struct sender {
    struct connection *connection;
    unsigned thread;
    unsigned accepted;
    bool broken;
    struct shared_message *messages[MESSAGES]; /* those that were shared */
};

static size_t content_length(unsigned thread, unsigned number)
{
    struct rng rng = rng_from(thread * 10000u + number);
    return rng_below(&rng, MOST_CONTENT);
}

static size_t compose(unsigned thread, unsigned number, unsigned char *data)
{
    size_t length = content_length(thread, number);
    struct header header = {(uint16_t)thread, (uint16_t)number, (uint16_t)length};
    memcpy(data, &header, sizeof(header));
    fill_pattern(data + sizeof(header), length, thread * 10000u + number);
    return sizeof(header) + length;
}

static enum output_result send_one(struct sender *sender, unsigned number)
{
    unsigned char data[sizeof(struct header) + MOST_CONTENT];
    size_t length = compose(sender->thread, number, data);
    if (number % 3 != 0)
        return connection_enqueue(sender->connection, piece_bytes(data, length));
    struct shared_message *message = shared_message_create(length);
    memcpy(message->data, data, length);
    sender->messages[number] = message;
    return connection_enqueue(sender->connection, piece_shared(message));
}

static void *send_all(void *argument)
{
    struct sender *sender = argument;
    for (unsigned number = 0; number < MESSAGES && !sender->broken; number++) {
        enum output_result result = send_one(sender, number);
        sender->broken = result == OUTPUT_BROKEN;
        sender->accepted += !sender->broken;
    }
    return NULL;
}

struct drainer {
    struct connection *connection;
    int fd;
    atomic_bool stop;
};

/* The runner: when the socket can be written, what waits is written. */
static void *drain_all(void *argument)
{
    struct drainer *drainer = argument;
    while (!atomic_load(&drainer->stop)) {
        struct pollfd watched = {.fd = drainer->fd, .events = POLLOUT};
        poll(&watched, 1, 1);
        connection_send(drainer->connection, &(struct run){0});
        if (connection_is_over(drainer->connection))
            return NULL;
    }
    /* One that has held something back counts what others have sent since. */
    connection_send(drainer->connection, &(struct run){.corks = true});
    return NULL;
}

struct crowd {
    struct bench bench;
    struct mutex lock;
    int ends[2];
    struct sender senders[THREADS];
    pthread_t threads[THREADS];
    struct drainer drainer;
    pthread_t drainer_thread;
};

static void lock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_lock(&container_of(connection, struct crowd, bench.connection)->lock);
}

static void unlock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_unlock(&container_of(connection, struct crowd, bench.connection)->lock);
}

static void crowd_start(struct crowd *crowd)
{
    pair_open_small(crowd->ends);
    bench_open(&crowd->bench, crowd->ends[0]);
    struct connection *connection = &crowd->bench.connection;
    static struct connection_sharing sharing = {
        .lock_output = lock_output, .unlock_output = unlock_output, .flush_old = burst_flush_old};
    sharing.verbs = connection->facade.verbs;
    mutex_init(&crowd->lock);
    connection_share(&crowd->bench.server.home, &sharing);
    crowd->drainer = (struct drainer){.connection = connection, .fd = crowd->ends[0]};
    for (unsigned i = 0; i < THREADS; i++) {
        crowd->senders[i] = (struct sender){.connection = connection, .thread = i};
        pthread_create(&crowd->threads[i], NULL, send_all, &crowd->senders[i]);
    }
    pthread_create(&crowd->drainer_thread, NULL, drain_all, &crowd->drainer);
}

/* Joins all, and shows that no message is held by anybody but its sender. */
static void crowd_end(struct crowd *crowd)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(crowd->threads[i], NULL);
    atomic_store(&crowd->drainer.stop, true);
    pthread_join(crowd->drainer_thread, NULL);
    bench_close(&crowd->bench);
    mutex_destroy(&crowd->lock);
    for (int i = 0; i < THREADS; i++) {
        for (int number = 0; number < MESSAGES; number++) {
            struct shared_message *message = crowd->senders[i].messages[number];
            if (message == NULL)
                continue;
            cr_assert_eq(atomic_load(&message->references), 1, "message %d of thread %d", number,
                         i);
            shared_message_release(message);
        }
    }
}

/*
 * Checks the stream: whole messages only, each thread's in order, none twice. `whole` says that the
 * last one must be whole too. How many there are.
 */
static size_t check_stream(const unsigned char *data, size_t length, bool whole)
{
    unsigned next[THREADS] = {0};
    size_t count = 0;
    while (length > 0) {
        unsigned char right[sizeof(struct header) + MOST_CONTENT];
        struct header header;
        if (length < sizeof(header))
            break;
        memcpy(&header, data, sizeof(header));
        cr_assert_lt(header.thread, THREADS, "message %zu", count);
        cr_assert_eq(header.number, next[header.thread], "thread %u: %u, not %u", header.thread,
                     header.number, next[header.thread]);
        size_t size = compose(header.thread, header.number, right);
        if (length < size)
            break;
        cr_assert_eq(memcmp(data, right, size), 0, "message %zu", count);
        next[header.thread]++;
        count++;
        data += size;
        length -= size;
    }
    cr_assert(!whole || length == 0, "the stream ends within a message");
    return count;
}

static size_t stream_length(void)
{
    size_t length = 0;
    for (unsigned thread = 0; thread < THREADS; thread++)
        for (unsigned number = 0; number < MESSAGES; number++)
            length += sizeof(struct header) + content_length(thread, number);
    return length;
}

/* Reads so many bytes, or to the deadline. How many came. */
static size_t receive(int fd, unsigned char *data, size_t length)
{
    double end = test_deadline();
    size_t received = 0;
    while (received < length && test_await(fd, POLLIN, end))
        received += take_now(fd, data + received, length - received);
    return received;
}

Test(connection_shared, case_05_messages_of_many_threads_come_whole_and_each_once)
{
    static struct crowd crowd;
    unsigned char *data = mapped(THREADS * MESSAGES * (sizeof(struct header) + MOST_CONTENT));
    size_t length = stream_length();
    crowd_start(&crowd);
    size_t received = receive(crowd.ends[1], data, length);
    cr_assert_eq(received, length);
    cr_assert_eq(check_stream(data, length, true), THREADS * MESSAGES);
    cr_assert_eq(take_now(crowd.ends[1], data, 1), 0, "and not a byte more");
    crowd_end(&crowd);
    cr_assert_eq(counters_get(&crowd.bench.server.counters, COUNTER_BYTES_OUT), length);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(crowd.senders[i].accepted, MESSAGES);
    pair_close(crowd.ends);
}

/* The peer goes away in the middle: what was accepted was sent or dropped, and nothing is held. */
Test(connection_shared, case_05_messages_to_a_peer_that_goes_away_are_dropped_once)
{
    static struct crowd crowd;
    unsigned char *data = mapped(THREADS * MESSAGES * (sizeof(struct header) + MOST_CONTENT));
    signal(SIGPIPE, SIG_IGN);
    crowd_start(&crowd);
    size_t received = receive(crowd.ends[1], data, stream_length() / 3);
    close(crowd.ends[1]);
    cr_assert_gt(check_stream(data, received, false), 0);
    crowd_end(&crowd);
    close(crowd.ends[0]);
}

/* ---- behind an element that changes the bytes, as TLS would ---- */

enum { KEY = 0x20 };

struct changing_element {
    struct handler_element element; /* first */
    struct input_queue clear;       /* what it has taken out of the channel's queue */
};

static void change(unsigned char *to, const unsigned char *from, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = from[i] ^ KEY;
}

static struct changing_element *changing(struct channel_facade *facade)
{
    return container_of(handler_element_of(facade), struct changing_element, element);
}

static struct input_queue *changing_input(struct channel_facade *facade)
{
    return &changing(facade)->clear;
}

static enum output_result changing_enqueue(struct channel_facade *facade, struct piece piece)
{
    unsigned char text[100];
    cr_assert_eq(piece.kind, PIECE_BYTES);
    change(text, piece.bytes.data, piece.bytes.length);
    return channel_enqueue(changing(facade)->element.outer, piece_bytes(text, piece.bytes.length));
}

static enum framing_result changing_next(struct input_handler *self, struct channel_facade *facade,
                                         struct message *message)
{
    struct changing_element *own = container_of(self, struct changing_element, element.handler);
    struct input_queue *input = channel_input(facade);
    unsigned char text[100];
    size_t length = input_queue_length(input);
    if (length > 0) {
        struct message taken = input_queue_dequeue(input, length);
        change(text, taken.data, length);
        cr_assert(input_queue_append(&own->clear, text, length));
    }
    return handler_element_verbs.next_message(self, facade, message);
}

static bool changing_holds(const struct input_handler *self)
{
    return !input_queue_is_empty(
        &container_of(self, struct changing_element, element.handler)->clear);
}

/* Echo behind it, with all verbs of its own. */
struct changing_bench {
    struct bench bench;
    struct changing_element own;
    struct input_handler_verbs verbs;
    struct channel_facade_verbs facade_verbs;
};

static void changing_open(struct changing_bench *all)
{
    *all = (struct changing_bench){.verbs = handler_element_verbs,
                                   .facade_verbs = handler_element_facade_verbs};
    all->verbs.next_message = changing_next;
    all->verbs.holds_input = changing_holds;
    all->facade_verbs.input = changing_input;
    all->facade_verbs.enqueue = changing_enqueue;
    struct input_handler *echo = bench_prepare(&all->bench);
    input_queue_init(&all->own.clear, &all->bench.server.buffers, 100);
    handler_element_init(&all->own.element, &all->verbs, &all->facade_verbs, echo);
    pair_open(all->bench.ends);
    bench_begin(&all->bench, all->bench.ends[0], &all->own.element.handler);
}

/* The text arrives changed, and is handled. */
static unsigned changing_run(struct changing_bench *all, const char *text)
{
    unsigned char changed[100];
    change(changed, (const unsigned char *)text, strlen(text));
    cr_assert(connection_feed(&all->bench.connection, changed, strlen(text)));
    return run(&all->bench);
}

static void changing_expect(struct changing_bench *all, const char *text)
{
    char changed[100] = "";
    change((unsigned char *)changed, (const unsigned char *)text, strlen(text));
    expect(all->bench.ends[1], changed);
}

static void changing_close(struct changing_bench *all)
{
    input_queue_clear(&all->own.clear);
    pair_bench_close(&all->bench);
}

#define ChangingTest(suite, name)                                                                  \
    TestWith(suite, name, struct changing_bench, all, changing_open(all), changing_close(all))

ChangingTest(connection, an_element_with_a_queue_of_its_own_is_asked_for_every_line_of_a_read)
{
    cr_assert_eq(changing_run(all, "one\ntwo\nthree\n"), SELECT_READ);
    changing_expect(all, "one\ntwo\nthree\n");
}

/* Erratum 20: the time of a request runs although the channel's own queue is empty. */
ChangingTest(connection, half_a_line_in_the_queue_of_an_element_has_a_deadline)
{
    struct connection *connection = &all->bench.connection;
    all->bench.server.settings.deadlines.request = 1000;
    cr_assert_eq(changing_run(all, "whole\n"), SELECT_READ);
    cr_assert_eq(connection_deadline(connection, clock_ms()), INT64_MAX);
    cr_assert_eq(changing_run(all, "ha"), SELECT_READ);
    int64_t deadline = connection_deadline(connection, clock_ms());
    cr_assert_leq(deadline, clock_ms() + 1000);
    cr_assert_eq(changing_run(all, "lf"), SELECT_READ);
    cr_assert_eq(connection_deadline(connection, clock_ms()), deadline, "a byte has put it off");
    cr_assert(connection_expire(connection, deadline));
    cr_assert_eq(run(&all->bench), CONNECTION_OVER);
    cr_assert_eq(counters_get(&all->bench.server.counters, COUNTER_TIMED_OUT), 1);
}

/* Nothing more is going to be handled, so what is left there has no deadline. */
ChangingTest(connection, what_an_element_still_holds_at_the_end_has_none)
{
    struct connection *connection = &all->bench.connection;
    all->bench.server.settings.deadlines.request = 1000;
    changing_run(all, "half");
    channel_close(&connection->facade);
    run(&all->bench);
    cr_assert_eq(connection->phase, CONNECTION_LINGERING);
    cr_assert_eq(connection->deadlines.request, 0);
}
