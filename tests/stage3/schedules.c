/*
 * Stage 3's races, as schedules that a test forces: reactor and workers are held where the order
 * of things matters, and let go in the order that could go wrong.
 */
#include "support/deadline.h"
#include "white_box.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage3_schedules, .timeout = 120);

enum { QUIET_MS = 60 };

static struct white_box box;

/* A test whose body has `client`, of a box with these options that it may end itself. */
#define BoxTest(suite, name, options)                                                              \
    static void suite##_##name##_of(int client);                                                   \
    Test(suite, name)                                                                              \
    {                                                                                              \
        white_box_start(&box, options);                                                            \
        suite##_##name##_of(white_box_connect(&box));                                              \
        white_box_stop(&box);                                                                      \
    }                                                                                              \
    static void suite##_##name##_of(int client)

/*
 * With --max-line 10, an empty line and as much of one that is too long as the server reads at
 * once: it is a worker that finds out, there is no event to wait for after that, and the reactor
 * has to go on with the connection by itself.
 */
#define TOO_LONG_FOLLOWS "\n12345678901"
#define TOO_LONG_REPLIES "\nERR line too long\n"

static long wakeups_written(void)
{
    return (long)atomic_load(&box.reactor.selector.wakeups_written);
}

/** The client's connection is closed once, and its end has been seen. */
static void expect_closed(int client, uint64_t connections)
{
    client_expect_end(client);
    client_close(client);
    white_box_await(&box, COUNTER_CLOSED, connections);
}

/** Echoes, and waits until the worker is through with it. */
static void echo_to_the_end(int client, const char *line)
{
    long handed_back = test_point_count(WORKER_HANDED_BACK);
    client_echo(client, line);
    test_point_await_count(WORKER_HANDED_BACK, handed_back + 1);
}

/* ---- between the barrier and select ---- */

/**
 * The worker hands back after the reactor has passed the barrier and before it selects. Returns the
 * client, which has sent a line; the reactor is still held.
 */
static int hand_back_before_select(const char *options, const char *line)
{
    white_box_start(&box, "--workers 1 --max-line 10 %s", options);
    int client = white_box_connect(&box);
    long handed_back = test_point_count(WORKER_HANDED_BACK);
    test_point_hold(WORKER_ENDS);
    test_point_hold(REACTOR_SELECTS);
    client_send_text(client, line);
    test_point_await_held(REACTOR_SELECTS, 1);
    test_point_await_held(WORKER_ENDS, 1);
    long written = wakeups_written();
    test_point_release(WORKER_ENDS);
    test_point_await_count(WORKER_HANDED_BACK, handed_back + 1);
    cr_assert_eq(wakeups_written(), written, "a reactor that is awake needs no system call");
    return client;
}

static const char *const selectors[] = {"--selector poll", "--selector epoll"};

static struct criterion_test_params each_selector(void)
{
    static int indices[] = {0, 1};
    return cr_make_param_array(int, indices, sizeof indices / sizeof *indices);
}

ParameterizedTestParameters(stage3_schedules, resumed_before_select_is_seen_by_it)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage3_schedules, resumed_before_select_is_seen_by_it)
{
    int client = hand_back_before_select(selectors[*selector], "first\n");
    client_expect_text(client, "first\n");
    client_send_text(client, "second\n");
    client_await_delivered(client);
    test_point_release(REACTOR_SELECTS);
    client_expect_text(client, "second\n");
    client_echo(client, "third\n");
    white_box_stop(&box);
}

ParameterizedTestParameters(stage3_schedules, handed_back_before_select_is_not_slept_over)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage3_schedules, handed_back_before_select_is_not_slept_over)
{
    int client = hand_back_before_select(selectors[*selector], TOO_LONG_FOLLOWS);
    client_expect_text(client, TOO_LONG_REPLIES);
    test_point_release(REACTOR_SELECTS);
    expect_closed(client, 1);
    white_box_stop(&box);
}

/* ---- while the reactor sleeps ---- */

ParameterizedTestParameters(stage3_schedules, a_wakeup_ends_the_sleep)
{
    return each_selector();
}

ParameterizedTest(int *selector, stage3_schedules, a_wakeup_ends_the_sleep)
{
    white_box_start(&box, "--workers 1 --max-line 10 %s", selectors[*selector]);
    int client = white_box_connect(&box);
    long written = wakeups_written();
    white_box_hold_worker(&box, client, TOO_LONG_FOLLOWS);
    long handed_back = test_point_count(WORKER_HANDED_BACK);
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, TOO_LONG_REPLIES);
    test_point_await_count(WORKER_HANDED_BACK, handed_back + 1); /* or the close would wake it */
    expect_closed(client, 1);
    cr_assert_eq(wakeups_written(), written + 1, "one sleep, one system call");
    white_box_stop(&box);
}

/*
 * Erratum 13: Lea's worker sets the interest and forgets the wakeup. The server is otherwise idle,
 * and the client's next request has come already: the reactor was told of it when nobody was
 * interested, so nothing but the wakeup ends its sleep.
 */
static int answer_with_a_request_waiting(void)
{
    int client = white_box_connect(&box);
    white_box_hold_worker(&box, client, "first\n");
    long awake = test_point_count(REACTOR_AWAKE);
    client_send_text(client, "second\n");
    test_point_await_count(REACTOR_AWAKE, awake + 1);
    white_box_await_asleep(&box);
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "first\n"); /* a worker may write to a socket at any time */
    return client;
}

Test(stage3_schedules, erratum_13_the_next_request_does_not_wait)
{
    white_box_start(&box, "--workers 1");
    test_point_count(REACTOR_AWAKE);
    for (int i = 0; i < 3; i++) {
        int client = answer_with_a_request_waiting();
        client_expect_text(client, "second\n");
        client_close(client);
        white_box_await(&box, COUNTER_CLOSED, (uint64_t)i + 1);
    }
    white_box_stop(&box);
}

/* The lesson: without the guard's wakeup it waits until another client happens to do something. */
Test(stage3_schedules, erratum_13_without_the_guard_it_waits_for_another_client)
{
    white_box_start(&box, "--workers 1 --guard none");
    long handed_back = test_point_count(WORKER_HANDED_BACK);
    int client = answer_with_a_request_waiting();
    client_expect_silence(client, QUIET_MS);
    cr_assert_eq(test_point_count(WORKER_HANDED_BACK), handed_back,
                 "the worker should wait for the selector");

    test_point_hold(REACTOR_AWAKE); /* or it could sleep again before the worker runs */
    int other = client_connect(&box.process);
    test_point_await_held(REACTOR_AWAKE, 1);
    test_point_await_count(WORKER_HANDED_BACK, handed_back + 1);
    test_point_release(REACTOR_AWAKE);
    client_close(other);
    client_expect_text(client, "second\n");
    white_box_stop(&box);
}

/* ---- the barrier ---- */

/* The wakeup alone would not do: the reactor would be back in select, and asleep again, before the
 * worker has changed anything. */
BoxTest(stage3_schedules, the_reactor_does_not_select_while_a_worker_holds_the_guard, "--workers 1")
{
    white_box_hold_worker(&box, client, "first\n");
    long awake = test_point_count(REACTOR_AWAKE);
    long selects = test_point_count(REACTOR_SELECTS);
    test_point_hold(WORKER_GUARD_HELD);
    test_point_release(WORKER_BEGINS);
    test_point_await_held(WORKER_GUARD_HELD, 1);
    test_point_await_count(REACTOR_AWAKE, awake + 1); /* it has been woken */
    test_point_expect_no_more(REACTOR_SELECTS, selects, QUIET_MS);
    test_point_release(WORKER_GUARD_HELD);
    test_point_await_count(REACTOR_SELECTS, selects + 1);
    client_expect_text(client, "first\n");
    client_echo(client, "second\n");
}

/* A wakeup before the guard is taken could be used up by a round that meets no barrier. */
BoxTest(stage3_schedules, a_worker_wakes_the_selector_when_it_has_the_guard_and_not_before,
        "--workers 1")
{
    white_box_hold_worker(&box, client, "hello\n");
    uint64_t asked = atomic_load(&box.reactor.selector.wakeups_asked);
    long handed_back = test_point_count(WORKER_HANDED_BACK);
    long ends = test_point_count(WORKER_ENDS);
    mutex_lock(&box.reactor.guard.lock);
    test_point_release(WORKER_BEGINS);
    test_point_await_count(WORKER_ENDS, ends + 1);
    test_point_expect_no_more(WORKER_HANDED_BACK, handed_back, QUIET_MS);
    uint64_t asked_without = atomic_load(&box.reactor.selector.wakeups_asked);
    mutex_unlock(&box.reactor.guard.lock);
    test_point_await_count(WORKER_HANDED_BACK, handed_back + 1);
    cr_assert_eq(asked_without, asked, "it has no guard, and has called already");
    cr_assert_eq(atomic_load(&box.reactor.selector.wakeups_asked), asked + 1);
    client_expect_text(client, "hello\n");
}

/* ---- case 34: the connection dies while a worker has it ---- */

/* The reactor is told of the reset, and leaves the handler alone: nobody is interested. */
BoxTest(stage3_schedules, case_34_reset_while_it_is_processed, "--workers 2")
{
    int other = white_box_connect(&box);
    white_box_hold_worker(&box, client, "too late\n");
    client_reset(client);
    echo_to_the_end(other, "still here\n");
    cr_assert_eq(white_box_counter(&box, COUNTER_CLOSED), 0, "closed while a worker has it");
    test_point_release(WORKER_BEGINS);
    white_box_await(&box, COUNTER_CLOSED, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_BYTES_OUT), strlen("still here\n"),
                 "the reply to a dead connection should be dropped");
    echo_to_the_end(other, "and still\n");
}

/* The reply was written, and the connection dies before selection resumes. */
BoxTest(stage3_schedules, case_34_reset_between_the_reply_and_the_hand_back, "--workers 2")
{
    int other = white_box_connect(&box);
    test_point_hold(WORKER_ENDS);
    client_echo(client, "in time\n");
    test_point_await_held(WORKER_ENDS, 1);
    client_reset(client);
    echo_to_the_end(other, "still here\n");
    cr_assert_eq(white_box_counter(&box, COUNTER_CLOSED), 0, "closed while a worker has it");
    test_point_release(WORKER_ENDS);
    white_box_await(&box, COUNTER_CLOSED, 1);
    echo_to_the_end(other, "and still\n");
}

/**
 * The reactor is past the barrier and has not selected yet; then a worker has taken the guard and
 * resumed selection of the client, whose line has been answered, and holds the guard.
 */
static void hold_between_barrier_and_select(int client)
{
    test_point_hold(REACTOR_SELECTS);
    test_point_hold(WORKER_ENDS);
    client_echo(client, "hello\n");
    test_point_await_held(REACTOR_SELECTS, 1);
    test_point_await_held(WORKER_ENDS, 1);
    test_point_hold(WORKER_RESUMED);
    test_point_release(WORKER_ENDS);
    test_point_await_held(WORKER_RESUMED, 1);
}

/*
 * The reactor is past the barrier, so as soon as selection has been resumed it can see the reset,
 * while the worker has not let go of the handler yet. It must not close the connection before that
 * (AddressSanitizer would tell).
 */
BoxTest(stage3_schedules, case_34_reset_seen_while_the_worker_still_holds_the_guard, "--workers 1")
{
    hold_between_barrier_and_select(client);
    long awake = test_point_count(REACTOR_AWAKE);
    client_reset(client);
    test_point_release(REACTOR_SELECTS);
    test_point_await_count(REACTOR_AWAKE, awake + 1);
    test_point_expect_no_more(REACTOR_AWAKE, awake + 1, QUIET_MS);
    cr_assert_eq(white_box_counter(&box, COUNTER_CLOSED), 0, "closed while a worker has it");
    test_point_release(WORKER_RESUMED);
    white_box_await(&box, COUNTER_CLOSED, 1);
    int other = client_connect(&box.process);
    echo_to_the_end(other, "the worker is well\n");
}

/* As above, a moment later. */
BoxTest(stage3_schedules, case_34_closed_when_the_worker_has_let_the_guard_go, "--workers 1")
{
    test_point_hold(WORKER_HANDED_BACK);
    client_echo(client, "hello\n");
    test_point_await_held(WORKER_HANDED_BACK, 1);
    client_half_close(client);
    expect_closed(client, 1);
    test_point_release(WORKER_HANDED_BACK);
    int other = client_connect(&box.process);
    echo_to_the_end(other, "the worker is well\n");
}

/* A deadline that passes while a worker has the connection closes it when it is back. */
Test(stage3_schedules, case_34_a_deadline_waits_for_the_worker)
{
    white_box_start(&box, "--workers 1 --lifetime 0.3");
    double over = test_now() + 0.3; /* or later */
    int client = white_box_connect(&box);
    white_box_hold_worker(&box, client, "slow\n");
    long awake = test_point_count(REACTOR_AWAKE);
    if (test_now() < over) /* otherwise its timer may have woken the reactor already */
        test_point_await_count(REACTOR_AWAKE, awake + 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_CLOSED), 0, "closed while a worker has it");
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "slow\n");
    expect_closed(client, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_TIMED_OUT), 1);
    white_box_stop(&box);
}

/* A timer that fires meanwhile is set again when the connection is back: that is idle then. */
Test(stage3_schedules, case_34_a_timer_that_fires_meanwhile_is_set_again)
{
    white_box_start(&box, "--workers 1 --idle-timeout 0.3");
    double over = test_now() + 0.3; /* or later */
    int client = white_box_connect(&box);
    white_box_hold_worker(&box, client, "slow\n");
    long awake = test_point_count(REACTOR_AWAKE);
    if (test_now() < over) /* otherwise its timer may have woken the reactor already */
        test_point_await_count(REACTOR_AWAKE, awake + 1);
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "slow\n");
    expect_closed(client, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_TIMED_OUT), 1);
    white_box_stop(&box);
}

/* ---- stopping ---- */

static void tell_to_stop(void)
{
    kill(getpid(), SIGTERM);
    client_await_refusal(&box.process);
}

BoxTest(stage3_schedules, stopping_waits_for_the_worker_and_its_reply,
        "--workers 1 --drain-timeout 60")
{
    int waiting = white_box_connect(&box);
    white_box_hold_worker(&box, client, "being processed\n");
    client_send_text(waiting, "still in the queue\n");
    white_box_await(&box, COUNTER_BYTES_IN, strlen("being processed\nstill in the queue\n"));
    tell_to_stop();
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "being processed\n");
    client_expect_end(client);
    client_expect_text(waiting, "still in the queue\n");
    client_expect_end(waiting);
    white_box_end(&box);
}

/* What came in while the worker was busy has arrived before the stop, and is answered too. */
BoxTest(stage3_schedules, stopping_answers_what_the_socket_still_holds,
        "--workers 1 --drain-timeout 60")
{
    white_box_hold_worker(&box, client, "first\n");
    client_send_text(client, "second\nthird\nunfinished");
    client_await_delivered(client);
    tell_to_stop();
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "first\nsecond\nthird\n");
    client_expect_end(client);
    white_box_end(&box);
}

/* The worker has found the server not stopping, and resumed selection, when that begins. */
BoxTest(stage3_schedules, stopping_as_a_worker_resumes_selection, "--workers 1 --drain-timeout 60")
{
    hold_between_barrier_and_select(client);
    kill(getpid(), SIGTERM);
    long awake = test_point_count(REACTOR_AWAKE);
    test_point_release(REACTOR_SELECTS);
    test_point_await_count(REACTOR_AWAKE, awake + 1);
    test_point_release(WORKER_RESUMED);
    client_expect_end(client);
    white_box_end(&box);
}

/*
 * The stop and a line arrive in one round. The stop comes first, takes the line in and gives it to
 * a worker; the line's own event must not be delivered to a handler that a worker has.
 */
BoxTest(stage3_schedules, stopping_in_the_same_round_as_an_event, "--workers 2 --drain-timeout 60")
{
    int other = white_box_connect(&box);
    test_point_hold(REACTOR_SELECTS);
    echo_to_the_end(other, "the reactor comes round\n");
    test_point_await_held(REACTOR_SELECTS, 1);
    long begun = test_point_count(WORKER_BEGINS);
    test_point_hold(WORKER_BEGINS);
    kill(getpid(), SIGTERM);
    client_send_text(client, "hello\n");
    client_await_delivered(client);
    test_point_release(REACTOR_SELECTS);
    test_point_await_held(WORKER_BEGINS, 1);
    client_expect_end(other);
    test_point_expect_no_more(WORKER_BEGINS, begun + 1, QUIET_MS);
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "hello\n");
    client_expect_end(client);
    white_box_end(&box);
}

/** The drain timeout has passed, and nobody waits for a worker any more. */
static void await_cut(void)
{
    WAIT_FOR(atomic_load(&box.server.service.cut_short));
    WAIT_FOR(executor_stats(&box.executor).waiting <= 0);
}

/* At the drain timeout connections are cut, but not from under a worker. */
BoxTest(stage3_schedules, stopping_cuts_no_connection_from_under_a_worker,
        "--workers 1 --drain-timeout 0.1")
{
    int waiting = white_box_connect(&box);
    white_box_hold_worker(&box, client, "being processed\n");
    client_send_text(waiting, "never processed\n");
    white_box_await(&box, COUNTER_BYTES_IN, strlen("being processed\nnever processed\n"));
    kill(getpid(), SIGTERM);
    await_cut();
    client_expect_silence(client, QUIET_MS);
    client_expect_silence(waiting, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_CLOSED), 0, "closed while a worker has it");
    cr_assert_not(atomic_load(&box.ended), "ended while a worker runs");
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "being processed\n");
    client_expect_end(client);
    client_expect_gone(waiting);
    white_box_end(&box);
}

/* ---- case 32: before the loop runs ---- */

Test(stage3_schedules, case_32_a_stop_before_the_loop_runs_is_not_lost)
{
    white_box_open(&box, "--workers 1");
    kill(getpid(), SIGTERM);
    white_box_run(&box);
    white_box_end(&box);
}

Test(stage3_schedules, case_32_a_wakeup_before_the_loop_runs_is_not_lost)
{
    white_box_open(&box, "--workers 1");
    long awake = test_point_count(REACTOR_AWAKE);
    selector_wakeup(&box.reactor.selector);
    white_box_run(&box);
    test_point_await_count(REACTOR_AWAKE, awake + 1);
    white_box_await_asleep(&box);
    cr_assert_eq(test_point_count(REACTOR_AWAKE), awake + 1, "one wakeup, one round");
    white_box_stop(&box);
}

/* ---- a handler that is told to go on while a worker has it ---- */

/*
 * The worker has asked what the connection wants, and has not handed it back, when another thread
 * tells its handler to go on. The reactor finds it with a worker, and leaves it alone; so the
 * worker must see that something was asked since.
 */
BoxTest(stage3_schedules, one_that_is_told_to_go_on_before_it_is_handed_back_goes_on, "--workers 1")
{
    test_point_hold(WORKER_ENDS);
    client_send_text(client, "hold\n");
    test_point_await_held(WORKER_ENDS, 1);
    white_box_await_asleep(&box);
    long awake = test_point_count(REACTOR_AWAKE);
    channel_go_on(white_box_held, &white_box_hold);
    test_point_await_count(REACTOR_AWAKE, awake + 1);
    white_box_await_asleep(&box);
    test_point_release(WORKER_ENDS);
    client_expect_text(client, "went on\n");
    client_echo(client, "and on\n");
}

/* As before, but the worker has the guard already: the reactor waits for it, and then goes on. */
BoxTest(stage3_schedules, one_that_is_told_to_go_on_while_it_is_handed_back_goes_on, "--workers 1")
{
    test_point_hold(WORKER_RESUMED);
    client_send_text(client, "hold\n");
    test_point_await_held(WORKER_RESUMED, 1);
    channel_go_on(white_box_held, &white_box_hold);
    test_point_release(WORKER_RESUMED);
    client_expect_text(client, "went on\n");
}

/* ---- case 33: a change that the reactor itself enqueues ---- */

/* Under caller-runs it is the reactor that hands back, to itself, and goes to select right then. */
Test(stage3_schedules, case_33_what_the_reactor_hands_back_to_itself_does_not_wait)
{
    white_box_start(&box, "--workers 1 --queue direct --saturation caller-runs --max-line 10");
    cr_assert_eq(test_point_visitor(REACTOR_SELECTS), 0);
    int busy = white_box_connect(&box);
    int client = white_box_connect(&box);
    white_box_hold_worker(&box, busy, "busy\n");
    client_ask(client, TOO_LONG_FOLLOWS, TOO_LONG_REPLIES);
    expect_closed(client, 1);
    test_point_release(WORKER_BEGINS);
    client_expect_text(busy, "busy\n");
    cr_assert_eq(test_point_visitor(WORKER_BEGINS), test_point_visitor(REACTOR_SELECTS));
    cr_assert_eq(executor_stats(&box.executor).run_by_caller, 1);
    white_box_stop(&box);
}

/* ---- case 36: one at a time, in order ---- */

/* A second line, and a third, arrive while the first is processed and while it is handed back. */
BoxTest(stage3_schedules, case_36_two_messages_of_a_connection_are_never_processed_at_once,
        "--workers 4")
{
    int other = white_box_connect(&box);
    white_box_hold_worker(&box, client, "first\n");
    client_send_text(client, "second\n");
    client_await_delivered(client);
    echo_to_the_end(other, "the reactor has come round\n");
    white_box_await_asleep(&box);
    cr_assert_eq(test_point_count(WORKER_BEGINS), 2, "the second line is processed with the first");
    cr_assert_eq(white_box_counter(&box, COUNTER_BYTES_IN),
                 strlen("first\nthe reactor has come round\n"));

    test_point_hold(WORKER_ENDS);
    test_point_release(WORKER_BEGINS);
    test_point_await_held(WORKER_ENDS, 1);
    client_expect_text(client, "first\n");
    client_send_text(client, "third\n");
    client_await_delivered(client);
    echo_to_the_end(other, "the reactor has come round again\n");
    white_box_await_asleep(&box);
    cr_assert_eq(test_point_count(WORKER_BEGINS), 3, "the second line is processed too early");
    client_expect_silence(client, 1);

    test_point_release(WORKER_ENDS);
    client_expect_text(client, "second\nthird\n");
}

/* ---- case 29: nobody's batch is endless ---- */

/* The firehose's whole segment is in the queue; after a turn of it the other client's line is next,
 * with a single worker. */
Test(stage3_schedules, case_29_a_worker_goes_on_with_the_next_client_after_a_turn)
{
    enum { LINES = 256, TURN = 64 };
    white_box_start(&box, "--workers 1");
    int firehose = white_box_connect(&box);
    int other = white_box_connect(&box);
    size_t length;
    char *lines = lines_numbered("", LINES, &length);
    test_point_hold(WORKER_BEGINS);
    client_send(firehose, lines, length);
    test_point_await_held(WORKER_BEGINS, 1);
    client_send_text(other, "in between\n");
    white_box_await(&box, COUNTER_BYTES_IN, length + strlen("in between\n"));

    test_point_hold(WORKER_BEGINS);
    test_point_release(WORKER_BEGINS);
    test_point_await_held(WORKER_BEGINS, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_MESSAGES), TURN);
    test_point_hold(WORKER_BEGINS);
    test_point_release(WORKER_BEGINS);
    test_point_await_held(WORKER_BEGINS, 1);
    client_expect_text(other, "in between\n");
    cr_assert_eq(white_box_counter(&box, COUNTER_MESSAGES), TURN + 1);
    test_point_release(WORKER_BEGINS);
    client_expect(firehose, lines, length);
    free(lines);
    white_box_stop(&box);
}

/* ---- case 30: a flood of connections ---- */

/* The reactor accepts some, and then looks at the other events of the round. */
BoxTest(stage3_schedules, case_30_accepts_have_a_limit_in_each_round, "--workers 1")
{
    enum { FLOOD = 40, LIMIT = 16 };
    int flood[FLOOD];
    white_box_hold_worker(&box, client, "first\n");
    test_point_hold(REACTOR_SELECTS);
    test_point_release(WORKER_BEGINS);
    client_expect_text(client, "first\n");
    test_point_await_held(REACTOR_SELECTS, 1);
    clients_connect(&box.process, flood, FLOOD, NULL);
    client_send_text(client, "established\n");
    client_await_delivered(client);
    test_point_hold(REACTOR_BARRIER);
    test_point_release(REACTOR_SELECTS);
    test_point_await_held(REACTOR_BARRIER, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_ACCEPTED), 1 + LIMIT);
    client_expect_text(client, "established\n");
    test_point_release(REACTOR_BARRIER);
    white_box_await(&box, COUNTER_ACCEPTED, 1 + FLOOD);
    for (int i = 0; i < FLOOD; i++) {
        client_echo(flood[i], "accepted\n");
    }
}
