/*
 * What the selector guard is good for, for the suites of stages 4 and 5: each includes its own
 * framework.h and then this, and makes tests of the lessons.
 */
#ifndef TESTS_INSIDE_GUARD_TESTS_H
#define TESTS_INSIDE_GUARD_TESTS_H

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>

static struct framework framework;

/** A thread that takes the acceptor's part, because it may have to wait. */
struct registrar {
    struct recorder *recorder;
    int fd;
    atomic_bool registered;
    pthread_t thread;
};

static void *register_one(void *argument)
{
    struct registrar *registrar = argument;
    framework_register(&framework, registrar->fd, &registrar->recorder->handler);
    atomic_store(&registrar->registered, true);
    return NULL;
}

/** Returns the client's end of a connection that is being registered. */
static int begin_registration(struct registrar *registrar, struct recorder *recorder)
{
    recorder_init(recorder);
    *registrar = (struct registrar){.recorder = recorder};
    int client = framework_accept(&framework, &registrar->fd);
    cr_assert_eq(pthread_create(&registrar->thread, NULL, register_one, registrar), 0);
    return client;
}

static bool await_registered(struct registrar *registrar, double end)
{
    while (!atomic_load(&registrar->registered) && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    return atomic_load(&registrar->registered);
}

/*
 * The lesson: select holds the selector's lock while it sleeps. Without the guard a registration
 * waits until something else ends the sleep of that dispatcher, which on an idle server may be
 * never; and meanwhile the acceptor accepts nobody for the others.
 */
static void without_the_guard_it_waits(const char *options)
{
    struct registrar registrar;
    struct recorder recorder;
    framework_start(&framework, "--guard none --idle-timeout 0 --request-timeout 0 %s", options);
    framework_await_asleep(&framework);
    int client = begin_registration(&registrar, &recorder);
    client_send_text(client, "is anybody there\n");
    client_expect_silence(client, 300);
    cr_assert_not(atomic_load(&registrar.registered), "it did not wait: is there a guard?");
    /* Something happens. The dispatcher would take the lock again before the other one runs. */
    test_point_hold(DISPATCHER_AWAKE);
    selector_wakeup(&framework_dispatcher(&framework)->selector);
    test_point_await_held(DISPATCHER_AWAKE, 1);
    cr_assert(await_registered(&registrar, test_deadline()), "not registered although it is awake");
    test_point_release(DISPATCHER_AWAKE);
    pthread_join(registrar.thread, NULL);
    client_expect_text(client, "is anybody there\n");
    framework_close(&framework);
}

/* With it, it does not, at whichever dispatcher: all of them are asleep. */
static void with_the_guard_it_does_not_wait(const char *options)
{
    enum { ROUNDS = 21 };
    struct registrar registrar;
    struct recorder recorder;
    framework_start(&framework, "--guard lock --idle-timeout 0 --request-timeout 0 %s", options);
    for (int i = 0; i < ROUNDS; i++) {
        framework_await_asleep(&framework);
        int client = begin_registration(&registrar, &recorder);
        cr_assert(await_registered(&registrar, test_deadline()),
                  "a registration on an idle server waits");
        pthread_join(registrar.thread, NULL);
        client_echo(client, "is anybody there\n");
        client_close(client);
        framework_await_closed(&framework, (uint64_t)i + 1);
        recorder_expect_whole_life(&recorder);
    }
    framework_stop(&framework);
}

/*
 * A registration is one wakeup, the guard's, and makes an interest that the kernel has heard of. In
 * this schedule the dispatcher has woken, has found nothing, and comes to the barrier before the
 * adapter is in its queue; and then it does not sleep.
 */
static void a_registration_is_one_wakeup(const char *options)
{
    struct registrar registrar;
    struct recorder recorder;
    framework_start(&framework, "--selector poll --idle-timeout 0 --request-timeout 0 %s", options);
    struct dispatcher *dispatcher = framework_dispatcher(&framework);
    framework_await_asleep(&framework);
    uint64_t before = atomic_load(&dispatcher->selector.wakeups_asked);
    test_point_hold(GUARD_BARRIER);
    test_point_hold(RUN_ENDED);
    int client = begin_registration(&registrar, &recorder);
    test_point_await_held(RUN_ENDED, 1); /* registered, but not in the queue */
    test_point_await_held(GUARD_BARRIER, 1);
    struct handler_adapter *adapter =
        container_of(recorder_facade(&recorder), struct handler_adapter, connection.facade);
    cr_assert_eq(adapter->key.watched & SELECT_READ, SELECT_READ, "registered without interest");
    test_point_release(RUN_ENDED);
    cr_assert(await_registered(&registrar, test_deadline()));
    uint64_t wakeups = atomic_load(&dispatcher->selector.wakeups_asked) - before;
    test_point_release(GUARD_BARRIER);
    recorder_await(&recorder, calls[LIFE_STARTED], 1);
    cr_assert_eq(wakeups, 1, "a registration has asked for %d wakeups", (int)wakeups);
    pthread_join(registrar.thread, NULL);
    client_echo(client, "hello\n");
    framework_close(&framework);
}

/*
 * A connection that is registered between the barrier and select, and has sent already: select
 * reports it before it is in the queue. The dispatcher is awake then.
 */
static int begin_early_event(struct registrar *registrar, struct recorder *recorder)
{
    framework_await_asleep(&framework);
    test_point_hold(DISPATCHER_SELECTS);
    selector_wakeup(&framework_dispatcher(&framework)->selector);
    test_point_await_held(DISPATCHER_SELECTS, 1);
    test_point_hold(RUN_ENDED);
    int client = begin_registration(registrar, recorder);
    client_send_text(client, "hello\n");
    test_point_await_held(RUN_ENDED, 1);
    test_point_hold(DISPATCHER_AWAKE);
    test_point_release(DISPATCHER_SELECTS);
    test_point_await_held(DISPATCHER_AWAKE, 1);
    test_point_hold(RUN_BEGINS);
    return client;
}

/* It is in the queue now. Its first run is the one that begins it, and reads nothing. */
static void expect_it_begins_first(struct registrar *registrar, int client)
{
    struct recorder *recorder = registrar->recorder;
    struct handler_adapter *adapter =
        container_of(recorder_facade(recorder), struct handler_adapter, connection.facade);
    test_point_await_held(RUN_BEGINS, 1);
    mutex_lock(&adapter->state_lock);
    unsigned ready = adapter->ready;
    mutex_unlock(&adapter->state_lock);
    test_point_release(RUN_BEGINS);
    cr_assert_eq(ready, SELECT_NOTHING, "its first run, which calls `started`, reads");
    pthread_join(registrar->thread, NULL);
    client_expect_text(client, "hello\n");
    client_close(client);
}

#endif
