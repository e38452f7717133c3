/*
 * The selector guard: what it is good for, and what it promises.
 */
#include "framework.h"

#include "inside/guard_tests.h"

#include <string.h>

TestSuite(stage4_registration, .timeout = 120);

Test(stage4_registration, lesson_without_the_guard_it_waits_until_something_happens)
{
    without_the_guard_it_waits("--workers 2");
}

Test(stage4_registration, lesson_with_the_guard_it_does_not_wait)
{
    with_the_guard_it_does_not_wait("--workers 2");
}

Test(stage4_registration, is_one_wakeup)
{
    a_registration_is_one_wakeup("--workers 2");
}

/* The queue comes before the events: the new one is put in while the dispatcher has taken it. */
Test(stage4_registration, an_early_event_waits_until_the_connection_has_begun)
{
    struct registrar registrar;
    struct recorder recorder, other;
    recorder_init(&other);
    framework_start(&framework, "--idle-timeout 0 --request-timeout 0 --workers 2");
    int other_client = framework_connect(&framework, &other.handler);
    client_echo(other_client, "hello\n");
    struct handler_adapter *queued =
        container_of(recorder_facade(&other), struct handler_adapter, connection.facade);
    int client = begin_early_event(&registrar, &recorder);
    mutex_lock(&queued->state_lock);
    queued->queued = true;
    status_change_queue_put(&framework.dispatcher.changes, queued);
    test_point_release(DISPATCHER_AWAKE);
    WAIT_FOR(status_change_queue_is_empty(&framework.dispatcher.changes));
    test_point_release(RUN_ENDED);
    cr_assert(await_registered(&registrar, test_deadline()));
    mutex_unlock(&queued->state_lock);
    expect_it_begins_first(&registrar, client);
    framework_close(&framework);
}

/* Readers share the guard: all of them are through in one cycle of the dispatcher. */
Test(stage4_registration, many_registrations_share_one_wakeup)
{
    enum { REGISTRARS = 8 };
    static struct registrar registrars[REGISTRARS];
    static struct recorder recorders[REGISTRARS];
    int clients[REGISTRARS];
    framework_start(&framework, "--idle-timeout 0 --request-timeout 0");
    framework_await_asleep(&framework);
    for (int i = 0; i < REGISTRARS; i++) {
        test_point_hold(GUARD_HELD);
    }
    for (int i = 0; i < REGISTRARS; i++) {
        clients[i] = begin_registration(&registrars[i], &recorders[i]);
    }
    test_point_await_held(GUARD_HELD, REGISTRARS); /* all of them at once */
    for (int i = 0; i < REGISTRARS; i++) {
        test_point_release(GUARD_HELD);
    }
    for (int i = 0; i < REGISTRARS; i++) {
        cr_assert(await_registered(&registrars[i], test_deadline()));
        pthread_join(registrars[i].thread, NULL);
        client_echo(clients[i], "hello\n");
        client_close(clients[i]);
    }
    framework_stop(&framework);
}

/* ---- neither starves the other ---- */

static atomic_bool over;
static atomic_long reads;

static void *read_and_read(void *nothing)
{
    (void)nothing;
    while (!atomic_load(&over)) {
        selector_guard_acquire(&framework.dispatcher.guard);
        selector_guard_release(&framework.dispatcher.guard);
        atomic_fetch_add_explicit(&reads, 1, memory_order_relaxed);
    }
    return NULL;
}

Test(stage4_registration, a_stream_of_readers_does_not_starve_the_dispatcher)
{
    enum { READERS = 6, ROUNDS = 50 };
    pthread_t threads[READERS];
    struct recorder recorder;
    recorder_init(&recorder);
    framework_start(&framework, "%s", "");
    int client = framework_connect(&framework, &recorder.handler);
    for (int i = 0; i < READERS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, read_and_read, NULL), 0);
    }
    bool served = true;
    long before = atomic_load(&reads);
    long passed = 0;
    for (int i = 0; (i < ROUNDS || passed < ROUNDS) && served; i++) {
        served = client_try_echo(client, "hello\n", test_deadline());
        passed = atomic_load(&reads) - before;
    }
    atomic_store(&over, true);
    for (int i = 0; i < READERS; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert(served, "after %ld times that others got the guard the dispatcher serves nobody",
              passed);
    framework_close(&framework);
}

/* ---- many ---- */

enum { CROWD_THREADS = 4, EACH = 50 };

struct crowd {
    struct recorder recorders[EACH];
    int clients[EACH];
    int fds[EACH];
};

static void *register_many(void *argument)
{
    struct crowd *crowd = argument;
    for (int i = 0; i < EACH; i++) {
        dispatcher_register_channel(&framework.dispatcher, crowd->fds[i],
                                    ONE_HANDLER(&crowd->recorders[i].handler));
    }
    return NULL;
}

Test(stage4_registration, many_threads_register_while_others_are_served)
{
    static struct crowd crowds[CROWD_THREADS];
    pthread_t threads[CROWD_THREADS];
    struct recorder recorder;
    recorder_init(&recorder);
    framework_start(&framework, "%s", "");
    int client = framework_connect(&framework, &recorder.handler);
    for (int t = 0; t < CROWD_THREADS; t++) {
        for (int i = 0; i < EACH; i++) {
            recorder_init(&crowds[t].recorders[i]);
            crowds[t].clients[i] = framework_accept(&framework, &crowds[t].fds[i]);
            admission_enter(&framework.admission);
        }
    }
    for (int t = 0; t < CROWD_THREADS; t++) {
        cr_assert_eq(pthread_create(&threads[t], NULL, register_many, &crowds[t]), 0);
    }
    for (int i = 0; i < 100; i++) {
        client_echo(client, "served meanwhile\n");
    }
    for (int t = 0; t < CROWD_THREADS; t++) {
        pthread_join(threads[t], NULL);
        for (int i = 0; i < EACH; i++) {
            client_echo(crowds[t].clients[i], "hello\n");
            client_close(crowds[t].clients[i]);
        }
    }
    framework_close(&framework);
    for (int t = 0; t < CROWD_THREADS; t++) {
        for (int i = 0; i < EACH; i++) {
            recorder_expect_whole_life(&crowds[t].recorders[i]);
        }
    }
}
