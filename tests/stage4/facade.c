/*
 * The facade, from other threads than the handler's own, and after the end; and the handler's
 * interest.
 */
#include "framework.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage4_facade, .timeout = 60);

static struct framework framework;
static struct recorder recorder;

static int begin(const char *options)
{
    recorder_init(&recorder);
    framework_start(&framework, "%s", options);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    return client;
}

static void end(int client)
{
    client_close(client);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}

static void set_reading(bool on)
{
    channel_modify_interest(recorder_facade(&recorder), on ? SELECT_READ : SELECT_NOTHING,
                            on ? SELECT_NOTHING : SELECT_READ);
}

/* ---- output ---- */

Test(stage4_facade, output_of_another_thread_leaves_at_once)
{
    int client = begin("");
    recorder_send(&recorder, "from elsewhere\n");
    client_expect_text(client, "from elsewhere\n");
    end(client);
}

enum { BIG = 8 << 20 }; /* more than the sockets take */

static void enqueue_big(void)
{
    static char text[BIG];
    memset(text, 'x', sizeof text);
    enum output_result result =
        channel_enqueue(recorder_facade(&recorder), (struct message){(unsigned char *)text, BIG});
    cr_assert_eq(result, OUTPUT_CHOKED);
}

static void expect_big(int client)
{
    static char text[BIG];
    memset(text, 'x', sizeof text);
    client_expect(client, text, BIG);
}

/* The dispatcher has to be told to watch the socket; there is no other event (erratum 13). */
Test(stage4_facade, erratum_13_output_of_another_thread_that_has_to_wait)
{
    int client = begin("--output-cap 16777216");
    enqueue_big();
    expect_big(client);
    end(client);
}

/* Nor is the client read, whose output another thread has filled. */
Test(stage4_facade, choked_by_another_thread)
{
    int client = begin("--output-cap 16777216");
    enqueue_big();
    framework_await_asleep(&framework);
    client_send_text(client, "not handled before the output has left\n");
    client_await_delivered(client);
    framework_await_asleep(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
    expect_big(client);
    client_expect_text(client, "not handled before the output has left\n");
    end(client);
}

/* What is enqueued during a run is held back, and leaves with what the run itself has to send. */
Test(stage4_facade, output_of_another_thread_during_a_run)
{
    int client = begin("");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "mine\n");
    test_point_await_held(RUN_BEGINS, 1);
    recorder_send(&recorder, "another's\n");
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "another's\nmine\n");
    end(client);
}

/* Nobody reads, so nobody but who writes finds out that the peer is gone. */
Test(stage4_facade, output_to_a_peer_that_is_gone_ends_a_suspended_connection)
{
    int client = begin("--idle-timeout 0 --request-timeout 0");
    set_reading(false);
    framework_await_asleep(&framework);
    client_reset(client);
    double deadline = test_now() + test_deadline_ms() / 1000.0;
    while (recorder_send(&recorder, "are you there\n") != OUTPUT_BROKEN &&
           test_left_ms(deadline) > 0) {
        test_pause_ms(1);
    }
    framework_await_closed(&framework, 1);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}

/* ---- interest ---- */

/* A suspended reader costs nothing, whatever the peer sends. */
Test(stage4_facade, case_27_suspended_while_the_peer_sends)
{
    enum { LINES = 20 };
    int client = begin("");
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
    end(client);
}

/* What has been read already is not handed out either, and waits for no event afterwards. */
Test(stage4_facade, suspended_by_its_handler_with_messages_left)
{
    int client = begin("");
    client_send_text(client, "one\nsuspend\ntwo\nsuspend\nthree\n");
    client_expect_text(client, "one\n");
    client_expect_silence(client, 50);
    set_reading(true);
    client_expect_text(client, "two\n");
    client_expect_silence(client, 50);
    set_reading(true);
    client_expect_text(client, "three\n");
    end(client);
}

/* A half-closed peer's last messages wait for the resume, too. */
Test(stage4_facade, suspended_at_the_end_of_stream)
{
    int client = begin("");
    client_send_text(client, "suspend\ntwo\n");
    client_half_close(client);
    client_expect_silence(client, 50);
    set_reading(true);
    client_expect_text(client, "two\n");
    client_expect_end(client);
    end(client);
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

Test(stage4_facade, case_28_suspend_and_resume_from_different_threads)
{
    enum { LINES = 2000 };
    int rounds = probe_sanitized() ? 20000 : 100000;
    pthread_t threads[4];
    struct toggler togglers[4] = {{rounds, true}, {rounds, false}, {rounds, true}, {rounds, false}};
    int client = begin("--output-cap 16777216");
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
    end(client);
}

/* ---- handlers ---- */

Test(stage4_facade, handlers_may_be_switched)
{
    static struct recorder next;
    recorder_init(&next);
    recorder_init(&recorder);
    recorder.other = &next;
    framework_start(&framework, "%s", "");
    int client = framework_connect(&framework, &recorder.handler);
    client_send_text(client, "one\nswitch\ntwo\nthree\n");
    client_expect_text(client, "one\ntwo\nthree\n");
    client_close(client);
    framework_stop(&framework);
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

Test(stage4_facade, peer_is_the_client)
{
    int client = begin("");
    struct endpoint peer;
    struct endpoint own = {.length = sizeof own.address};
    char text[2][ENDPOINT_TEXT_SIZE];
    channel_peer(recorder_facade(&recorder), &peer);
    getsockname(client, (struct sockaddr *)&own.address, &own.length);
    endpoint_format(&peer, text[0]);
    endpoint_format(&own, text[1]);
    cr_assert_str_eq(text[0], text[1]);
    end(client);
}

/* ---- after the end ---- */

static void use_in_every_way(struct channel_facade *facade)
{
    struct endpoint peer = {.length = 1};
    struct shared_message *shared = shared_message_create(4);
    memcpy(shared->data, "abc\n", 4);
    cr_assert_eq(channel_enqueue(facade, (struct message){(const unsigned char *)"x\n", 2}),
                 OUTPUT_BROKEN);
    cr_assert_eq(channel_enqueue_shared(facade, shared), OUTPUT_BROKEN);
    shared_message_release(shared);
    channel_modify_interest(facade, SELECT_NOTHING, SELECT_READ);
    channel_modify_interest(facade, SELECT_READ, SELECT_NOTHING);
    channel_interest(facade);
    channel_retain(facade);
    channel_close(facade);
    channel_peer(facade, &peer);
    cr_assert_eq(peer.length, 0, "the peer of a connection that is over");
    dispatcher_unregister_channel(facade);
    channel_release(facade);
}

/* The next connection gets the same descriptor, and hears nothing of it. */
Test(stage4_facade, after_stopped_a_facade_is_harmless)
{
    int client = begin("");
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
    recorder_expect_whole_life(&recorder);
    recorder_expect_whole_life(&next);
}
