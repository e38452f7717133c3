/*
 * Timers, with the real clock and short times: each deadline passes not before its moment and soon
 * after it, whatever else is pending, and who waits for a moment that is far costs nothing.
 *
 * On a busy machine a thread may be woken late. A lower bound is strict; an upper bound is tried
 * again a few times, and the best of them counts.
 */
#include "framework.h"

#include "support/deadline.h"
#include "support/mapped.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(stage5_timers, .timeout = 120);

static struct framework framework;
static struct recorder recorder;

enum { LATE_MS = 100, TRIES = 10, SMALL_BUFFER = 8192 };

/* With them, what a socket takes later of an answer is less than counts as progress. */
#define SMALL_SOCKETS " --send-buffer 8192 --output-high-mark 16777216 --output-cap 16777216 "

static double connecting; /* when the last connection was made, or a little before */

static int begin(void)
{
    recorder_init(&recorder);
    return framework_connect(&framework, &recorder.handler);
}

/** A framework with these options, and a client who has been served. */
static int begin_with(const char *options)
{
    framework_start(&framework, "%s", options);
    int client = begin();
    client_echo(client, "hello\n");
    return client;
}

/** The only client has been timed out, or is soon. */
static void expect_timed_out(void)
{
    framework_await_closed(&framework, 1);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 1);
    framework_stop(&framework);
}

/** What happens before the time runs: it begins to between what this returns and its return. */
typedef double before_it_runs(int client);

/** How long after its moment a connection has ended, in seconds; asserts that it is not before. */
static double lateness(before_it_runs *prepare, double limit, uint64_t *ended)
{
    connecting = test_now();
    int client = begin();
    double earliest = prepare(client) + limit;
    double latest = test_now() + limit;
    framework_await_closed(&framework, ++*ended);
    double end = test_now();
    cr_assert(end > earliest - 0.002, "closed %.3f s before its %.3f s", earliest - end, limit);
    client_close(client);
    recorder_expect_whole_life(&recorder);
    return end - latest;
}

static void expect_exact(const char *options, before_it_runs *prepare, double limit)
{
    double least = 1e9;
    uint64_t tries = 0;
    framework_start(&framework, "--workers 0 %s", options);
    framework.buffers =
        (struct client_buffers){.receive = SMALL_BUFFER, .segment = CLIENT_ETHERNET_SEGMENT};
    while (tries < TRIES && least > LATE_MS / 1000.0) {
        double late = lateness(prepare, limit, &tries);
        least = late < least ? late : least;
    }
    cr_assert_leq(least, LATE_MS / 1000.0, "closed %.3f s late in the best of %d tries", least,
                  TRIES);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), tries);
    framework_stop(&framework);
}

/* ---- each at its moment ---- */

/* The time of what the client has seen began before that. */
static double after_an_echo(int client)
{
    double before = test_now();
    client_echo(client, "hello\n");
    return before;
}

static double with_half_a_line(int client)
{
    client_echo(client, "hello\n");
    double before = test_now();
    client_send_text(client, "half a li");
    return before;
}

static double since_it_has_come(int client)
{
    client_echo(client, "hello\n");
    return connecting;
}

static double with_output_that_waits(int client)
{
    double before = test_now();
    client_send_text(client, "big 2097152\n");
    client_await_reply(client);
    return before;
}

Test(stage5_timers, idle_timeout_is_exact)
{
    expect_exact("--idle-timeout 0.6", after_an_echo, 0.6);
}

Test(stage5_timers, request_timeout_is_exact)
{
    expect_exact("--request-timeout 0.15", with_half_a_line, 0.15);
}

Test(stage5_timers, progress_timeout_is_exact)
{
    expect_exact(SMALL_SOCKETS "--progress-timeout 0.2", with_output_that_waits, 0.2);
}

Test(stage5_timers, lifetime_is_exact)
{
    expect_exact("--lifetime 0.6", since_it_has_come, 0.6);
}

/* A later timer is pending when an earlier deadline begins to run. */
Test(stage5_timers, request_deadline_before_the_pending_idle_timer)
{
    expect_exact("--idle-timeout 300 --lifetime 400 --request-timeout 0.15", with_half_a_line,
                 0.15);
}

Test(stage5_timers, progress_deadline_before_the_pending_idle_timer)
{
    expect_exact(SMALL_SOCKETS "--idle-timeout 300 --progress-timeout 0.2", with_output_that_waits,
                 0.2);
}

/* A client that talks moves its deadline, but not its timer: that fires, and is set anew. */
static double after_some_talk(int client)
{
    double before = 0;
    for (int i = 0; i < 5; i++) {
        test_pause_ms(100);
        before = test_now();
        client_echo(client, "hello\n");
    }
    return before;
}

Test(stage5_timers, a_timer_that_fires_early_is_set_anew)
{
    expect_exact("--idle-timeout 0.4", after_some_talk, 0.4);
}

/* Nor is the timer moved for each message: a thousand of them, and it fires once in its time. */
Test(stage5_timers, a_busy_client_does_not_move_its_timer)
{
    enum { ROUNDS = 200 };
    int client = begin_with("--workers 0 --idle-timeout 300");
    framework_await_asleep(&framework);
    const struct timer *timer = timer_heap_first(&framework_dispatcher(&framework)->timers);
    int64_t moment = timer->moment;
    for (int i = 0; i < ROUNDS; i++) {
        client_echo(client, "hello\n");
    }
    framework_await_asleep(&framework);
    cr_assert_eq(timer->moment, moment);
    framework_close(&framework);
}

/* A worker has it when its life is over; the dispatcher notices meanwhile. */
Test(stage5_timers, lifetime_while_a_worker_runs)
{
    int client = begin_with("--workers 1 --lifetime 0.6 --idle-timeout 0.4");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "under way\n");
    test_point_await_held(RUN_BEGINS, 1);
    test_pause_ms(650);
    test_point_release(RUN_BEGINS);
    expect_timed_out();
}

/* The others' time does not run while it does; it begins when the run is over. */
Test(stage5_timers, idle_time_does_not_run_out_while_a_worker_runs)
{
    int client = begin_with("--workers 1 --idle-timeout 0.6");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "this takes longer than the timeout\n");
    test_point_await_held(RUN_BEGINS, 1);
    test_pause_ms(750);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 0);
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "this takes longer than the timeout\n");
    expect_timed_out(); /* and then it does */
}

/* Who is only talked to is not idle; once nobody says anything any more, he is. */
Test(stage5_timers, output_of_others_puts_the_idle_timeout_off)
{
    int client = begin_with("--workers 0 --idle-timeout 0.6");
    for (int i = 0; i < 6; i++) {
        test_pause_ms(150);
        recorder_send(&recorder, "are you there\n");
        client_expect_text(client, "are you there\n");
    }
    expect_timed_out();
}

/* Output of another thread, with nothing else going on: its time runs too. */
Test(stage5_timers, progress_of_what_another_thread_has_enqueued)
{
    enum { BIG = 2 << 20 };
    unsigned char *data = mapped(BIG);
    framework_start(&framework, SMALL_SOCKETS "--workers 0 --progress-timeout 0.2");
    framework.buffers =
        (struct client_buffers){.receive = SMALL_BUFFER, .segment = CLIENT_ETHERNET_SEGMENT};
    int client = begin();
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    channel_enqueue(recorder_facade(&recorder), piece_bytes(data, BIG));
    expect_timed_out();
}

/* ---- how slowly bytes leave, too, is a matter of timers ---- */

static void answer_slowly(const char *options)
{
    int client = begin_with(options);
    framework_await_asleep(&framework);
    channel_set_write_rate(recorder_facade(&recorder), 100);
    double begun = test_now();
    recorder_send(&recorder, "twenty bytes of text\n");
    client_expect_text(client, "twenty bytes of text\n");
    double took = test_now() - begun;
    cr_assert_gt(took, 0.21 * 0.7, "21 bytes at 100 B/s took %.3f s", took);
    cr_assert_lt(took, 3, "21 bytes at 100 B/s took %.3f s", took);
    framework_close(&framework);
}

/* No other timer is set, and no event comes: the rate's own has to be. */
Test(stage5_timers, held_back_output_has_a_timer_of_its_own)
{
    answer_slowly("--workers 0");
}

Test(stage5_timers, held_back_output_does_not_wait_for_a_later_timer)
{
    answer_slowly("--workers 2 --idle-timeout 300 --lifetime 300 --progress-timeout 300");
}

/* Whose output is held back is not idle, and its slowness is not the peer's. */
Test(stage5_timers, held_back_output_is_not_taken_for_a_slow_peer)
{
    int client = begin_with("--workers 0 --idle-timeout 0.6 --progress-timeout 0.1");
    channel_set_write_rate(recorder_facade(&recorder), 30);
    recorder_send(&recorder, "twenty bytes of text\n");
    client_expect_text(client, "twenty bytes of text\n");
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 0);
    framework_close(&framework);
}

/* ---- what waits costs nothing ---- */

enum { IDLE = 400 };
static struct recorder idle[IDLE];
static int idle_clients[IDLE];

static void register_idle(int count)
{
    for (int i = 0; i < count; i++) {
        recorder_init(&idle[i]);
        idle_clients[i] = framework_connect(&framework, &idle[i].handler);
    }
}

static void connect_idle(int count)
{
    register_idle(count);
    clients_echo(idle_clients, count, "hello\n");
}

/* With all timeouts on, some of them begun: until the first moment the dispatchers sleep. */
Test(stage5_timers, nobody_wakes_up_for_times_that_are_far)
{
    enum { HALVES = 4 };
    framework_start(&framework, "--workers 0 --dispatchers 2 --idle-timeout 300 "
                                "--request-timeout 200 --lifetime 400 --progress-timeout 100");
    connect_idle(IDLE);
    clients_send_text(idle_clients, HALVES, "half a line");
    framework_await_count(&framework, COUNTER_BYTES_IN,
                          IDLE * strlen("hello\n") + HALVES * strlen("half a line"));
    framework_await_asleep(&framework);
    long before = test_point_count(DISPATCHER_AWAKE);
    test_point_expect_no_more(DISPATCHER_AWAKE, before, 400);
    framework_close(&framework);
}

/* The same number of connections with times that pass: each is told once, and soon. They say
 * nothing, because on a busy machine the first ones' time has passed before the last one has come.
 */
Test(stage5_timers, many_times_that_pass_at_once)
{
    double begun = test_now();
    framework_start(&framework, "--workers 0 --dispatchers 2 --idle-timeout 0.5");
    register_idle(IDLE);
    framework_await_closed(&framework, IDLE);
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), IDLE);
    cr_assert_gt(test_now() - begun, 0.49);
    framework_close(&framework);
}

/* ---- no memory for a timer ---- */

enum { ROOM = 15 }; /* of a timer heap, beside the dispatcher's own, before it has to grow */

/* Costs that connection, and no other; the next one finds memory again. */
Test(stage5_timers, no_memory_for_a_timer_costs_that_connection_only)
{
    framework_start(&framework, "--workers 0");
    connect_idle(ROOM);
    framework_await_asleep(&framework);
    failing_reallocations_elsewhere(1);
    int client = begin();
    client_expect_gone(client);
    client_close(client);
    cr_assert_eq(failing_reallocations_left(), 0, "nothing failed");
    framework_await_closed(&framework, 1);
    recorder_expect_whole_life(&recorder);
    clients_echo(idle_clients, ROOM, "still here\n");
    client = begin();
    client_echo(client, "and so am I\n");
    client_close(client);
    framework_await_closed(&framework, 2);
    recorder_expect_whole_life(&recorder);
    framework_close(&framework);
}

/* The drain timeout is exact, too, and is the same for every dispatcher. */
Test(stage5_timers, cut_off_is_exact)
{
    enum { DISPATCHERS = 3 };
    const double drain = 0.3;
    framework_start(&framework, SMALL_SOCKETS "--workers 0 --dispatchers 3 --drain-timeout 0.3");
    framework.buffers =
        (struct client_buffers){.receive = SMALL_BUFFER, .segment = CLIENT_ETHERNET_SEGMENT};
    connect_idle(DISPATCHERS);
    for (int i = 0; i < DISPATCHERS; i++) {
        client_send_text(idle_clients[i], "big 2097152\n");
        client_await_reply(idle_clients[i]);
        recorder_await(&idle[i], messages, 2);
    }
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    double took = test_now() - begun;
    cr_assert(took > drain - 0.05 && took < drain + 3, "cut off after %.3f s instead of %.3f", took,
              drain);
}
