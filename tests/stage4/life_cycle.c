/*
 * Ends: each test ends a connection in another way, and asserts that it had one whole life.
 *
 * Erratum 9: in Hitchens' framework `stopped` can be called twice, and a client that never reads
 * keeps a closing connection open forever. Here every connection, however it ends, has one whole
 * life: starting, started, end_of_input, stopping, stopped, each once and in this order. And
 * nothing is left of it afterwards (framework_stop() asserts that).
 */
#include "framework.h"

#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage4_life_cycle, .timeout = 120);

static struct framework framework;
static struct recorder recorder;

/* More than the sockets take, with the buffers of small_sockets(). */
enum { BIG = 2 << 20, SMALL_BUFFER = 65536 };
#define SMALL_SOCKETS " --send-buffer 65536 --output-high-mark 16777216 --output-cap 16777216 "

static void open_with(const char *workers, const char *options)
{
    recorder_init(&recorder);
    framework_start(&framework, "%s %s", workers, options);
    framework.buffers =
        (struct client_buffers){.receive = SMALL_BUFFER, .segment = CLIENT_ETHERNET_SEGMENT};
}

/* A connection with a message behind it. */
static int begin(const char *workers, const char *options)
{
    open_with(workers, options);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    return client;
}

/* It has ended or does so now; then nothing more is heard of it, to the end of the framework. */
static void expect_end(uint64_t timed_out)
{
    framework_await_closed(&framework, 1);
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), timed_out);
    framework_stop(&framework);
}

static void expect_one_life(void)
{
    expect_end(0);
}

/* ---- the peer ends it ---- */

WaysTest(stage4_life_cycle, peer_closes)
{
    client_close(begin(workers, ""));
    expect_one_life();
}

OneClientTest(stage4_life_cycle, peer_half_closes, "")
{
    client_send_text(client, "one\ntwo\nhalf");
    client_half_close(client);
    client_expect_text(client, "one\ntwo\n");
    client_expect_end(client);
    expect_one_life();
}

WaysTest(stage4_life_cycle, peer_resets)
{
    client_reset(begin(workers, ""));
    expect_one_life();
}

OneClientTest(stage4_life_cycle, peer_resets_with_output_waiting, SMALL_SOCKETS)
{
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    recorder_await(&recorder, messages, 2);
    client_reset(client);
    expect_one_life();
}

WaysTest(stage4_life_cycle, peer_resets_before_its_registration)
{
    int fd;
    open_with(workers, "");
    client_reset(framework_accept(&framework, &fd));
    cr_assert(framework_register(&framework, fd, &recorder.handler));
    expect_one_life();
}

/* ---- the handler ends it ---- */

OneClientTest(stage4_life_cycle, handler_fails, "")
{
    client_send_text(client, "fail\nnot handled\n");
    client_expect_gone(client);
    client_half_close(client); /* which is what a linger waits for */
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

OneClientTest(stage4_life_cycle, handler_closes, "")
{
    client_ask(client, "close\nnot handled\n", "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

WaysTest(stage4_life_cycle, handler_closes_while_it_starts)
{
    open_with(workers, "");
    recorder.close_in_starting = true;
    int client = framework_connect(&framework, &recorder.handler);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

OneClientTest(stage4_life_cycle, another_thread_closes, "")
{
    framework_await_asleep(&framework);
    recorder_send(&recorder, "goodbye\n");
    channel_close(recorder_facade(&recorder));
    channel_close(recorder_facade(&recorder));
    client_expect_text(client, "goodbye\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

OneClientTest(stage4_life_cycle, another_thread_unregisters, "")
{
    framework_await_asleep(&framework);
    framework_cut_off(recorder_facade(&recorder));
    framework_cut_off(recorder_facade(&recorder));
    client_expect_gone(client);
    expect_one_life();
}

OneClientTest(stage4_life_cycle, closed_and_unregistered_and_reset_at_once, "")
{
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "close\n");
    test_point_await_held(RUN_BEGINS, 1);
    channel_close(recorder_facade(&recorder));
    framework_cut_off(recorder_facade(&recorder));
    client_reset(client);
    test_point_release(RUN_BEGINS);
    expect_one_life();
}

OneClientTest(stage4_life_cycle, output_above_the_cap,
              "--send-buffer 65536 --output-high-mark 1000 --output-cap 1000")
{
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    recorder_await(&recorder, messages, 2);
    cr_assert_eq(recorder_send(&recorder, "one more\n"), OUTPUT_REFUSED);
    expect_one_life();
}

OneClientTest(stage4_life_cycle, line_too_long, "--max-line 65536")
{
    static char text[70000];
    memset(text, 'x', sizeof text);
    client_try_send(client, text, sizeof text, test_now() + 5);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

/* ---- a controlled close ---- */

/* What was enqueued before the close leaves, all of it, and then comes the end of stream. */
OneClientTest(stage4_life_cycle, close_flushes, SMALL_SOCKETS)
{
    char *expected = mapped(BIG + 1);
    memset(expected, 'x', BIG);
    expected[BIG] = '\n';
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    client_expect(client, expected, BIG + 1);
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

/* A close that was asked for waits for a peer that does not read as long as an open connection. */
OneClientTest(stage4_life_cycle, close_and_the_peer_never_reads,
              SMALL_SOCKETS "--idle-timeout 0.4 --drain-timeout 0.1")
{
    const double idle = 0.4;
    double begun = test_now();
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    framework_await_closed(&framework, 1);
    double took = test_now() - begun;
    cr_assert(took > idle - 0.1 && took < idle + 3,
              "a close whose peer never reads took %.2f s; the idle timeout is %.1f s", took, idle);
    expect_end(1);
}

/* The drain timeout belongs to the server's end: a peer that pauses for longer still gets it all.
 */
OneClientTest(stage4_life_cycle, close_lasts_longer_than_the_drain_timeout,
              SMALL_SOCKETS "--drain-timeout 0.1")
{
    enum { DRAIN_MS = 100 };
    char *expected = mapped(BIG + 1);
    memset(expected, 'x', BIG);
    expected[BIG] = '\n';
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    test_pause_ms(4 * DRAIN_MS); /* what is asked: does it wait? */
    client_expect(client, expected, BIG + 1);
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

/* All is sent, and the peer never closes: the linger ends it, with every timeout off. */
OneClientTest(stage4_life_cycle, close_and_the_peer_never_closes, "")
{
    client_ask(client, "close\n", "closing\n");
    client_expect_end(client);
    expect_one_life();
}

/* Nor does it help the peer to send and send. */
OneClientTest(stage4_life_cycle, close_and_the_peer_never_stops_sending, "")
{
    static char text[65536];
    memset(text, 'x', sizeof text);
    client_ask(client, "close\n", "closing\n");
    double end = test_deadline();
    while (client_try_send(client, text, sizeof text, end) == sizeof text &&
           test_left_ms(end) > 0) {
    }
    cr_assert(test_left_ms(end) > 0, "still open after %d ms", test_deadline_ms());
    expect_one_life();
}

/* ---- time ends it ---- */

static void expect_timed_out(int client)
{
    client_expect_gone(client);
    expect_end(1);
}

/* The first message may wait for a processor, and is not to come too late. */
OneClientTest(stage4_life_cycle, idle_timeout, "--idle-timeout 1")
{
    expect_timed_out(client);
}

OneClientTest(stage4_life_cycle, request_timeout, "--request-timeout 0.1")
{
    client_send_text(client, "half");
    expect_timed_out(client);
}

/* The handler may say so; then the connection is closed like any other, and hears of no more. */
WaysTest(stage4_life_cycle, request_timeout_that_is_told)
{
    recorder_init_telling(&recorder);
    framework_start(&framework, "%s --request-timeout 0.1", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    client_ask(client, "half", "too late\n");
    client_send_text(client, " and half\n");
    client_expect_end(client);
    client_close(client);
    expect_end(1);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
}

WaysTest(stage4_life_cycle, idle_timeout_that_is_told)
{
    recorder_init_telling(&recorder);
    framework_start(&framework, "%s --idle-timeout 0.1", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_expect_text(client, "too quiet\n");
    client_expect_end(client);
    client_close(client);
    expect_end(1);
}

/* A client that does not read what it got is not told that it is idle: it would not read that. */
WaysTest(stage4_life_cycle, idle_timeout_with_output_waiting_is_not_told)
{
    recorder_init_telling(&recorder);
    framework_start(&framework, "%s --idle-timeout 0.5 --send-buffer 4096", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_send_text(client, "big 8388608\n");
    client_await_reply(client);
    expect_end(1); /* and not after a second time of waiting for it to read */
}

/* It has to be answered before. */
OneClientTest(stage4_life_cycle, lifetime, "--lifetime 0.6")
{
    expect_timed_out(client);
}

/* However busy it is: here it runs at the moment when its time is over, and long after. */
OneClientTest(stage4_life_cycle, lifetime_of_one_that_is_busy, "--lifetime 0.6")
{
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "under way\n");
    test_point_await_held(RUN_BEGINS, 1);
    test_pause_ms(650);
    test_point_release(RUN_BEGINS);
    expect_end(1);
}

OneClientTest(stage4_life_cycle, progress_timeout, SMALL_SOCKETS "--progress-timeout 0.2")
{
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    expect_end(1);
}

/* ---- the server's end ---- */

OneClientTest(stage4_life_cycle, server_stops_while_idle, "")
{
    framework_await_asleep(&framework);
    dispatcher_stop(framework_dispatcher(&framework));
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
}

OneClientTest(stage4_life_cycle, server_stops_while_running, "")
{
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "under way\n");
    test_point_await_held(RUN_BEGINS, 1);
    client_send_text(client, "and waiting\n");
    client_await_delivered(client);
    dispatcher_stop(framework_dispatcher(&framework));
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "under way\nand waiting\n");
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
}

OneClientTest(stage4_life_cycle, server_stops_while_output_waits,
              SMALL_SOCKETS "--drain-timeout 0.2")
{
    client_send_text(client, "big 2097152\nbig 1\n");
    recorder_await(&recorder, messages, 3);
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    cr_assert_gt(test_now() - begun, 0.15, "cut off before the drain timeout");
}

/* Their times are not added up, so nothing is left for the output that waits. */
OneClientTest(stage4_life_cycle, server_stops_after_its_strands_have_taken_all_the_drain_timeout,
              SMALL_SOCKETS "--drain-timeout 0")
{
    client_send_text(client, "big 2097152\nbig 1\n");
    recorder_await(&recorder, messages, 3);
    framework_await_asleep(&framework);
    server_drain_end(&framework.server);
    framework.server.settings.drain_timeout = 3600 * 1000;
    framework_stop(&framework);
}

OneClientTest(stage4_life_cycle, server_stops_while_choked,
              "--drain-timeout 0.3 --output-cap 16777216 --output-high-mark 1000")
{
    client_send_text(client, "big 8388608\nbig 1\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    framework_stop(&framework);
}

/* One that comes while the server stops is asked to end like the others, and not cut off later. */
WaysTest(stage4_life_cycle, server_stops_before_it_has_started)
{
    recorder_init(&recorder);
    framework_open(&framework, "%s --drain-timeout 3600", workers);
    framework_connect(&framework, &recorder.handler);
    dispatcher_stop(framework_dispatcher(&framework));
    framework_run(&framework);
    framework_end(&framework);
}

/* ---- what cannot be served ---- */

/* Registered, and then the kernel has no memory to watch it. */
WaysTest(stage4_life_cycle, kernel_does_not_watch)
{
    recorder_init(&recorder);
    framework_open_on(&framework, &failing_provider, "%s", workers);
    framework_run(&framework);
    atomic_store(&failing_provider_fails, true);
    int client = framework_connect(&framework, &recorder.handler);
    client_expect_gone(client);
    client_close(client);
    atomic_store(&failing_provider_fails, false);
    framework_await_closed(&framework, 1);

    struct recorder next; /* service goes on */
    recorder_init(&next);
    client = framework_connect(&framework, &next.handler);
    client_echo(client, "hello\n");
    framework_close(&framework);
}

/* ---- after the end ---- */

/* Who keeps a facade can still call it: nothing is reached, and nothing goes wrong. */
WaysTest(stage4_life_cycle, facade_that_is_kept)
{
    client_close(begin(workers, ""));
    framework_await_closed(&framework, 1);
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);
    struct channel_facade *facade = recorder_facade(&recorder);
    struct endpoint peer = {.length = 1};
    channel_peer(facade, &peer);
    cr_assert_eq(peer.address.ss_family, AF_INET, "the peer is forgotten");
    cr_assert_eq(recorder_send(&recorder, "is anybody there\n"), OUTPUT_BROKEN);
    channel_suspend(facade);
    channel_set_write_rate(facade, 5);
    channel_close(facade);
    framework_cut_off(facade);
    framework_stop(&framework);
}

/* It is not idle while a worker has it; only then its time begins. */
Test(stage4_life_cycle, idle_time_does_not_run_out_while_a_worker_runs)
{
    double over = test_now() + 0.6; /* or later */
    int client = begin("--workers 2", "--idle-timeout 0.6");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "this takes longer than the timeout\n");
    test_point_await_held(RUN_BEGINS, 1);
    long rounds = test_point_count(DISPATCHER_AWAKE);
    bool is_counted_before = test_now() < over;
    test_pause_ms(650);
    if (is_counted_before) /* there is nothing else to wake it */
        test_point_await_count(DISPATCHER_AWAKE, rounds + 1);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 0);
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "this takes longer than the timeout\n");
    client_expect_end(client);
    expect_end(1);
}
