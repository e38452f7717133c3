/*
 * Ends: every connection, however it ends, has one whole life (erratum 9): starting, started,
 * end_of_input, stopping, stopped, each once and in this order. And nothing is left of it
 * afterwards: no adapter, no timer, no place that is taken (framework_stop() asserts that).
 *
 * Each end takes place twice: the dispatcher runs the handlers itself, and workers do.
 */
#include "framework.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(stage5_life_cycle, .timeout = 60);

static struct framework framework;
static struct recorder recorder;

/* A test of that name for each of the two; what follows is its body. */
#define ENDS(name)                                                                                 \
    static void name(const char *workers);                                                         \
    Test(stage5_life_cycle, name##_in_the_dispatcher)                                              \
    {                                                                                              \
        name("--workers 0");                                                                       \
    }                                                                                              \
    Test(stage5_life_cycle, name##_in_a_worker)                                                    \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }                                                                                              \
    static void name(const char *workers)

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
    recorder_expect_whole_life(&recorder);
}

static void expect_one_life(void)
{
    expect_end(0);
}

/* ---- the peer ends it ---- */

ENDS(peer_closes)
{
    client_close(begin(workers, ""));
    expect_one_life();
}

ENDS(peer_half_closes)
{
    int client = begin(workers, "");
    client_send_text(client, "one\ntwo\nhalf");
    client_half_close(client);
    client_expect_text(client, "one\ntwo\n");
    client_expect_end(client);
    expect_one_life();
    client_close(client);
}

ENDS(peer_resets)
{
    client_reset(begin(workers, ""));
    expect_one_life();
}

ENDS(peer_resets_with_output_waiting)
{
    int client = begin(workers, SMALL_SOCKETS);
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    recorder_await(&recorder, messages, 2);
    client_reset(client);
    expect_one_life();
}

/* The rate holds all output back, and no event is waited for: it is the reset that tells. */
ENDS(peer_resets_while_its_output_is_held_back)
{
    int client = begin(workers, "");
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "one after the other\n");
    recorder_await(&recorder, messages, 2);
    client_reset(client);
    expect_one_life();
}

ENDS(peer_resets_before_its_registration)
{
    int fd;
    open_with(workers, "");
    client_reset(framework_accept(&framework, &fd));
    cr_assert(framework_register(&framework, fd, &recorder.handler));
    expect_one_life();
}

/* ---- the handler ends it ---- */

ENDS(handler_fails)
{
    int client = begin(workers, "");
    client_send_text(client, "fail\nnot handled\n");
    client_expect_gone(client);
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
    client_close(client);
}

ENDS(handler_closes)
{
    int client = begin(workers, "");
    client_send_text(client, "close\nnot handled\n");
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

ENDS(handler_closes_while_it_starts)
{
    open_with(workers, "");
    recorder.close_in_starting = true;
    int client = framework_connect(&framework, &recorder.handler);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

ENDS(another_thread_closes)
{
    int client = begin(workers, "");
    framework_await_asleep(&framework);
    recorder_send(&recorder, "goodbye\n");
    channel_close(recorder_facade(&recorder));
    channel_close(recorder_facade(&recorder));
    client_expect_text(client, "goodbye\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

ENDS(another_thread_unregisters)
{
    int client = begin(workers, "");
    framework_await_asleep(&framework);
    dispatcher_unregister_channel(recorder_facade(&recorder));
    dispatcher_unregister_channel(recorder_facade(&recorder));
    client_expect_gone(client);
    expect_one_life();
    client_close(client);
}

ENDS(closed_and_unregistered_and_reset_at_once)
{
    int client = begin(workers, "");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "close\n");
    test_point_await_held(RUN_BEGINS, 1);
    channel_close(recorder_facade(&recorder));
    dispatcher_unregister_channel(recorder_facade(&recorder));
    client_reset(client);
    test_point_release(RUN_BEGINS);
    expect_one_life();
}

ENDS(output_above_the_cap)
{
    int client = begin(workers, "--send-buffer 65536 --output-high-mark 1000 --output-cap 1000");
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    recorder_await(&recorder, messages, 2);
    cr_assert_eq(recorder_send(&recorder, "one more\n"), OUTPUT_REFUSED);
    expect_one_life();
    client_close(client);
}

/* ---- a controlled close ---- */

/* What was enqueued before the close leaves, all of it, and then comes the end of stream. */
ENDS(close_flushes)
{
    static char expected[BIG + 1];
    int client = begin(workers, SMALL_SOCKETS);
    memset(expected, 'x', BIG);
    expected[BIG] = '\n';
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    client_expect(client, expected, sizeof expected);
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

/* With every timeout off: a close is asked for, and it is the drain timeout that bounds it. */
ENDS(close_and_the_peer_never_reads)
{
    const double drain = 0.4;
    int client = begin(workers, SMALL_SOCKETS "--drain-timeout 0.4");
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    double begun = test_now();
    framework_await_closed(&framework, 1);
    double took = test_now() - begun;
    cr_assert(took > drain - 0.1 && took < drain + 3,
              "a close whose peer never reads took %.2f s; the drain timeout is %.1f s", took,
              drain);
    expect_end(1);
    client_close(client);
}

/* The drain timeout is for a peer that does not move, and not for the whole of the output. */
ENDS(close_and_the_peer_reads_slowly)
{
    enum { TAKEN = 262144 };
    static char got[BIG + 9];
    int client = begin(workers, SMALL_SOCKETS "--drain-timeout 0.7");
    double end = test_now() + test_deadline_ms() / 1000.0;
    size_t length = 0;
    client_send_text(client, "big 2097152\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    double begun = test_now();
    while (length < sizeof got) { /* eight times, and longer than the drain timeout in all */
        size_t wanted = sizeof got - length < TAKEN ? sizeof got - length : TAKEN;
        size_t here;
        enum client_outcome outcome = client_try_receive(client, got + length, wanted, end, &here);
        length += here;
        cr_assert_eq(outcome, CLIENT_GOT, "%zu of %zu bytes after %.1f s, then %s", length,
                     sizeof got, test_now() - begun, client_outcome_text(outcome));
        test_pause_ms(100);
    }
    cr_assert_gt(test_now() - begun, 0.7);
    cr_assert_eq(memcmp(got + BIG, "\nclosing\n", 9), 0);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

/* All is sent, and the peer never closes: the linger ends it, with every timeout off. */
Test(stage5_life_cycle, close_and_the_peer_never_closes)
{
    int client = begin("--workers 0", "");
    client_send_text(client, "close\n");
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    expect_one_life();
    client_close(client);
}

ENDS(close_while_held_back_flushes)
{
    int client = begin(workers, "--drain-timeout 0.1");
    double begun = test_now();
    channel_set_write_rate(recorder_facade(&recorder), 50);
    client_send_text(client, "a line of twenty byt\nclose\n");
    client_half_close(client);
    client_expect_text(client, "a line of twenty byt\nclosing\n");
    client_expect_end(client);
    double took = test_now() - begun;
    cr_assert_gt(took, 29 / 50.0 * 0.85, "29 bytes at 50 B/s took %.2f s", took);
    client_close(client);
    expect_one_life();
}

/* ---- time ends it ---- */

static void expect_timed_out(int client)
{
    client_expect_gone(client);
    expect_end(1);
    client_close(client);
}

ENDS(idle_timeout)
{
    int client = begin(workers, "--idle-timeout 0.1");
    expect_timed_out(client);
}

ENDS(request_timeout)
{
    int client = begin(workers, "--request-timeout 0.1");
    client_send_text(client, "half");
    expect_timed_out(client);
}

/* The handler may say so; then the connection is closed like any other, and hears of no more. */
ENDS(request_timeout_that_is_told)
{
    recorder_init_telling(&recorder);
    framework_start(&framework, "%s --request-timeout 0.1", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    client_send_text(client, "half");
    client_expect_text(client, "too late\n");
    client_send_text(client, " and half\n");
    client_expect_end(client);
    client_close(client);
    expect_end(1);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
}

ENDS(lifetime)
{
    int client = begin(workers, "--lifetime 0.1");
    expect_timed_out(client);
}

ENDS(progress_timeout)
{
    int client = begin(workers, SMALL_SOCKETS "--progress-timeout 0.2");
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    expect_end(1);
    client_close(client);
}

/* ---- the server's end ---- */

ENDS(server_stops_while_idle)
{
    int client = begin(workers, "");
    framework_await_asleep(&framework);
    dispatcher_stop(framework_dispatcher(&framework));
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
    recorder_expect_whole_life(&recorder);
}

ENDS(server_stops_while_running)
{
    int client = begin(workers, "");
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
    recorder_expect_whole_life(&recorder);
}

ENDS(server_stops_while_output_waits)
{
    int client = begin(workers, SMALL_SOCKETS "--drain-timeout 0.2");
    client_send_text(client, "big 2097152\nbig 1\n");
    recorder_await(&recorder, messages, 3);
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    cr_assert_gt(test_now() - begun, 0.15, "cut off before the drain timeout");
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

ENDS(server_stops_while_output_is_held_back)
{
    int client = begin(workers, "--drain-timeout 0.2");
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "this would take twenty seconds\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    double took = test_now() - begun;
    cr_assert(took > 0.15 && took < 3, "the stop took %.2f s; the drain timeout is 0.2 s", took);
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

ENDS(server_stops_before_it_has_started)
{
    recorder_init(&recorder);
    framework_open(&framework, "%s", workers);
    int client = framework_connect(&framework, &recorder.handler);
    dispatcher_stop(framework_dispatcher(&framework));
    framework_run(&framework);
    framework_end(&framework);
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

/* ---- what cannot be served ---- */

/* The descriptor stays the caller's, and who holds the facade cannot reach it any more. */
ENDS(no_memory_to_register)
{
    int fd;
    open_with(workers, "");
    int client = framework_accept(&framework, &fd);
    failing_reallocations = 1; /* the selector's key set cannot grow */
    cr_assert_not(framework_register(&framework, fd, &recorder.handler));
    cr_assert_eq(failing_reallocations, 0, "nothing failed");
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);

    struct endpoint peer = {.length = 1};
    channel_peer(recorder_facade(&recorder), &peer);
    cr_assert_eq(peer.length, 0, "a facade after `stopped` still reaches the socket");
    cr_assert_eq(recorder_send(&recorder, "too late\n"), OUTPUT_BROKEN);
    channel_close(recorder_facade(&recorder));
    cr_assert_eq(send(fd, "still mine\n", 11, MSG_NOSIGNAL), 11);
    close(fd);
    client_expect_text(client, "still mine\n");
    client_close(client);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}

/* Registered, and then the kernel has no memory to watch it. */
ENDS(kernel_does_not_watch)
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
    client_close(client);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
    recorder_expect_whole_life(&next);
}

/* ---- after the end ---- */

/* Who keeps a facade can still call it: nothing is reached, and nothing goes wrong. */
ENDS(facade_that_is_kept)
{
    client_close(begin(workers, ""));
    framework_await_closed(&framework, 1);
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);
    struct channel_facade *facade = recorder_facade(&recorder);
    struct endpoint peer = {.length = 1};
    channel_peer(facade, &peer);
    cr_assert_eq(peer.length, 0);
    cr_assert_eq(recorder_send(&recorder, "is anybody there\n"), OUTPUT_BROKEN);
    channel_modify_interest(facade, SELECT_NOTHING, SELECT_READ);
    channel_set_write_rate(facade, 5);
    channel_close(facade);
    dispatcher_unregister_channel(facade);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}
