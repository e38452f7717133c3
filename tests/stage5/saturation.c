/*
 * One executor for several dispatchers: when it is saturated, what one of them submits can cost a
 * run that another one waits for (case 35). The loser is a message, never a connection, and never a
 * call of the life cycle; and the other dispatcher hears of it, although nothing was its own doing.
 *
 * One worker is held, and the queue has room for one task: then the next message is one too many.
 */
#include "framework.h"

#include "inside/notes.h"

#include <criterion/criterion.h>

TestSuite(stage5_saturation, .timeout = 60);

/* Connections are given to the two dispatchers in turn. */
enum { BUSY, WAITING, LATE, CLIENTS };

static struct framework framework;
static struct recorder recorders[CLIENTS];
static int clients[CLIENTS];

/** Everybody has a connection, and the only worker is held with a message of the first. */
static void begin(const char *policy)
{
    framework_start(&framework,
                    "--dispatchers 2 --workers 1 --queue bounded:1 --saturation %s "
                    "--idle-timeout 0 --request-timeout 0",
                    policy);
    for (int i = 0; i < CLIENTS; i++) {
        recorder_init(&recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
        client_echo(clients[i], "hello\n");
    }
    framework_await_asleep(&framework);
    test_point_hold(RUN_BEGINS);
    client_send_text(clients[BUSY], "busy\n");
    test_point_await_held(RUN_BEGINS, 1);
}

/** The queue is full: with a message that the second dispatcher has submitted. */
static void fill_the_queue(void)
{
    client_send_text(clients[WAITING], "waiting\n");
    framework_await_waiting(&framework, 1);
    framework_await_asleep_but(&framework, 1);
}

static void release(void)
{
    test_point_release(RUN_BEGINS);
    client_expect_text(clients[BUSY], "busy\n");
}

/** All still have their connection and are served. */
static void end(void)
{
    for (int i = 0; i < CLIENTS; i++) {
        client_echo(clients[i], "and now\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
    }
    framework_stop(&framework);
    for (int i = 0; i < CLIENTS; i++) {
        recorder_expect_whole_life(&recorders[i]);
    }
}

/* The first dispatcher drops it, the second one has to go on with the connection. */
Test(stage5_saturation, case_35_discard_oldest_drops_a_run_of_another_dispatcher)
{
    begin("discard-oldest");
    fill_the_queue();
    long rounds = test_point_count(DISPATCHER_AWAKE);
    client_send_text(clients[LATE], "late\n");
    test_point_await_count(DISPATCHER_AWAKE, rounds + 1);
    framework_await_asleep_but(&framework, 1); /* after the second one has looked, too */
    cr_assert_eq(executor_stats(&framework.executor).discarded, 1);
    release();
    client_expect_text(clients[LATE], "late\n");
    end();
    cr_assert_eq(atomic_load(&recorders[WAITING].messages), 2, "hello, and now");
    cr_assert_eq(atomic_load(&recorders[WAITING].refused), 0);
}

/* What the first one drops is the first run of a connection: the second one has it run later. */
Test(stage5_saturation, case_35_discard_oldest_loses_no_life_cycle_call_of_another_dispatcher)
{
    static struct recorder fresh;
    recorder_init(&fresh);
    begin("discard-oldest");
    int newcomer = framework_connect(&framework, &fresh.handler); /* at the second one */
    framework_await_waiting(&framework, 1);
    client_send_text(clients[LATE], "late\n");
    framework_await_waiting(&framework, 2); /* both: it was put back */
    framework_await_asleep_but(&framework, 1);
    cr_assert_eq(atomic_load(&fresh.calls[LIFE_STARTED]), 0, "a dispatcher has run it");
    release();
    client_expect_text(clients[LATE], "late\n");
    recorder_await(&fresh, calls[LIFE_STARTED], 1);
    client_echo(newcomer, "hello\n");
    end(); /* with nobody who comes or goes meanwhile: his run could cost a message */
    recorder_expect_whole_life(&fresh);
    client_close(newcomer);
}

/* Who submits it runs it: the dispatcher of that connection, and the other one goes on meanwhile.
 */
Test(stage5_saturation, case_35_caller_runs_in_the_connections_own_dispatcher)
{
    begin("caller-runs");
    fill_the_queue();
    test_point_hold(RUN_BEGINS);
    client_send_text(clients[LATE], "late\n");
    test_point_await_held(RUN_BEGINS, 2);
    struct recorder fresh;
    recorder_init(&fresh);
    int newcomer = framework_connect(&framework, &fresh.handler); /* at the second one */
    framework_await_waiting(&framework, 2);
    release();
    test_point_release(RUN_BEGINS);
    client_expect_text(clients[LATE], "late\n");
    client_expect_text(clients[WAITING], "waiting\n");
    cr_assert_neq(atomic_load(&recorders[LATE].thread), atomic_load(&recorders[BUSY].thread),
                  "the only worker has run it");
    client_echo(newcomer, "hello\n");
    end(); /* with nobody who comes or goes meanwhile: his run could cost a message */
    recorder_expect_whole_life(&fresh);
    client_close(newcomer);
}

/* It has waited for too long and would be refused, but a post came meanwhile: so it has to run. */
Test(stage5_saturation, a_late_run_that_must_take_place_handles_its_message)
{
    enum { HOUR_MS = 3600000 };
    static struct note note;
    begin("abort --max-wait-ms 3600000");
    fill_the_queue();
    note_init(&note, &recorders[WAITING]);
    note_post(&note);
    mutex_lock(&framework.executor.lock);
    struct task *task = framework.executor.queue.others.first; /* has waited for an hour and more */
    task->since = (task->since - (HOUR_MS + 1)) & TASK_SINCE_MASK;
    mutex_unlock(&framework.executor.lock);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    cr_assert_eq(executor_stats(&framework.executor).late, 1);
    note_expect(&note, 1, 0);
    cr_assert_eq(atomic_load(&recorders[WAITING].refused), 0);
    end();
}
