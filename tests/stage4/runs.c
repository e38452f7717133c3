/*
 * Two threads never run one handler, and nothing that others want of a connection meanwhile is
 * lost: the schedules of errata 7, 8 and 18, forced. Workers run the handlers.
 */
#include "framework.h"

#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage4_runs, .timeout = 120);

static struct framework framework;
static struct recorder recorder;

/** A connection whose first message was answered; RUN_... count from here. The run it was is over.
 */
static int begin(const char *options)
{
    recorder_init(&recorder);
    test_point_count(RUN_BEGINS);
    test_point_count(RUN_DONE);
    framework_start(&framework, "%s", options);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    test_point_await_count(RUN_DONE,
                           test_point_count(RUN_BEGINS) + 1); /* the registration's, too */
    framework_await_asleep(&framework);
    return client;
}

static void suspend_reading(void)
{
    channel_suspend(recorder_facade(&recorder));
}

static void resume_reading(void)
{
    channel_resume(recorder_facade(&recorder));
}

/*
 * Hitchens' done() puts the adapter on the status-change queue and marks it dead afterwards: in
 * between the dispatcher can resume selection on a dead adapter. Here the worker is held as soon as
 * the dispatcher may see the adapter; what it sees then must be dead already.
 */
Test(stage4_runs, erratum_07_dead_before_it_can_be_seen)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_DONE);
    long runs = test_point_count(RUN_BEGINS);
    client_send_text(client, "lose\nand more\n");
    test_point_await_held(RUN_DONE, 1);
    client_send_text(client, "and more\n");
    framework_await_closed(&framework, 1);
    client_expect_gone(client);
    cr_assert_eq(test_point_count(RUN_BEGINS), runs + 1, "a handler that was over ran again");
    test_point_release(RUN_DONE);
    framework_stop(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

/* Others change interest and enqueue between the error and done: no selection, no second run. */
Test(stage4_runs, erratum_07_changes_before_done_do_not_revive)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_ENDED);
    long runs = test_point_count(RUN_BEGINS);
    client_send_text(client, "lose\nand more\n");
    test_point_await_held(RUN_ENDED, 1);
    framework_await_asleep_but(&framework, 1);
    suspend_reading();
    resume_reading();
    recorder_send(&recorder, "from another thread\n");
    channel_close(recorder_facade(&recorder));
    client_send_text(client, "and more\n");
    client_await_delivered(client);
    test_point_expect_no_more(RUN_BEGINS, runs + 1, 50);
    test_point_release(RUN_ENDED);
    framework_await_closed(&framework, 1);
    test_point_expect_no_more(RUN_BEGINS, runs + 1, 20);
    framework_stop(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

/*
 * In Hitchens' call() `running` becomes false before done() runs: another thread's change in
 * between enqueues the adapter, the dispatcher resumes it, and a second worker runs the handler
 * while the first has not let go of it.
 */
Test(stage4_runs, erratum_08_no_second_run_before_done)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_ENDED);
    long runs = test_point_count(RUN_BEGINS);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_ENDED, 1);
    client_expect_text(client, "one\n");
    framework_await_asleep_but(&framework, 1);
    suspend_reading();
    resume_reading();
    client_send_text(client, "two\n");
    client_await_delivered(client);
    test_point_expect_no_more(RUN_BEGINS, runs + 1, 100);
    test_point_release(RUN_ENDED);
    client_expect_text(client, "two\n");
    framework_close(&framework);
}

/* The change that was made in between is not lost: it holds as soon as the run is done. */
Test(stage4_runs, erratum_08_change_before_done_is_not_lost)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_ENDED);
    long done = test_point_count(RUN_DONE);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_ENDED, 1);
    suspend_reading();
    test_point_release(RUN_ENDED);
    test_point_await_count(RUN_DONE, done + 1);
    client_expect_text(client, "one\n");
    client_send_text(client, "two\n");
    client_expect_silence(client, 100);
    resume_reading();
    client_expect_text(client, "two\n");
    framework_close(&framework);
}

/* Output likewise: it leaves without another event. */
Test(stage4_runs, erratum_08_output_before_done_is_not_lost)
{
    enum { BIG = 4 << 20 };
    int client = begin("--workers 2 --output-cap 16777216 --output-high-mark 16777216");
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    test_point_hold(RUN_ENDED);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_ENDED, 1);
    channel_enqueue(recorder_facade(&recorder), piece_bytes(text, BIG));
    test_point_release(RUN_ENDED);
    client_expect_text(client, "one\n");
    client_expect(client, text, BIG);
    framework_close(&framework);
}

/*
 * Hitchens' prepareToRun replaces the adapter's copy of the interest by the key's, and a request
 * that another thread has just put into that copy is overwritten. Here a change before the run, or
 * in it, is what holds afterwards.
 */
Test(stage4_runs, erratum_18_change_before_the_run_is_not_overwritten)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_BEGINS, 1);
    suspend_reading();
    test_point_release(RUN_BEGINS);
    client_expect_silence(client, 100);
    cr_assert_eq(atomic_load(&recorder.messages), 1);
    resume_reading();
    client_expect_text(client, "one\n");
    framework_close(&framework);
}

Test(stage4_runs, erratum_18_change_by_the_handler_is_merged_with_others)
{
    int client = begin("--workers 2");
    test_point_hold(RUN_ENDED);
    client_send_text(client, "suspend\nnot yet\n");
    test_point_await_held(RUN_ENDED, 1);
    resume_reading();
    test_point_release(RUN_ENDED);
    client_expect_text(client, "not yet\n"); /* it was in the input queue: no event tells of it */
    framework_close(&framework);
}

/* The worker has not begun yet, the peer is gone: nothing is used that is no more there. */
Test(stage4_runs, case_34_peer_is_gone_before_the_worker_is_done)
{
    for (int at_end = 0; at_end < 2; at_end++) {
        const char *point = at_end ? RUN_ENDED : RUN_BEGINS;
        int client = begin("--workers 2");
        test_point_hold(point);
        client_send_text(client, "one\n");
        test_point_await_held(point, 1);
        client_reset(client);
        framework_cut_off(recorder_facade(&recorder));
        test_point_release(point);
        framework_await_closed(&framework, 1);
        framework_stop(&framework);
    }
}

/* ---- many at once ---- */

enum { CLIENTS = 8 };

struct toggler {
    struct recorder *recorders;
    atomic_bool stop;
    long changes;
};

static void *toggle(void *argument)
{
    struct toggler *toggler = argument;
    for (unsigned i = 0; !atomic_load(&toggler->stop); i++) {
        struct channel_facade *facade = recorder_facade(&toggler->recorders[i % CLIENTS]);
        channel_suspend(facade);
        channel_resume(facade);
        toggler->changes += 2;
        test_await(-1, 0, test_now() + 0.0001);
    }
    return NULL;
}

/* Pipelined messages of many connections in many workers, while others change their interest. */
Test(stage4_runs, case_36_messages_of_a_connection_one_at_a_time_and_in_order)
{
    enum { LINES = 3000 };
    static struct recorder recorders[CLIENTS];
    int clients[CLIENTS];
    framework_start(&framework, "--workers 6");
    for (int i = 0; i < CLIENTS; i++) {
        recorder_init(&recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
    }
    struct toggler toggler = {.recorders = recorders};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, toggle, &toggler), 0);
    static char lines[LINES * 8];
    size_t length = 0;
    for (int i = 0; i < LINES; i++) {
        length += (size_t)sprintf(lines + length, "%d\n", i);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_send(clients[i], lines, length);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect(clients[i], lines, length);
    }
    atomic_store(&toggler.stop, true);
    pthread_join(thread, NULL);
    framework_close(&framework);
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_eq(atomic_load(&recorders[i].messages), LINES);
    }
}

/* ---- nobody's run is endless ---- */

/* With a single worker: after a part of the messages that one has sent, the other's is next. */
Test(stage4_runs, case_29_a_worker_goes_on_with_the_next_connection_after_a_run)
{
    enum { LINES = 1000, A_RUN = 64 };
    static struct recorder other;
    static char lines[2 * LINES];
    recorder_init(&other);
    int client = begin("--workers 1");
    int second = framework_connect(&framework, &other.handler);
    client_echo(second, "hello\n");
    framework_await_asleep(&framework);
    for (size_t i = 0; i < sizeof lines; i += 2) {
        memcpy(lines + i, "x\n", 2);
    }
    int before = atomic_load(&other.turn);
    test_point_hold(RUN_BEGINS);
    client_send(client, lines, sizeof lines);
    test_point_await_held(RUN_BEGINS, 1);
    client_send_text(second, "and what about me\n");
    framework_await_waiting(&framework, 1);
    test_point_release(RUN_BEGINS);
    client_expect_text(second, "and what about me\n");
    int passed = atomic_load(&other.turn) - before - 1;
    cr_assert_leq(passed, A_RUN, "%d messages of the one came before a message of the other",
                  passed);
    client_expect(client, lines, sizeof lines);
    framework_close(&framework);
}

/* ---- handlers that fail ---- */

/* The dispatcher cannot die: a handler that fails loses its own connection and no other. */
Test(stage4_runs, dispatcher_survives_handlers_that_always_fail)
{
    enum { FAILING = 100 };
    static struct recorder failing[FAILING];
    int client = begin("--workers 3");
    for (int i = 0; i < FAILING; i++) {
        recorder_init(&failing[i]);
        failing[i].fails_always = true;
        int unlucky = framework_connect(&framework, &failing[i].handler);
        client_send_text(unlucky, "anything\nat all\n");
        client_expect_gone(unlucky);
        client_close(unlucky);
        client_echo(client, "still served\n");
    }
    framework_close(&framework);
    for (int i = 0; i < FAILING; i++) {
        cr_assert_eq(atomic_load(&failing[i].messages), 1);
    }
}
