/*
 * Tasks that a handler begins, and their results (channel_begin()).
 */
#include "framework.h"

#include "common/apps/pop3/pop3_hash.h"
#include "inside/errands.h"
#include "inside/one_client.h"
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage4_tasks, .timeout = 120);

enum { ERRANDS = 12 };

static struct errand errands[ERRANDS + 1];

static int begin(const char *ways, const char *options)
{
    recorder_init(&recorder);
    errands_init(errands, ERRANDS, &recorder);
    test_point_count(HELPER_ENDS);
    return begin_serving(ways, options);
}

/** Sends lines and waits until a helper is held in front of the first task. */
static void begin_held(int client, const char *lines)
{
    test_point_hold(HELPER_BEGINS);
    client_send_text(client, lines);
    client_await_delivered(client);
    test_point_await_held(HELPER_BEGINS, 1);
    framework_await_asleep(&framework);
}

/* Nothing happens that the dispatcher would have to wake up for. */
static void expect_rest(const char *while_what)
{
    long before = test_point_count(DISPATCHER_AWAKE);
    test_pause_ms(100);
    long rounds = test_point_count(DISPATCHER_AWAKE) - before;
    cr_assert_leq(rounds, 4, "the dispatcher woke up %ld times while %s", rounds, while_what);
}

/* The handler's thread goes on to others; the client's own next message has to wait. */
OneClientTest(stage4_tasks, nobody_else_waits, "")
{
    static struct recorder other;
    recorder_init(&other);
    begin_held(client, "pause\nafter\n");
    int second = framework_connect(&framework, &other.handler);
    client_echo(second, "is anybody there\n");
    framework_await_asleep(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 2, "a message did not wait for the result");
    errand_expect(&errands[0], 0, 0, 0);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\nafter\n");
    framework_close(&framework);
    errand_expect(&errands[0], 1, 1, 0);
    cr_assert_neq(errands[0].thread, atomic_load(&recorder.thread), "no helper did it");
}

OneClientTest(stage4_tasks, messages_may_go_on, "")
{
    begin_held(client, "errand\nmeanwhile\n");
    client_expect_text(client, "meanwhile\n");
    client_echo(client, "and so on\n");
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\n");
}

/* The second task is done first. */
OneClientTest(stage4_tasks, results_come_in_the_order_of_begin, "")
{
    test_point_hold(HELPER_ENDS);
    client_send_text(client, "errand\n");
    test_point_await_held(HELPER_ENDS, 1);
    client_ask(client, "errand\nerrand\nlast\n", "last\n");
    test_point_await_count(HELPER_ENDS, 3);
    framework_await_asleep(&framework);
    errand_expect(&errands[1], 1, 0, 0);
    test_point_release(HELPER_ENDS);
    client_expect_text(client, "done 0\ndone 1\ndone 2\n");
}

/* A client that begins tasks without an end has only so many of them under way. */
OneClientTest(stage4_tasks, so_many_tasks_and_no_more_messages, "")
{
    test_point_hold(HELPER_BEGINS);
    test_point_hold(HELPER_BEGINS);
    for (int i = 0; i < ERRANDS; i++) {
        client_send_text(client, "errand\n");
    }
    client_await_delivered(client);
    test_point_await_held(HELPER_BEGINS, 2);
    recorder_await(&recorder, messages, 1 + CHANNEL_TASKS_MAX);
    framework_await_asleep(&framework);
    cr_assert_eq(atomic_load(&recorder.messages), 1 + CHANNEL_TASKS_MAX);
    test_point_release(HELPER_BEGINS);
    test_point_release(HELPER_BEGINS);
    for (int i = 0; i < ERRANDS; i++) {
        char text[32];
        snprintf(text, sizeof text, "done %d\n", i);
        client_expect_text(client, text);
    }
}

/*
 * The first is in a helper's hands, so it is too late. The second is dropped in its turn, between
 * the results of the others, and its client is still there.
 */
OneClientTest(stage4_tasks, cancelled_before_a_helper_has_it_it_never_runs, "--helpers 1")
{
    begin_held(client, "errand\nerrand\nerrand\n");
    client_ask(client, "give up 0\n", "too late\n");
    client_ask(client, "give up 1\n", "cancelled\n");
    errand_expect(&errands[1], 0, 0, 0);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\ndone 2\n");
    errand_expect(&errands[1], 0, 0, 1);
    client_ask(client, "give up 2\n", "too late\n");
    framework_close(&framework);
    errand_expect(&errands[0], 1, 1, 0);
    errand_expect(&errands[2], 1, 1, 0);
}

/*
 * A client, and a helper that has taken its task and is about to run it. The run that begins the
 * task is a future, too, and is past that point when a thread is first to be held there.
 */
static int begin_taken(const char *ways)
{
    int client = begin(ways, "--helpers 1");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "errand\n");
    test_point_await_held(RUN_BEGINS, 1);
    test_point_hold(FUTURE_RUNS);
    test_point_release(RUN_BEGINS);
    test_point_await_held(FUTURE_RUNS, 1);
    framework_await_asleep(&framework);
    return client;
}

/* The handler and the helper come to the future in one moment, and the handler is the first. */
WaysTest(stage4_tasks, cancelled_when_a_helper_has_it_it_does_not_run)
{
    int client = begin_taken(workers);
    client_ask(client, "give up 0\n", "cancelled\n");
    errand_expect(&errands[0], 0, 0, 0);
    test_point_release(FUTURE_RUNS);
    client_ask(client, "errand\n", "done 1\n");
    errand_expect(&errands[0], 0, 0, 1);
    framework_close(&framework);
}

/* The same, but it is the end of the connection that cancels it. */
WaysTest(stage4_tasks, of_a_connection_that_ends_when_a_helper_has_it)
{
    int client = begin_taken(workers);
    client_reset(client);
    framework_await_closed(&framework, 1);
    errand_expect(&errands[0], 0, 0, 0);
    test_point_release(FUTURE_RUNS);
    framework_stop(&framework);
    errand_expect(&errands[0], 0, 0, 1);
}

/* Cancelled, and then the connection ends: dropped once. */
OneClientTest(stage4_tasks, cancelled_before_the_connection_ends, "--helpers 1")
{
    begin_held(client, "errand\nerrand\n");
    client_ask(client, "give up 1\n", "cancelled\n");
    errands[1].is_cancelled = false; /* it is dropped after the end */
    client_reset(client);
    framework_await_closed(&framework, 1);
    test_point_release(HELPER_BEGINS);
    test_point_await_count(HELPER_ENDS, 2);
    framework_stop(&framework);
    errand_expect(&errands[0], 1, 0, 1);
    errand_expect(&errands[1], 0, 0, 1);
}

/* It has said all, and still wants its answers. */
OneClientTest(stage4_tasks, of_a_client_that_half_closes, "")
{
    begin_held(client, "errand\npause\nafter\n");
    client_half_close(client);
    framework_await_asleep(&framework);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\ndone 1\nafter\n");
    client_expect_end(client);
}

/* What was begun comes back first. */
OneClientTest(stage4_tasks, of_a_handler_that_closes, "")
{
    begin_held(client, "errand\nclose\n");
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "closing\ndone 0\n");
    client_expect_end(client);
}

/* Messages behind the close are dropped when the task is back, and wait for it in peace. */
OneClientTest(stage4_tasks, of_a_handler_that_closes_with_messages_left, "")
{
    test_point_hold(HELPER_BEGINS);
    client_ask(client, "errand\nclose\nnot handled\n", "closing\n");
    test_point_await_held(HELPER_BEGINS, 1);
    client_send_text(client, "not even read\n");
    client_await_delivered(client);
    expect_rest("a connection that closes waits for a task");
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\n");
    client_expect_end(client);
}

/* A relay's end, say, that looks something up when its peer has ended: it has finished its output.
 */
static struct channel_task last_task;

static void do_nothing(struct channel_task *task)
{
    (void)task;
}

static void hear_nothing(struct channel_task *task, struct channel_facade *facade)
{
    (void)task;
    (void)facade;
}

static void begin_last(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    last_task =
        (struct channel_task){.run = do_nothing, .completed = hear_nothing, .dropped = do_nothing};
    channel_begin(facade, &last_task, CHANNEL_GOES_ON);
    channel_finish(facade);
}

WaysTest(stage4_tasks, of_an_output_that_is_finished)
{
    static struct input_handler_verbs verbs = {.duplex = true, .end_of_input = begin_last};
    struct input_handler handler = {input_handler_complete(&verbs)};
    framework_start(&framework, "%s", workers);
    int client = framework_connect(&framework, &handler);
    test_point_hold(HELPER_BEGINS);
    client_half_close(client);
    client_expect_end(client);
    test_point_await_held(HELPER_BEGINS, 1);
    expect_rest("a task is under way, and both directions have ended");
    test_point_release(HELPER_BEGINS);
    framework_await_closed(&framework, 1);
    framework_close(&framework);
}

/*
 * The connection ends, and nobody but the task holds its memory any more. Of its tasks one is in a
 * helper's hands, and two are not.
 */
OneClientTest(stage4_tasks, of_a_connection_that_ends, "--helpers 1")
{
    begin_held(client, "errand\nerrand\npause\n");
    framework_cut_off(recorder_facade(&recorder));
    framework_await_closed(&framework, 1);
    recorder_expect_whole_life(&recorder); /* gives the recorder's reference back */
    for (int i = 0; i < 3; i++) {
        errand_expect(&errands[i], 0, 0, 0);
    }
    test_point_release(HELPER_BEGINS);
    test_point_await_count(HELPER_ENDS, 3);
    client_expect_gone(client);
    framework_close(&framework);
    errand_expect(&errands[0], 1, 0, 1);
    errand_expect(&errands[1], 0, 0, 1); /* nobody wants it any more */
    errand_expect(&errands[2], 0, 0, 1);
}

/* While it waits we still hear that it has gone, and what nobody has begun is not done any more. */
OneClientTest(stage4_tasks, of_a_client_that_resets, "--helpers 1")
{
    begin_held(client, "errand\npause\n");
    client_reset(client);
    framework_await_closed(&framework, 1);
    test_point_release(HELPER_BEGINS);
    test_point_await_count(HELPER_ENDS, 2);
    framework_stop(&framework);
    errand_expect(&errands[0], 1, 0, 1);
    errand_expect(&errands[1], 0, 0, 1);
}

/* It sends on while it waits: that is read once at most, and then it waits in the socket. */
OneClientTest(stage4_tasks, of_a_client_that_sends_on, "")
{
    enum { MOST = 4 << 20 };
    static char lines[1 << 16];
    memset(lines, '\n', sizeof lines);
    begin_held(client, "pause\n");
    long runs = test_point_count(RUN_BEGINS);
    client_push(client, lines, sizeof lines, MOST, 50);
    framework_await_asleep(&framework);
    cr_assert_leq(test_point_count(RUN_BEGINS), runs + 1);
    cr_assert_eq(atomic_load(&recorder.messages), 2);
    dispatcher_stop(
        framework_dispatcher(&framework)); /* takes in what there is room for, and waits on */
    test_point_await_count(RUN_BEGINS, runs + 1);
    framework_await_asleep(&framework);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\n\n\n");
    client_reset(client);
    framework_end(&framework);
}

/* One result is in, and waits for an older one, when the connection ends. */
OneClientTest(stage4_tasks, of_a_connection_that_ends_between_results, "")
{
    test_point_hold(HELPER_ENDS);
    client_send_text(client, "errand\n");
    test_point_await_held(HELPER_ENDS, 1);
    client_ask(client, "errand\nlast\n", "last\n");
    test_point_await_count(HELPER_ENDS, 2);
    framework_await_asleep(&framework);
    framework_cut_off(recorder_facade(&recorder));
    framework_await_closed(&framework, 1);
    errand_expect(&errands[0], 1, 0, 0);
    errand_expect(&errands[1], 1, 0, 1);
    test_point_release(HELPER_ENDS);
    client_expect_gone(client);
    framework_close(&framework);
    errand_expect(&errands[0], 1, 0, 1);
}

/* The client waits for us: neither is it idle, nor is the message late of which a part has come. */
OneClientTest(stage4_tasks, no_deadline_passes_meanwhile,
              "--idle-timeout 0.5 --request-timeout 0.5 --progress-timeout 0.5")
{
    begin_held(client, "pause\nlate");
    client_expect_silence(client, 700);
    cr_assert_eq(atomic_load(&recorder.calls[RECORDER_STOPPED]), 0);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\n");
    client_expect_gone(client); /* from now on they run again */
}

/* It is read meanwhile, and has nothing to say: it waits for the result. */
OneClientTest(stage4_tasks, who_waits_for_a_result_is_not_idle, "--idle-timeout 0.5")
{
    begin_held(client, "errand\n");
    client_expect_silence(client, 700);
    cr_assert_eq(atomic_load(&recorder.calls[RECORDER_STOPPED]), 0);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\n");
    client_expect_gone(client); /* from now on it is */
}

/* A server that stops answers what it has begun. */
OneClientTest(stage4_tasks, of_a_server_that_stops, "")
{
    begin_held(client, "pause\nafter\n");
    dispatcher_stop(framework_dispatcher(&framework));
    client_expect_silence(client, 50);
    test_point_release(HELPER_BEGINS);
    client_expect_text(client, "done 0\nafter\n");
    client_expect_end(client);
    client_close(client);
    framework_end(&framework);
}

/* Its output is choked and its input queue full: when there is room again is an event. */
OneClientTest(stage4_tasks, a_server_that_stops_waits_for_choked_output,
              "--output-cap 16777216 --max-line 1000 --drain-timeout 60")
{
    enum { LINES = 64, LENGTH = 1000 };
    char line[LENGTH];
    client_send_text(client, "big 8000000\n");
    memset(line, 'x', LENGTH);
    line[LENGTH - 1] = '\n';
    for (int i = 0; i < LINES; i++) {
        client_send(client, line, LENGTH);
    }
    client_await_delivered(client);
    framework_await_asleep(&framework);
    dispatcher_stop(framework_dispatcher(&framework));
    client_await_reply(client);
    test_pause_ms(50);
    expect_rest("a server stops and output is choked");
    client_close(client);
    framework_end(&framework);
}

/* But not longer than the drain timeout. */
OneClientTest(stage4_tasks, of_a_server_that_has_stopped, "--drain-timeout 0.05")
{
    begin_held(client, "pause\nafter\n");
    dispatcher_stop(framework_dispatcher(&framework));
    framework_await_closed(&framework, 1);
    recorder_expect_whole_life(&recorder);
    test_point_release(HELPER_BEGINS);
    framework_end(&framework);
    client_expect_gone(client);
    errand_expect(&errands[0], 1, 0, 1);
}

/* It is done in the handler's call, and all else is the same. */
OneClientTest(stage4_tasks, where_there_are_no_helpers, "--helpers 0")
{
    client_send_text(client, "pause\nafter\nerrand\nerrand\nlast\n");
    client_expect_text(client, "done 0\nafter\ndone 1\ndone 2\nlast\n");
    framework_close(&framework);
    errand_expect(&errands[2], 1, 1, 0);
}

/* Many tasks of many connections, and nobody holds anything: for ThreadSanitizer. */
WaysTest(stage4_tasks, of_many_connections)
{
    enum { CLIENTS = 20, ROUNDS = 20 };
    static struct recorder recorders[CLIENTS];
    static struct errand all[CLIENTS][2 * ROUNDS + 1];
    int clients[CLIENTS];
    framework_start(&framework, "%s --helpers 3", workers);
    for (int i = 0; i < CLIENTS; i++) {
        recorder_init(&recorders[i]);
        errands_init(all[i], 2 * ROUNDS, &recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
        for (int round = 0; round < ROUNDS; round++) {
            client_send_text(clients[i], "errand\npause\n");
        }
        client_send_text(clients[i], i % 4 == 0 ? "fail\n" : "last\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        char text[32];
        for (int errand = 0; errand < 2 * ROUNDS; errand++) {
            snprintf(text, sizeof text, "done %d\n", errand);
            client_expect_text(clients[i], text);
        }
        if (i % 4 != 0) {
            client_expect_text(clients[i], "last\n");
        }
        client_close(clients[i]);
    }
    framework_stop(&framework);
    for (int i = 0; i < CLIENTS; i++) {
        for (int errand = 0; errand < 2 * ROUNDS; errand++) {
            errand_expect(&all[i][errand], 1, 1, 0);
        }
    }
}

/* ---- seen from outside ---- */

/** Whether the program has a thread of that name. */
static bool has_thread(const struct server_process *server, const char *wanted)
{
    char name[64];
    bool has = false;
    snprintf(name, sizeof name, "/proc/%d/task", (int)server->pid);
    DIR *tasks = opendir(name);
    cr_assert_not_null(tasks);
    for (const struct dirent *task; !has && (task = readdir(tasks)) != NULL;) {
        char place[512];
        char read[64] = "";
        snprintf(place, sizeof place, "%s/%s/comm", name, task->d_name);
        FILE *file = fopen(place, "re");
        if (file) {
            has = fgets(read, sizeof read, file) && strncmp(read, wanted, strlen(wanted)) == 0;
            fclose(file);
        }
    }
    closedir(tasks);
    return has;
}

static void log_in_with(const char *workers, const char *options, bool has_helper)
{
    if (!pop3_hash_known) {
        cr_skip_test("this build has no crypt(3)");
    }
    struct server_process server = server_start("--app pop3 %s %s", workers, options);
    int client = client_connect_send(&server, "USER mrose\r\nPASS tanstaaf\r\n");
    client_expect_text(client, "+OK this is a POP3 server\r\n+OK now the password\r\n+OK ");
    cr_assert_eq(has_thread(&server, "helper"), has_helper);
    server_close_all(&server);
}

WaysTest(stage4_tasks, a_helper_checks_the_password)
{
    log_in_with(workers, "", true);
}

WaysTest(stage4_tasks, without_helpers_the_handler_checks_it_itself)
{
    log_in_with(workers, "--helpers 0", false);
}
