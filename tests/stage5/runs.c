/*
 * Runs, in the dispatcher itself and in workers: a connection has one at a time (errata 8 and 16,
 * case 36), what others want of it meanwhile is not lost (errata 17 and 18), and what a dispatcher
 * changes itself it does not sleep over, nor wake itself for (case 33).
 */
#include "framework.h"

#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage5_runs, .timeout = 120);

static struct framework framework;
static struct recorder recorder;
static struct recorder other;

/* More than the sockets take, with buffers of the size of which framework_open() is told. */
enum { BIG = 2 << 20, SMALL_BUFFER = 65536 };
#define SMALL_SOCKETS " --send-buffer 65536 --output-high-mark 16777216 --output-cap 16777216 "

static int connect_to(struct recorder *handler)
{
    recorder_init(handler);
    int client = framework_connect(&framework, &handler->handler);
    client_echo(client, "hello\n");
    return client;
}

static void start(const char *workers, const char *options)
{
    test_point_count(RUN_BEGINS);
    test_point_count(RUN_DONE);
    framework_start(&framework, "%s %s", workers, options);
    framework.buffers =
        (struct client_buffers){.receive = SMALL_BUFFER, .segment = CLIENT_ETHERNET_SEGMENT};
}

/** A connection whose first message was answered; the run that it was is over. */
static int begin(const char *workers, const char *options)
{
    start(workers, options);
    int client = connect_to(&recorder);
    framework_await_asleep(&framework);
    return client;
}

static void set_reading(struct recorder *handler, bool on)
{
    (on ? channel_resume : channel_suspend)(recorder_facade(handler));
}

static void enqueue(struct recorder *handler, char *text, size_t length)
{
    channel_enqueue(recorder_facade(handler), piece_bytes(text, length));
}

static uint64_t wakeups(void)
{
    return atomic_load(&framework_dispatcher(&framework)->selector.wakeups_asked);
}

/* ---- one run at a time ---- */

/* In Roth's code each read event schedules a task, and those of a busy connection fill the pool. */
Test(stage5_runs, erratum_16_a_busy_connection_has_one_worker)
{
    enum { LINES = 10 };
    int client = begin("--workers 4", "");
    test_point_hold(RUN_BEGINS);
    long runs = test_point_count(RUN_BEGINS);
    for (int i = 0; i < LINES; i++) {
        client_send_text(client, "again and again\n");
        client_await_delivered(client);
        if (i == 0) {
            test_point_await_held(RUN_BEGINS, 1);
        }
    }
    framework_await_asleep_but(&framework, 1); /* the others have nothing to do */
    cr_assert_eq(executor_stats(&framework.executor).waiting, 0);
    cr_assert_eq(test_point_count(RUN_BEGINS), runs + 1);
    connect_to(&other); /* answered, while the first is not */
    test_point_release(RUN_BEGINS);
    for (int i = 0; i < LINES; i++) {
        client_expect_text(client, "again and again\n");
    }
    framework_close(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), LINES + 1);
}

/* The dispatcher may see an adapter as soon as it is in the queue: it is dead by then, or not. */
OneClientTest(stage5_runs, erratum_07_dead_before_it_can_be_seen, "")
{
    test_point_hold(RUN_ENDED);
    long runs = test_point_count(RUN_BEGINS);
    client_send_text(client, "lose\nand more\n");
    test_point_await_held(RUN_ENDED, 1);
    set_reading(&recorder, false);
    set_reading(&recorder, true);
    recorder_send(&recorder, "from another thread\n");
    channel_close(recorder_facade(&recorder));
    test_point_release(RUN_ENDED);
    framework_await_closed(&framework, 1);
    cr_assert_eq(test_point_count(RUN_BEGINS), runs + 1, "a handler that was over ran again");
    framework_stop(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
}

/* ---- nothing is lost ---- */

/*
 * The socket has taken a part of a message. Others enqueue; then the dispatcher drains. Roth's
 * drain() empties the queue first, and has to put back in front what the socket does not take.
 */
OneClientTest(stage5_runs, erratum_17_what_a_partial_write_left_stays_in_front, SMALL_SOCKETS)
{
    enum { OTHERS = 200 };
    char *text = mapped(BIG);
    size_t taken = 0;
    double limit = test_deadline();
    for (size_t i = 0; i < BIG; i++) {
        text[i] = (char)('a' + i % 23);
    }
    enqueue(&recorder, text, BIG); /* the socket takes some, the rest waits */
    framework_await_asleep(&framework);
    test_point_hold(DISPATCHER_AWAKE);
    long before = test_point_count(DISPATCHER_AWAKE);
    while (test_point_count(DISPATCHER_AWAKE) == before && test_left_ms(limit) > 0) {
        size_t got; /* so the socket can take some more, and it is again a part */
        char bytes[4096];
        client_try_receive(client, bytes, sizeof bytes, test_now() + 0.01, &got);
        cr_assert_eq(memcmp(bytes, text + taken, got), 0);
        taken += got;
    }
    test_point_await_held(DISPATCHER_AWAKE, 1);
    for (int i = 0; i < OTHERS; i++) {
        char line[32];
        snprintf(line, sizeof line, "other line %04d\n", i);
        recorder_send(&recorder, line);
        if (i == OTHERS / 2) {
            test_point_release(DISPATCHER_AWAKE);
        }
    }
    client_expect(client, text + taken, BIG - taken);
    for (int i = 0; i < OTHERS; i++) {
        char line[32];
        snprintf(line, sizeof line, "other line %04d\n", i);
        client_expect_text(client, line);
    }
}

struct sender {
    int number;
    pthread_t thread;
};

enum { SENDERS = 4, LINES_EACH = 4000, LINE = 16 };

static void *send_lines(void *argument)
{
    const struct sender *sender = argument;
    for (int i = 0; i < LINES_EACH; i++) {
        char line[2 * LINE];
        snprintf(line, sizeof line, "%d says %07d.\n", sender->number, i);
        recorder_send(&recorder, line);
    }
    return NULL;
}

/* Many at once, with a socket that takes a part of everything: whole lines, each sender's in order.
 */
OneClientTest(stage5_runs, erratum_17_lines_of_many_threads_stay_whole_and_in_order, SMALL_SOCKETS)
{
    enum { ALL = SENDERS * LINES_EACH * LINE };
    static char got[ALL];
    struct sender senders[SENDERS];
    int next[SENDERS] = {0};
    for (int i = 0; i < SENDERS; i++) {
        senders[i].number = i;
        cr_assert_eq(pthread_create(&senders[i].thread, NULL, send_lines, &senders[i]), 0);
    }
    size_t length;
    enum client_outcome outcome = client_try_receive(client, got, ALL, test_deadline(), &length);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(senders[i].thread, NULL);
    }
    cr_assert_eq(outcome, CLIENT_GOT, "%zu of %d bytes, then %s", length, ALL,
                 client_outcome_text(outcome));
    for (const char *line = got; line < got + ALL; line += LINE) {
        char expected[2 * LINE];
        int number = line[0] - '0';
        cr_assert(number >= 0 && number < SENDERS, "`%.16s` at %d", line, (int)(line - got));
        snprintf(expected, sizeof expected, "%d says %07d.\n", number, next[number]++);
        cr_assert_eq(memcmp(line, expected, LINE), 0, "`%.16s` instead of `%s`", line, expected);
    }
}

/*
 * Between the dispatcher's dispatch and its round of status changes: the run is done, and the
 * dispatcher has not looked yet. Where an adapter's interest is a copy of the key's, as on
 * Hitchens' slides, what is asked for there can be overwritten.
 */
Test(stage5_runs, erratum_18_output_between_dispatch_and_status_round)
{
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    start("--workers 0", SMALL_SOCKETS);
    int client = connect_to(&recorder);
    int second = connect_to(&other);
    framework_await_asleep(&framework);
    test_point_hold(RUN_DONE);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_DONE, 1);
    enqueue(&recorder, text, BIG); /* of the one that has just run, */
    enqueue(&other, text, BIG);    /* and of one that rests */
    test_point_release(RUN_DONE);
    client_expect_text(client, "one\n");
    client_expect(client, text, BIG);
    client_expect(second, text, BIG);
    framework_close(&framework);
}

Test(stage5_runs, erratum_18_interest_between_dispatch_and_status_round)
{
    start("--workers 0", "");
    int client = connect_to(&recorder);
    int second = connect_to(&other);
    framework_await_asleep(&framework);
    test_point_hold(RUN_DONE);
    client_send_text(client, "one\n");
    test_point_await_held(RUN_DONE, 1);
    client_expect_text(client, "one\n");
    set_reading(&recorder, false);
    set_reading(&other, false);
    test_point_release(RUN_DONE);
    framework_await_asleep(&framework);
    client_send_text(client, "two\n");
    client_send_text(second, "two\n");
    client_expect_silence(client, 50);
    client_expect_silence(second, 1);
    test_point_hold(DISPATCHER_AWAKE);
    selector_wakeup(&framework_dispatcher(&framework)->selector);
    test_point_await_held(DISPATCHER_AWAKE, 1);
    set_reading(&recorder, true);
    set_reading(&other, true);
    test_point_release(DISPATCHER_AWAKE);
    client_expect_text(client, "two\n");
    client_expect_text(second, "two\n");
    framework_close(&framework);
}

/* Selected, and not dispatched yet: what others do in between holds for the run. */
OneClientTest(stage5_runs, erratum_18_changes_between_select_and_dispatch, SMALL_SOCKETS)
{
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    test_point_hold(DISPATCHER_AWAKE);
    client_send_text(client, "not before it is wanted\n");
    test_point_await_held(DISPATCHER_AWAKE, 1);
    set_reading(&recorder, false);
    enqueue(&recorder, text, BIG);
    test_point_release(DISPATCHER_AWAKE);
    client_expect(client, text, BIG);
    client_expect_silence(client, 50);
    set_reading(&recorder, true);
    client_expect_text(client, "not before it is wanted\n");
}

/* While the handler runs: kept, and merged with what the handler itself has changed. */
OneClientTest(stage5_runs, erratum_18_changes_during_a_run, SMALL_SOCKETS)
{
    char *text = mapped(BIG);
    memset(text, 'x', BIG);
    test_point_hold(RUN_ENDED);
    client_send_text(client, "suspend\nnot yet\n");
    test_point_await_held(RUN_ENDED, 1);
    enqueue(&recorder, text, BIG);
    set_reading(&recorder, true);
    test_point_release(RUN_ENDED);
    client_expect(client, text, BIG);
    client_expect_text(client, "not yet\n"); /* it was in the input queue: no event tells of it */
}

/* ---- many at once ---- */

enum { CLIENTS = 9, DISPATCHERS = 3 };

static struct recorder recorders[CLIENTS];

struct toggler {
    atomic_bool stop;
    pthread_t thread;
};

static void *toggle(void *argument)
{
    struct toggler *toggler = argument;
    for (unsigned i = 0; !atomic_load(&toggler->stop); i++) {
        set_reading(&recorders[i % CLIENTS], false);
        set_reading(&recorders[i % CLIENTS], true);
        test_await(-1, 0, test_now() + 0.0001);
    }
    return NULL;
}

/* Pipelined messages of many connections on several dispatchers, others changing their interest. */
static void keep_order(const char *options)
{
    enum { LINES = 2000 };
    static char lines[LINES * 8];
    int clients[CLIENTS];
    struct toggler toggler = {0};
    size_t length = 0;
    framework_start(&framework, "%s", options);
    for (int i = 0; i < CLIENTS; i++) {
        recorder_init(&recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
    }
    for (int i = 0; i < LINES; i++) {
        length += (size_t)sprintf(lines + length, "%d\n", i);
    }
    cr_assert_eq(pthread_create(&toggler.thread, NULL, toggle, &toggler), 0);
    for (int i = 0; i < CLIENTS; i++) {
        client_send(clients[i], lines, length);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect(clients[i], lines, length);
    }
    atomic_store(&toggler.stop, true);
    pthread_join(toggler.thread, NULL);
    framework_close(&framework);
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_eq(atomic_load(&recorders[i].messages), LINES);
    }
}

Test(stage5_runs, case_36_one_at_a_time_and_in_order_over_several_dispatchers)
{
    keep_order("--dispatchers 3 --workers 0");
}

Test(stage5_runs, case_36_one_at_a_time_and_in_order_over_dispatchers_and_workers)
{
    keep_order("--dispatchers 3 --workers 4");
}

/* Where its dispatcher is, there a connection stays: one thread runs all of its messages. */
Test(stage5_runs, a_connection_stays_with_its_dispatcher)
{
    int clients[CLIENTS];
    int threads[CLIENTS];
    start("--workers 0", "--dispatchers 3");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = connect_to(&recorders[i]);
        threads[i] = atomic_load(&recorders[i].thread);
        for (int before = 0; before < i; before++) {
            cr_assert_eq(threads[i] == threads[before], i % DISPATCHERS == before % DISPATCHERS,
                         "connections %d and %d of %d dispatchers", before, i, DISPATCHERS);
        }
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            client_echo(clients[i], "hello\n");
            cr_assert_eq(atomic_load(&recorders[i].thread), threads[i]);
        }
    }
    framework_close(&framework);
}

/* ---- what the dispatcher does itself ---- */

/*
 * Without workers every status change is the dispatcher's own. Each is looked at before it sleeps
 * again, and not one asks for a wakeup: more messages than a run takes, an answer that has to wait,
 * a close.
 */
Test(stage5_runs, case_33_own_changes_neither_wait_nor_wake)
{
    enum { LINES = 500 };
    char *text = mapped(BIG + 1);
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    int client = begin("--workers 0", SMALL_SOCKETS);
    uint64_t before = wakeups();
    client_send(client, lines, length);
    client_expect(client, lines, length);
    memset(text, 'x', BIG);
    text[BIG] = '\n';
    client_send_text(client, "big 2097152\nclose\n");
    client_expect(client, text, BIG + 1);
    client_expect_text(client, "closing\n");
    client_expect_end(client);
    client_close(client);
    framework_await_closed(&framework, 1);
    cr_assert_eq(wakeups(), before, "the dispatcher has woken itself %d times",
                 (int)(wakeups() - before));
    framework_stop(&framework);
    free(lines);
}

/* What one dispatcher's handler wants of another's connection does wake that one. */
Test(stage5_runs, case_33_another_dispatchers_connection_is_woken)
{
    start("--workers 0", "--dispatchers 2");
    int client = connect_to(&recorder);
    int second = connect_to(&other);
    framework_await_asleep(&framework);
    set_reading(&other, false);
    framework_await_asleep(&framework);
    client_send_text(second, "not read yet\n");
    client_expect_silence(second, 20);
    recorder.other = &other; /* `wake` has the second connection read again */
    client_send_text(client, "wake\n");
    client_expect_text(second, "not read yet\n");
    framework_close(&framework);
}

struct firehose {
    int fd;
    atomic_bool stop;
    atomic_long sent;
    pthread_t sender;
    pthread_t receiver;
};

static void *pour(void *argument)
{
    struct firehose *firehose = argument;
    static char lines[65536];
    memset(lines, '\n', sizeof lines);
    while (!atomic_load(&firehose->stop)) {
        atomic_fetch_add(&firehose->sent, (long)client_try_send(firehose->fd, lines, sizeof lines,
                                                                test_now() + 0.05));
    }
    return NULL;
}

static void *swallow(void *argument)
{
    struct firehose *firehose = argument;
    static char bin[65536];
    size_t got;
    while (!atomic_load(&firehose->stop)) {
        client_try_receive(firehose->fd, bin, sizeof bin, test_now() + 0.05, &got);
    }
    return NULL;
}

/*
 * One that always has input gives the others of its dispatcher their turn after each run. How many
 * messages of the one come before a message of another that is there already, no clock decides.
 */
Test(stage5_runs, case_29_endless_input_does_not_starve_the_others_of_its_dispatcher)
{
    enum { ROUNDS = 10, A_RUN = 64, MOST = 4 * A_RUN };
    struct firehose firehose = {0};
    start("--workers 0", "");
    firehose.fd = connect_to(&recorder);
    int second = connect_to(&other);
    cr_assert_eq(pthread_create(&firehose.sender, NULL, pour, &firehose), 0);
    cr_assert_eq(pthread_create(&firehose.receiver, NULL, swallow, &firehose), 0);
    recorder_await(&recorder, messages, 10000);
    for (int i = 0; i < ROUNDS; i++) {
        test_point_hold(DISPATCHER_AWAKE);
        test_point_await_held(DISPATCHER_AWAKE, 1);
        client_send_text(second, "and what about me\n");
        client_await_delivered(second);
        int before = atomic_load(&recorder.turn);
        test_point_release(DISPATCHER_AWAKE);
        client_expect_text(second, "and what about me\n");
        int passed = atomic_load(&other.turn) - before;
        cr_assert_leq(passed, MOST, "%d messages of the one came before a message of the other",
                      passed);
    }
    int poured = atomic_load(&recorder.messages);
    recorder_await(&recorder, messages, poured + 1); /* it was endless */
    atomic_store(&firehose.stop, true);
    pthread_join(firehose.sender, NULL);
    pthread_join(firehose.receiver, NULL);
    framework_close(&framework);
}

/* What the thread of one writes in each round, and what the thread of the next reads in each. */
Test(stage5_runs, two_dispatchers_share_no_cache_line)
{
    enum { LINE_SIZE = 64 };
    framework_open(&framework, "--dispatchers 3 --workers 0");
    const struct dispatcher *dispatchers = framework.pool.dispatchers;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq((uintptr_t)&dispatchers[i] % LINE_SIZE, 0, "dispatcher %d begins at %p", i + 1,
                     (const void *)&dispatchers[i]);
    }
    framework_run(&framework);
    framework_stop(&framework);
}

/* ---- the output lock ---- */

static atomic_int output_locks;

static void lock_counted(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    atomic_fetch_add(&output_locks, 1);
    handler_adapter_sharing.lock_output(connection);
}

/* An answer of one piece to a message that came alone leaves at once: who sent it has seen that. */
WaysTest(stage5_runs, an_answer_that_is_not_held_back_takes_one_output_lock)
{
    struct connection_sharing sharing = handler_adapter_sharing;
    struct input_handler_verbs verbs;
    sharing.lock_output = lock_counted;
    recorder_init(&recorder);
    verbs = *recorder.handler.verbs;
    verbs.one_piece = true;
    recorder.handler.verbs = input_handler_complete(&verbs);
    framework_open(&framework, "%s", workers);
    framework_dispatcher(&framework)->home.sharing = &sharing;
    framework_run(&framework);
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    uint64_t sent = framework_count(&framework, COUNTER_BYTES_OUT);
    int before = atomic_load(&output_locks);
    client_echo(client, "hello again\n");
    framework_await_asleep(&framework);
    cr_assert_eq(atomic_load(&output_locks) - before, 1, "%d output locks for one answer",
                 atomic_load(&output_locks) - before);
    cr_assert_eq(framework_count(&framework, COUNTER_BYTES_OUT) - sent, strlen("hello again\n"));
    client_echo(client, "two\nat once\n");
    framework_close(&framework);
}
