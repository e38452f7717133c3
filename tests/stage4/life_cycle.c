/*
 * Erratum 9: in Hitchens' framework `stopped` can be called twice, and a client that never reads
 * keeps a closing connection open for ever. Here every connection, however it ends, has one whole
 * life: starting, started, end_of_input, stopping, stopped, each once and in this order.
 *
 * Each test ends a connection in another way.
 */
#include "framework.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(stage4_life_cycle, .timeout = 60);

static struct framework framework;
static struct recorder recorder;

/* A connection with a message behind it, and the dispatcher asleep. */
static int begin(const char *options)
{
    recorder_init(&recorder);
    framework_start(&framework, "%s", options);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    return client;
}

/* It has ended or does so now; then nothing more is heard of it, to the end of the framework. */
static void expect_one_life(void)
{
    framework_await_closed(&framework, 1);
    recorder_await(&recorder, calls[LIFE_STOPPED], 1);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}

Test(stage4_life_cycle, erratum_09_peer_closes)
{
    client_close(begin(""));
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_peer_half_closes)
{
    int client = begin("");
    client_send_text(client, "one\ntwo\nhalf");
    client_half_close(client);
    client_expect_text(client, "one\ntwo\n");
    client_expect_end(client);
    expect_one_life();
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_peer_resets)
{
    client_reset(begin(""));
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_peer_resets_before_its_registration)
{
    int fd;
    recorder_init(&recorder);
    framework_start(&framework, "%s", "");
    client_reset(framework_accept(&framework, &fd));
    admission_enter(&framework.admission);
    counters_add(&framework.server.counters, COUNTER_ACCEPTED, 1);
    cr_assert(dispatcher_register_channel(&framework.dispatcher, fd, false, &recorder.handler));
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_handler_fails)
{
    int client = begin("");
    client_send_text(client, "fail\nnot handled\n");
    client_expect_gone(client);
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_handler_closes)
{
    int client = begin("");
    client_send_text(client, "close\nnot handled\n");
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

Test(stage4_life_cycle, erratum_09_handler_closes_while_it_starts)
{
    recorder_init(&recorder);
    recorder.close_in_starting = true;
    framework_start(&framework, "%s", "");
    int client = framework_connect(&framework, &recorder.handler);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_another_thread_closes)
{
    int client = begin("");
    framework_await_asleep(&framework);
    recorder_send(&recorder, "goodbye\n");
    channel_close(recorder_facade(&recorder));
    channel_close(recorder_facade(&recorder));
    client_expect_text(client, "goodbye\n");
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_another_thread_unregisters)
{
    int client = begin("");
    framework_await_asleep(&framework);
    dispatcher_unregister_channel(recorder_facade(&recorder));
    dispatcher_unregister_channel(recorder_facade(&recorder));
    client_expect_gone(client);
    expect_one_life();
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_closed_and_unregistered_at_once)
{
    int client = begin("");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "close\n");
    test_point_await_held(RUN_BEGINS, 1);
    channel_close(recorder_facade(&recorder));
    dispatcher_unregister_channel(recorder_facade(&recorder));
    client_reset(client);
    test_point_release(RUN_BEGINS);
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_idle_timeout)
{
    int client = begin("--idle-timeout 0.3");
    client_expect_end(client);
    expect_one_life();
    client_close(client);
}

/* It is not idle while a worker has it; only then its time begins. */
Test(stage4_life_cycle, idle_time_does_not_run_out_while_a_worker_runs)
{
    int client = begin("--idle-timeout 0.3");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "this takes longer than the timeout\n");
    test_point_await_held(RUN_BEGINS, 1);
    long rounds = test_point_count(DISPATCHER_AWAKE);
    test_pause_ms(350);
    test_point_await_count(DISPATCHER_AWAKE, rounds + 2); /* there is nothing else to wake it */
    cr_assert_eq(counters_get(&framework.server.counters, COUNTER_TIMED_OUT), 0);
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "this takes longer than the timeout\n");
    client_expect_end(client);
    cr_assert_eq(counters_get(&framework.server.counters, COUNTER_TIMED_OUT), 1);
    expect_one_life();
    client_close(client);
}

/* However busy it is: here a worker has it at the moment when its time is over, and long after. */
Test(stage4_life_cycle, erratum_09_lifetime_of_one_that_is_busy)
{
    int client = begin("--lifetime 0.3");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "under way\n");
    test_point_await_held(RUN_BEGINS, 1);
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (counters_get(&framework.server.counters, COUNTER_TIMED_OUT) == 0) {
        cr_assert(test_left_ms(end) > 0, "its lifetime is over, and nobody notices while it runs");
        test_pause_ms(1);
    }
    test_point_release(RUN_BEGINS);
    expect_one_life();
    cr_assert_eq(counters_get(&framework.server.counters, COUNTER_TIMED_OUT), 1);
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_output_above_the_cap)
{
    int client = begin("--output-high-mark 1000 --output-cap 1000 --idle-timeout 0");
    /* More than the sockets take: the rest waits, and is above the cap. */
    client_send_text(client, "big 8388608\n");
    client_await_reply(client);
    recorder_await(&recorder, messages, 2);
    cr_assert_eq(recorder_send(&recorder, "one more\n"), OUTPUT_REFUSED);
    expect_one_life();
    client_close(client);
}

/* A closing connection whose client never reads ends by its timeouts, not never. */
Test(stage4_life_cycle, erratum_09_closing_and_the_peer_never_reads)
{
    int client = begin("--idle-timeout 0.3 --output-high-mark 16777216 --output-cap 16777216");
    client_send_text(client, "big 8388608\nclose\n");
    recorder_await(&recorder, calls[LIFE_STOPPING], 1);
    expect_one_life();
    client_close(client);
}

/* All is sent, and the peer never closes: the linger ends it, with every timeout off. */
Test(stage4_life_cycle, erratum_09_closing_and_the_peer_never_closes)
{
    int client = begin("");
    client_send_text(client, "close\n");
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    expect_one_life();
    client_close(client);
}

/* Nor does it help the peer to send and send. */
Test(stage4_life_cycle, erratum_09_closing_and_the_peer_never_stops_sending)
{
    static char text[65536];
    memset(text, 'x', sizeof text);
    int client = begin("--workers 2");
    client_send_text(client, "close\n");
    client_expect_text(client, "closing\n");
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (client_try_send(client, text, sizeof text, end) == sizeof text &&
           test_left_ms(end) > 0) {
    }
    cr_assert(test_left_ms(end) > 0, "still open after %d ms", test_deadline_ms());
    expect_one_life();
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_line_too_long)
{
    static char text[70000];
    memset(text, 'x', sizeof text);
    int client = begin("--max-line 65536");
    client_try_send(client, text, sizeof text, test_now() + 5);
    client_expect_end(client);
    client_close(client);
    expect_one_life();
}

Test(stage4_life_cycle, erratum_09_server_stops_while_idle)
{
    int client = begin("");
    framework_await_asleep(&framework);
    dispatcher_stop(&framework.dispatcher);
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
    recorder_expect_whole_life(&recorder);
}

Test(stage4_life_cycle, erratum_09_server_stops_while_running)
{
    int client = begin("");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "under way\n");
    test_point_await_held(RUN_BEGINS, 1);
    client_send_text(client, "and waiting\n");
    client_await_delivered(client);
    dispatcher_stop(&framework.dispatcher);
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "under way\nand waiting\n");
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
    recorder_expect_whole_life(&recorder);
}

Test(stage4_life_cycle, erratum_09_server_stops_while_choked)
{
    int client = begin("--drain-timeout 0.3 --output-cap 16777216 --output-high-mark 1000");
    client_send_text(client, "big 8388608\nbig 1\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

Test(stage4_life_cycle, erratum_09_server_stops_before_it_has_started)
{
    recorder_init(&recorder);
    framework_open(&framework, "%s", "");
    int client = framework_connect(&framework, &recorder.handler);
    dispatcher_stop(&framework.dispatcher);
    framework_run(&framework);
    framework_end(&framework);
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

/* ---- connections that cannot be served ---- */

static bool register_accepted(int fd)
{
    admission_enter(&framework.admission);
    counters_add(&framework.server.counters, COUNTER_ACCEPTED, 1);
    bool registered =
        dispatcher_register_channel(&framework.dispatcher, fd, false, &recorder.handler);
    if (!registered) { /* as the acceptor does */
        counters_add(&framework.server.counters, COUNTER_CLOSED, 1);
        admission_leave(&framework.admission);
    }
    return registered;
}

/* The descriptor stays the caller's, and who holds the facade cannot reach it any more. */
Test(stage4_life_cycle, erratum_09_no_memory_to_register)
{
    int fd;
    recorder_init(&recorder);
    framework_start(&framework, "%s", "");
    int client = framework_accept(&framework, &fd);
    failing_reallocations = 1; /* the selector's key set cannot grow */
    cr_assert_not(register_accepted(fd));
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
Test(stage4_life_cycle, erratum_09_kernel_does_not_watch)
{
    recorder_init(&recorder);
    framework_open_on(&framework, &failing_provider, "%s", "");
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
