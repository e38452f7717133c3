/*
 * The executor's limits, seen from connections: what is refused is a message, never a connection,
 * and never a call of the life cycle.
 *
 * One worker is held, and the queue has room for one task: then the next message is one too many.
 */
#include "framework.h"

#include "inside/notes.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage4_saturation, .timeout = 120);

enum { BUSY, WAITING, LATE, CLIENTS };

static struct framework framework;
static struct recorder recorders[CLIENTS];
static int clients[CLIENTS];

/** Everybody has a connection. */
static void open_with(const char *options)
{
    framework_start(&framework, "--workers 1 --idle-timeout 0 --request-timeout 0 %s", options);
    for (int i = 0; i < CLIENTS; i++) {
        recorder_init(&recorders[i]);
        clients[i] = framework_connect(&framework, &recorders[i].handler);
        client_echo(clients[i], "hello\n");
    }
    framework_await_asleep(&framework);
}

/** The only worker is held with a message. */
static void hold_worker(void)
{
    test_point_hold(RUN_BEGINS);
    client_send_text(clients[BUSY], "busy\n");
    test_point_await_held(RUN_BEGINS, 1);
}

/** The queue is full. */
static void fill_queue(void)
{
    client_send_text(clients[WAITING], "waiting\n");
    framework_await_waiting(&framework, 1);
    framework_await_asleep_but(&framework, 1);
}

/** What LATE has sent has pushed out so many tasks, itself perhaps, and nothing more follows. */
static void await_discarded(uint64_t count)
{
    WAIT_FOR(executor_stats(&framework.executor).discarded >= count);
    framework_await_asleep_but(&framework, 1);
    cr_assert_eq(executor_stats(&framework.executor).discarded, count);
}

#define QUEUE_OF_ONE " --queue bounded:1 --saturation "

#define begin(policy) (open_with(QUEUE_OF_ONE policy), hold_worker(), fill_queue())

static void close_all(void)
{
    framework_close(&framework);
}

/** All still have their connection and are served. */
static void end(void)
{
    clients_echo(clients, CLIENTS, "and now\n");
    close_all();
}

static void release(void)
{
    test_point_release(RUN_BEGINS);
    client_expect_text(clients[BUSY], "busy\n");
}

Test(stage4_saturation, case_35_abort_tells_the_client)
{
    begin("abort");
    client_ask(clients[LATE], "late\n", "refused\n");
    cr_assert_eq(atomic_load(&recorders[LATE].messages), 1);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    end();
}

Test(stage4_saturation, case_35_discard_drops_the_message_and_keeps_the_connection)
{
    begin("discard");
    client_send_text(clients[LATE], "late\n");
    await_discarded(1);
    client_expect_silence(clients[LATE], 100);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    end();
    cr_assert_eq(atomic_load(&recorders[LATE].messages), 2);
    cr_assert_eq(atomic_load(&recorders[LATE].refused), 0);
}

Test(stage4_saturation, case_35_discard_oldest_drops_the_one_that_waited)
{
    begin("discard-oldest");
    client_send_text(clients[LATE], "late\n");
    await_discarded(1);
    client_expect_silence(clients[LATE], 50);
    release();
    client_expect_text(clients[LATE], "late\n");
    end();
    cr_assert_eq(atomic_load(&recorders[WAITING].messages), 2);
}

/* The oldest in the queue is a connection's first run: it is put back, not dropped. */
Test(stage4_saturation, case_35_discard_oldest_loses_no_life_cycle_call)
{
    static struct recorder fresh;
    recorder_init(&fresh);
    open_with(QUEUE_OF_ONE "discard-oldest");
    hold_worker();
    int newcomer = framework_connect(&framework, &fresh.handler); /* the oldest that waits */
    framework_await_waiting(&framework, 1);
    client_send_text(clients[WAITING], "waiting\n");
    client_send_text(clients[LATE], "late\n");
    await_discarded(3); /* each of the two has pushed out the newcomer, and LATE the other one */
    client_expect_silence(clients[LATE], 50);
    cr_assert_eq(atomic_load(&fresh.calls[LIFE_STARTED]), 0);
    release();
    recorder_await(&fresh, calls[LIFE_STARTED], 1);
    client_expect_text(clients[LATE], "late\n");
    client_echo(newcomer, "hello\n");
    end();
}

/* When only such runs wait, the message is what has to go; it is not tried forever. */
Test(stage4_saturation, case_35_discard_oldest_among_life_cycle_calls_only)
{
    enum { NEWCOMERS = 5 };
    static struct recorder fresh[NEWCOMERS];
    int newcomers[NEWCOMERS];
    begin("discard-oldest");
    for (int i = 0; i < NEWCOMERS; i++) {
        recorder_init(&fresh[i]);
        newcomers[i] = framework_connect(&framework, &fresh[i].handler);
    }
    framework_await_waiting(&framework, 1 + NEWCOMERS);
    client_send_text(clients[LATE], "late\n");
    client_await_delivered(clients[LATE]);
    framework_await_waiting(&framework, NEWCOMERS); /* the one that waited is gone, too */
    framework_await_asleep_but(&framework, 1);
    release();
    for (int i = 0; i < NEWCOMERS; i++) { /* before any of them may take another's place */
        recorder_await(&fresh[i], calls[LIFE_STARTED], 1);
    }
    clients_echo(newcomers, NEWCOMERS, "hello\n");
    end();
}

Test(stage4_saturation, case_35_caller_runs_in_the_dispatcher)
{
    begin("caller-runs");
    test_point_count(DISPATCHER_AWAKE);
    client_ask(clients[LATE], "late\n", "late\n");
    pid_t dispatcher = test_point_visitor(DISPATCHER_AWAKE);
    cr_assert_eq(atomic_load(&recorders[LATE].thread), dispatcher);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    cr_assert_neq(atomic_load(&recorders[WAITING].thread), dispatcher);
    end();
}

/* By default nobody's code runs in the dispatcher, and nothing blocks it. */
Test(stage4_saturation, by_default_handlers_run_in_workers_only)
{
    open_with("");
    test_point_count(DISPATCHER_AWAKE);
    hold_worker();
    client_send_text(clients[WAITING], "waiting\n");
    client_send_text(clients[LATE], "late\n");
    framework_await_waiting(&framework, 2);
    framework_await_asleep_but(&framework, 1);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    client_expect_text(clients[LATE], "late\n");
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_neq(atomic_load(&recorders[i].thread), test_point_visitor(DISPATCHER_AWAKE));
    }
    end();
}

Test(stage4_saturation, case_35_block_waits_for_room)
{
    begin("block");
    client_send_text(clients[LATE], "late\n");
    client_expect_silence(clients[LATE], 50);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    client_expect_text(clients[LATE], "late\n");
    end();
}

/* Each message of a pipeline is refused for itself; none is forgotten. */
Test(stage4_saturation, every_message_of_a_pipeline_is_refused)
{
    begin("abort");
    client_send_text(clients[LATE], "a\nb\nc\n");
    client_half_close(clients[LATE]);
    client_expect_text(clients[LATE], "refused\nrefused\nrefused\n");
    framework_await_asleep_but(&framework, 1);
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    client_expect_end(clients[LATE]);
    close_all();
}

/* Registering and closing go on while no message is taken. */
Test(stage4_saturation, connections_come_and_go_while_it_is_saturated)
{
    enum { VISITORS = 50 };
    static struct recorder visitors[VISITORS];
    static int ends[VISITORS];
    begin("abort");
    for (int i = 0; i < VISITORS; i++) {
        recorder_init(&visitors[i]);
        ends[i] = framework_connect(&framework, &visitors[i].handler);
        client_close(ends[i]);
    }
    release();
    client_expect_text(clients[WAITING], "waiting\n");
    framework_await_closed(&framework, VISITORS);
    end();
}

/* ---- priority ---- */

/* The dispatcher reads them, because the queue has to know. */
Test(stage4_saturation, urgent_messages_go_first)
{
    enum { OTHERS = 4 };
    static struct recorder others[OTHERS];
    int ends[OTHERS];
    open_with("--queue priority");
    for (int i = 0; i < OTHERS; i++) {
        recorder_init(&others[i]);
        ends[i] = framework_connect(&framework, &others[i].handler);
        client_echo(ends[i], "hello\n");
    }
    framework_await_asleep(&framework);
    hold_worker();
    for (int i = 0; i < OTHERS; i++) {
        client_send_text(ends[i], "waiting\n");
        framework_await_waiting(&framework, (size_t)i + 1);
    }
    client_send_text(clients[LATE], "urgent\n");
    framework_await_waiting(&framework, OTHERS + 1);
    release();
    client_expect_text(clients[LATE], "urgent\n");
    for (int i = 0; i < OTHERS; i++) {
        client_expect_text(ends[i], "waiting\n");
        cr_assert_lt(atomic_load(&recorders[LATE].turn), atomic_load(&others[i].turn));
        cr_assert(i == 0 || atomic_load(&others[i - 1].turn) < atomic_load(&others[i].turn));
        client_close(ends[i]);
    }
    end();
}

/* It has waited for too long and would be refused, but a post came meanwhile: so it has to run. */
Test(stage4_saturation, a_late_run_that_must_take_place_handles_its_message)
{
    enum { HOUR_MS = 3600000 };
    static struct note note;
    begin("abort --max-wait-ms 3600000");
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
