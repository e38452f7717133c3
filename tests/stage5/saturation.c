/*
 * One executor for several dispatchers: when it is saturated, what one of them submits can cost a
 * run that another one waits for (case 35). The loser is a message, never a connection, and never a
 * call of the life cycle; and the other dispatcher hears of it, although nothing was its own doing.
 *
 * With one dispatcher all of stage 4's tests hold, which are repeated here.
 */
#include "framework.h"

#define stage4_saturation stage5_saturation
#include "stage4/saturation.c"

/* Connections are given to the two dispatchers in turn. */
#define OF_TWO "--dispatchers 2" QUEUE_OF_ONE

/* The first dispatcher drops it, the second one has to go on with the connection. */
Test(stage5_saturation, case_35_discard_oldest_drops_a_run_of_another_dispatcher)
{
    open_with(OF_TWO "discard-oldest");
    hold_worker();
    fill_queue();
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
    open_with(OF_TWO "discard-oldest");
    hold_worker();
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
}

static void *drop_task(void *task)
{
    task_drop(task);
    return NULL;
}

static bool await_run(struct handler_adapter *adapter)
{
    double end = test_deadline();
    for (bool runs = true; test_left_ms(end) > 0; test_pause_ms(1)) {
        mutex_lock(&adapter->state_lock);
        runs = adapter->running;
        mutex_unlock(&adapter->state_lock);
        if (!runs)
            return true;
    }
    return false;
}

/*
 * A run that had to take place is dropped by another thread than its dispatcher's, and meanwhile
 * its reason goes: output that had drained is choked again. That thread must not go to what is its
 * dispatcher's alone, which sleeps.
 */
Test(stage5_saturation, case_35_a_dropped_run_takes_place_although_its_reason_goes)
{
    struct recorder recorder;
    pthread_t thread;
    recorder_init(&recorder);
    framework_start(&framework, "--workers 1 --dispatchers 2 --idle-timeout 0 --request-timeout 0");
    int client = framework_connect(&framework, &recorder.handler);
    client_echo(client, "hello\n");
    framework_await_asleep(&framework);
    struct handler_adapter *adapter =
        container_of(recorder_facade(&recorder), struct handler_adapter, connection.facade);
    cr_assert(handler_adapter_prepare_to_run(adapter, SELECT_NOTHING));
    handler_future_task_prepare(&adapter->run, adapter);
    adapter->connection.traits |= TRAIT_HEARS_DRAINED;
    atomic_store(&adapter->connection.output.drained, true);
    test_point_hold(RUN_DROPPED);
    cr_assert_eq(pthread_create(&thread, NULL, drop_task, &adapter->run.future.task), 0);
    test_point_await_held(RUN_DROPPED, 1);
    atomic_store(&adapter->connection.output.drained, false);
    test_point_release(RUN_DROPPED);
    pthread_join(thread, NULL);
    cr_assert(await_run(adapter), "it waits for a dispatcher that sleeps");
    client_echo(client, "hello\n");
    framework_close(&framework);
}

/* Who submits it runs it: the dispatcher of that connection, and the other one goes on meanwhile.
 */
Test(stage5_saturation, case_35_caller_runs_in_the_connections_own_dispatcher)
{
    open_with(OF_TWO "caller-runs");
    hold_worker();
    fill_queue();
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
}
