/*
 * What a handler's facade promises: to other threads than the handler's own, and after the end; and
 * the handler's interest.
 */
#include "framework.h"

#include "common/bytes/shared_message.h"
#include "inside/one_client.h"
#include "support/aborts.h"
#include "support/deadline.h"
#include "support/mapped.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage4_facade, .timeout = 120);

static int begin(const char *workers, const char *options)
{
    recorder_init(&recorder);
    return begin_serving(workers, options);
}

static void set_reading(bool on)
{
    (on ? channel_resume : channel_suspend)(recorder_facade(&recorder));
}

/* ---- output ---- */

OneClientTest(stage4_facade, output_of_another_thread_leaves_at_once, "")
{
    recorder_send(&recorder, "from elsewhere\n");
    client_expect_text(client, "from elsewhere\n");
}

enum { BIG = 8 << 20 }; /* more than the sockets take */

static void enqueue_big(void)
{
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    enum output_result result = channel_enqueue(recorder_facade(&recorder), piece_bytes(text, BIG));
    cr_assert_eq(result, OUTPUT_CHOKED);
}

static void expect_big(int client)
{
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    client_expect(client, text, BIG);
}

/* The dispatcher has to be told to watch the socket; there is no other event (erratum 13). */
OneClientTest(stage4_facade, erratum_13_output_of_another_thread_that_has_to_wait,
              "--output-cap 16777216")
{
    enqueue_big();
    expect_big(client);
}

/* Nor is the client read, whose output another thread has filled. */
OneClientTest(stage4_facade, choked_by_another_thread, "--output-cap 16777216")
{
    enqueue_big();
    framework_await_asleep(&framework);
    client_send_text(client, "not handled before the output has left\n");
    client_await_delivered(client);
    framework_await_asleep(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
    expect_big(client);
    client_expect_text(client, "not handled before the output has left\n");
}

/* What is enqueued during a run is held back, and leaves with what the run itself has to send. */
OneClientTest(stage4_facade, output_of_another_thread_during_a_run, "")
{
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "mine\n");
    test_point_await_held(RUN_BEGINS, 1);
    recorder_send(&recorder, "another's\n");
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "another's\nmine\n");
}

/* Nobody reads, so nobody but who writes finds out that the peer is gone. */
OneClientTest(stage4_facade, output_to_a_peer_that_is_gone_ends_a_suspended_connection,
              "--idle-timeout 0 --request-timeout 0")
{
    set_reading(false);
    framework_await_asleep(&framework);
    client_reset(client);
    double deadline = test_deadline();
    while (recorder_send(&recorder, "are you there\n") != OUTPUT_BROKEN &&
           test_left_ms(deadline) > 0) {
        test_pause_ms(1);
    }
    framework_await_closed(&framework, 1);
    framework_stop(&framework);
}

/* ---- interest ---- */

/* A suspended reader costs nothing, whatever the peer sends. */
OneClientTest(stage4_facade, case_27_suspended_while_the_peer_sends, "")
{
    enum { LINES = 20 };
    set_reading(false);
    framework_await_asleep(&framework);
    long before = test_point_count(DISPATCHER_AWAKE);
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    for (int i = 0; i < LINES; i++) {
        client_send(client, lines + (size_t)i * (length / LINES), length / LINES);
        client_await_delivered(client);
    }
    client_expect_silence(client, 200);
    long rounds = test_point_count(DISPATCHER_AWAKE) - before;
    cr_assert_leq(rounds, 4, "the dispatcher woke up %ld times for one that is suspended", rounds);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
    set_reading(true);
    client_expect(client, lines, length);
    free(lines);
}

/* What has been read already is not handed out either, and waits for no event afterwards. */
OneClientTest(stage4_facade, suspended_by_its_handler_with_messages_left, "")
{
    client_ask(client, "one\nsuspend\ntwo\nsuspend\nthree\n", "one\n");
    recorder_await(&recorder, messages, 3);
    framework_await_asleep(&framework);
    client_expect_silence(client, 0);
    set_reading(true);
    client_expect_text(client, "two\n");
    recorder_await(&recorder, messages, 5);
    framework_await_asleep(&framework);
    client_expect_silence(client, 0);
    set_reading(true);
    client_expect_text(client, "three\n");
}

/* A half-closed peer's last messages wait for the resume, too. */
OneClientTest(stage4_facade, suspended_at_the_end_of_stream, "")
{
    client_send_text(client, "suspend\ntwo\n");
    client_half_close(client);
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    client_expect_silence(client, 0);
    set_reading(true);
    client_expect_text(client, "two\n");
    client_expect_end(client);
}

struct toggler {
    int rounds;
    bool resumes;
};

static void *toggle(void *argument)
{
    const struct toggler *toggler = argument;
    for (int i = 0; i < toggler->rounds; i++) {
        set_reading(toggler->resumes);
    }
    return NULL;
}

OneClientTest(stage4_facade, case_28_suspend_and_resume_from_different_threads,
              "--output-cap 16777216")
{
    enum { LINES = 2000 };
    int rounds = probe_sanitized() ? 20000 : 100000;
    pthread_t threads[4];
    struct toggler togglers[4] = {{rounds, true}, {rounds, false}, {rounds, true}, {rounds, false}};
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, toggle, &togglers[i]), 0);
    }
    client_send(client, lines, length);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    set_reading(true);
    client_expect(client, lines, length);
    free(lines);
}

/* ---- timers ---- */

/* The answer comes by a timer, for which no thread waits and nobody is woken up before its time. */
OneClientTest(stage4_facade, timers_fire_with_input_suspended, "")
{
    client_send_text(client, "later 400\nnot before\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    long before = test_point_count(DISPATCHER_AWAKE);
    client_expect_text(client, "later\nnot before\n");
    long rounds = test_point_count(DISPATCHER_AWAKE) - before;
    /* The timer, what a worker hands back, and a look round each second of a busy machine's. */
    cr_assert_leq(rounds, 9, "the dispatcher woke up %ld times for one timer", rounds);
}

/* It would have been due first. */
OneClientTest(stage4_facade, a_timer_that_is_cancelled_does_not_fire, "")
{
    client_ask(client, "cancel\nlater 20\n", "later\n");
}

OneClientTest(stage4_facade, a_timer_does_not_hold_up_the_end, "")
{
    client_send_text(client, "never\n");
    framework_await_asleep(&framework);
}

/* ---- handlers ---- */

WaysTest(stage4_facade, handlers_may_be_switched)
{
    static struct recorder next;
    recorder_init(&next);
    recorder_init(&recorder);
    recorder.other = &next;
    framework_start(&framework, "%s", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_ask(client, "one\nswitch\ntwo\nthree\n", "one\ntwo\nthree\n");
    framework_close(&framework);
    recorder_expect_order(&recorder);
    recorder_expect_order(&next);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
    cr_assert_eq(atomic_load(&next.messages), 2);
    cr_assert_eq(atomic_load(&recorder.calls[LIFE_END_OF_INPUT]), 0);
    for (int life = LIFE_END_OF_INPUT; life <= LIFE_STOPPED; life++) {
        cr_assert_eq(atomic_load(&next.calls[life]), 1);
    }
    channel_release(recorder_facade(&recorder));
}

OneClientTest(stage4_facade, peer_is_the_client, "")
{
    struct endpoint peer;
    struct endpoint own = {.length = sizeof own.address};
    char text[2][ENDPOINT_TEXT_SIZE];
    channel_peer(recorder_facade(&recorder), &peer);
    getsockname(client, (struct sockaddr *)&own.address, &own.length);
    endpoint_format(&peer, text[0]);
    endpoint_format(&own, text[1]);
    cr_assert_str_eq(text[0], text[1]);
}

/* A proxy names the client before the handler hears of the connection, and while nothing runs. */
WaysTest(stage4_facade, behind_a_proxy_peer_is_the_client_that_it_names)
{
    static const char header[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"
                                 "\xcb\0\x71\x07\x7f\0\0\x01\x12\x67\0\x50";
    struct endpoint peer;
    char text[ENDPOINT_TEXT_SIZE];
    recorder_init(&recorder);
    framework_start(&framework, "%s --proxy-protocol 127.0.0.1", workers);
    int client = framework_connect(&framework, &recorder.handler);
    client_send(client, header, 20);
    framework_await_asleep(&framework);
    cr_assert_null(recorder_facade(&recorder), "the handler knows of it already");
    client_send(client, header + 20, sizeof header - 1 - 20);
    client_echo(client, "hello\n");
    channel_peer(recorder_facade(&recorder), &peer);
    endpoint_format(&peer, text);
    cr_assert_str_eq(text, "203.0.113.7:4711");
    framework_close(&framework);
}

/* ---- after the end ---- */

static void use_in_every_way(struct channel_facade *facade)
{
    struct endpoint peer = {.length = 1};
    struct shared_message *shared = shared_message_create(4);
    memcpy(shared->data, "abc\n", 4);
    cr_assert_eq(channel_enqueue(facade, piece_bytes("x\n", 2)), OUTPUT_BROKEN);
    cr_assert_eq(channel_enqueue(facade, piece_shared(shared)), OUTPUT_BROKEN);
    shared_message_release(shared);
    channel_suspend(facade);
    channel_resume(facade);
    channel_retain(facade);
    channel_finish(facade);
    channel_close(facade);
    cr_assert_not(channel_set_write_rate(facade, 1));
    struct channel_timer timer = {0};
    channel_set_timer(facade, &timer, 0);
    channel_cancel_timer(facade, &timer);
    channel_peer(facade, &peer);
    cr_assert_eq(peer.address.ss_family, AF_INET, "the peer is forgotten");
    cr_assert_eq(channel_end_reason(facade), END_PEER_CLOSED);
    cr_assert_eq(channel_flush(facade), OUTPUT_BROKEN);
    framework_cut_off(facade);
    channel_release(facade);
}

/* The next connection gets the same descriptor, and hears nothing of it. */
OneClientTest(stage4_facade, after_stopped_a_facade_is_harmless, "")
{
    client_close(client);
    framework_await_closed(&framework, 1);
    struct recorder next;
    recorder_init(&next);
    client = framework_connect(&framework, &next.handler);
    client_echo(client, "hello\n");
    use_in_every_way(recorder_facade(&recorder));
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    client_close(client);
    framework_await_closed(&framework, 2);
    use_in_every_way(recorder_facade(&recorder));
    framework_stop(&framework);
}

/* ---- what must not be touched, or not any more ---- */

static void send_to(void *facade)
{
    channel_enqueue(facade, piece_bytes("too late\n", 9));
}

static void never_run(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
}

static void post_to(void *facade)
{
    static struct channel_post post = {.run = never_run};
    channel_post(facade, &post);
}

/* Another sanitizer says it first. */
OneClientTest(stage4_facade, whose_last_reference_was_given_back_says_so, "")
{
    struct channel_facade *facade = recorder_facade(&recorder);
    client_close(client);
    framework_await_closed(&framework, 1);
    framework_await_asleep(&framework);
    recorder_expect_whole_life(&recorder); /* gives the reference back */
    if (!probe_sanitized()) {
        expect_abort(send_to, facade, "channel_enqueue(): expected a facade of which somebody has");
        expect_abort(post_to, facade, "a call of channel_calls.h: expected a facade of which");
    }
    framework_stop(&framework);
}

#ifndef NDEBUG
static void set_timer(void *facade)
{
    static struct channel_timer timer;
    channel_set_timer(facade, &timer, 1000);
}

static void give_back(void *facade)
{
    channel_release(facade);
    channel_release(facade);
}

/* This thread has no run, as a helper's and one of an application's own have none. */
OneClientTest(stage4_facade, a_timer_of_another_thread_is_an_assertion, "")
{
    expect_abort(set_timer, recorder_facade(&recorder), "connection_is_own_run");
}

OneClientTest(stage4_facade, a_reference_that_nobody_took_is_an_assertion, "")
{
    expect_abort(give_back, recorder_facade(&recorder), "LIFE_STOPPED");
}
#endif
