/*
 * The status-change queue and the wakeups: nothing that is put in is lost, nothing blocks, and
 * thousands of changes cost few system calls.
 */
#include "framework.h"

#include "inside/changes_tests.h"
#include "support/deadline.h"

#include <stdio.h>
#include <string.h>

TestSuite(stage4_status_changes, .timeout = 120);

Test(stage4_status_changes, case_31_changes_while_the_dispatcher_is_awake_cost_nothing)
{
    changes_while_awake_cost_nothing("--workers 2");
}

Test(stage4_status_changes, case_31_eight_threads_with_a_hundred_thousand_changes_each)
{
    a_hundred_thousand_changes_each("--workers 2");
}

/*
 * Hitchens' queue holds a hundred, and put() blocks: with the dispatcher at the barrier nobody
 * moves again. This one takes what there is, from threads that hold whatever they like.
 */
Test(stage4_status_changes, erratum_03_the_queue_never_blocks_and_holds_each_once)
{
    enum { CONNECTIONS = 300 };
    static struct recorder many[CONNECTIONS];
    static int ends[CONNECTIONS];
    framework_start(&framework, "%s", "");
    for (int i = 0; i < CONNECTIONS; i++) {
        recorder_init(&many[i]);
        ends[i] = framework_connect(&framework, &many[i].handler);
        client_echo(ends[i], "hello\n");
    }
    framework_await_asleep(&framework);
    test_point_hold(DISPATCHER_AWAKE);
    selector_wakeup(&framework.dispatcher.selector);
    test_point_await_held(DISPATCHER_AWAKE, 1);
    double begin = test_now();
    for (int round = 0; round < 3; round++) { /* the main thread would be the one that is stuck */
        for (int i = 0; i < CONNECTIONS; i++) {
            channel_suspend(recorder_facade(&many[i]));
            channel_resume(recorder_facade(&many[i]));
        }
    }
    for (int i = 0; i < CONNECTIONS; i++) {
        channel_close(recorder_facade(&many[i]));
    }
    cr_assert_lt(test_now() - begin, test_deadline_ms() / 1000.0, "a change had to wait");
    test_point_release(DISPATCHER_AWAKE);
    for (int i = 0; i < CONNECTIONS; i++) {
        client_expect_end(ends[i]);
        client_close(ends[i]);
    }
    framework_stop(&framework);
}

/*
 * What the dispatcher itself puts in is looked at in the next round, and that round does not sleep:
 * each message that it refuses is such a change, and there is no other event.
 */
Test(stage4_status_changes, case_33_change_by_the_dispatcher_does_not_wait)
{
    struct recorder busy;
    struct recorder waiting;
    struct recorder refused;
    recorder_init(&busy);
    recorder_init(&waiting);
    recorder_init(&refused);
    framework_start(&framework, "--workers 1 --queue bounded:1 --saturation abort "
                                "--idle-timeout 0 --request-timeout 0");
    int one = framework_connect(&framework, &busy.handler);
    client_echo(one, "hello\n"); /* one after the other, or else there is no place for the next */
    int two = framework_connect(&framework, &waiting.handler);
    client_echo(two, "hello\n");
    int three = framework_connect(&framework, &refused.handler);
    client_echo(three, "hello\n");
    framework_await_asleep(&framework);
    test_point_hold(RUN_BEGINS);
    client_send_text(one, "busy\n");
    test_point_await_held(RUN_BEGINS, 1);
    client_send_text(two, "waiting\n");
    framework_await_waiting(&framework, 1);
    framework_await_asleep_but(&framework, 1);
    client_ask(three, "a\nb\nc\nd\n", "refused\nrefused\nrefused\nrefused\n");
    test_point_release(RUN_BEGINS);
    client_expect_text(one, "busy\n");
    client_expect_text(two, "waiting\n");
    client_echo(three, "and now\n");
    framework_close(&framework);
}

Test(stage4_status_changes, case_32_what_comes_before_the_loop_is_not_lost)
{
    struct recorder recorder;
    recorder_init(&recorder);
    framework_open(&framework, "%s", "");
    selector_wakeup(&framework.dispatcher.selector);
    int client = framework_connect(&framework, &recorder.handler);
    client_send_text(client, "hello\n");
    framework_run(&framework);
    client_expect_text(client, "hello\n");
    framework_close(&framework);
}

Test(stage4_status_changes, case_32_stop_before_the_loop)
{
    framework_open(&framework, "%s", "");
    dispatcher_stop(&framework.dispatcher);
    framework_run(&framework);
    framework_end(&framework);
}

/* Between the barrier and select, too. */
Test(stage4_status_changes, case_32_stop_just_before_select)
{
    framework_open(&framework, "%s", "");
    test_point_hold(DISPATCHER_SELECTS);
    framework_run(&framework);
    test_point_await_held(DISPATCHER_SELECTS, 1);
    dispatcher_stop(&framework.dispatcher);
    test_point_release(DISPATCHER_SELECTS);
    framework_end(&framework);
}

/*
 * Two connections were selected; before their turn comes, one of them ends by another thread's
 * wish. In Hitchens' loop a key that was cancelled in between ended the dispatcher thread.
 */
Test(stage4_status_changes, erratum_11_key_that_is_not_selected_any_more)
{
    struct recorder gone;
    struct recorder stays;
    recorder_init(&gone);
    recorder_init(&stays);
    framework_start(&framework, "%s", "");
    int one = framework_connect(&framework, &gone.handler);
    int two = framework_connect(&framework, &stays.handler);
    client_echo(one, "hello\n");
    client_echo(two, "hello\n");
    framework_await_asleep(&framework);
    test_point_hold(DISPATCHER_SELECTS);
    test_point_hold(DISPATCHER_AWAKE);
    selector_wakeup(&framework.dispatcher.selector);
    test_point_await_held(DISPATCHER_AWAKE, 1);
    test_point_release(DISPATCHER_AWAKE);
    test_point_await_held(DISPATCHER_SELECTS, 1);
    client_send_text(one, "too late\n");
    client_send_text(two, "in time\n");
    client_await_delivered(one);
    client_await_delivered(two);
    test_point_hold(DISPATCHER_AWAKE);
    test_point_release(DISPATCHER_SELECTS);
    test_point_await_held(DISPATCHER_AWAKE, 1); /* both are selected */
    framework_cut_off(recorder_facade(&gone));
    test_point_release(DISPATCHER_AWAKE);
    client_expect_text(two, "in time\n");
    client_expect_gone(one);
    client_echo(two, "and further\n");
    framework_close(&framework);
    cr_assert_eq(atomic_load(&gone.messages), 1, "an event was delivered after the end");
}
