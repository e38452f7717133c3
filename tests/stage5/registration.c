/*
 * The selector guard: the acceptor registers connections from its own thread, and here that is the
 * rule and not the exception. Stage 4's tests show what else the guard promises; it is the same.
 */
#include "framework.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <pthread.h>

TestSuite(stage5_registration, .timeout = 60);

static struct framework framework;
static struct recorder recorder;

/** A thread that takes the acceptor's part, because it may have to wait. */
struct registrar {
    int fd;
    atomic_bool registered;
    pthread_t thread;
};

static void *register_one(void *argument)
{
    struct registrar *registrar = argument;
    framework_register(&framework, registrar->fd, &recorder.handler);
    atomic_store(&registrar->registered, true);
    return NULL;
}

/** Returns the client's end of a connection that is being registered. */
static int begin_registration(struct registrar *registrar)
{
    recorder_init(&recorder);
    *registrar = (struct registrar){0};
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

static double deadline(void)
{
    return test_now() + test_deadline_ms() / 1000.0;
}

/*
 * select holds the selector's lock while it sleeps. Without the guard the acceptor waits until
 * something else ends the sleep of that dispatcher; and meanwhile it accepts nobody for the others.
 */
Test(stage5_registration, lesson_without_the_guard_it_waits_until_something_happens)
{
    struct registrar registrar;
    framework_start(&framework, "--guard none --workers 0 --idle-timeout 0 --request-timeout 0");
    framework_await_asleep(&framework);
    int client = begin_registration(&registrar);
    client_send_text(client, "is anybody there\n");
    client_expect_silence(client, 300);
    cr_assert_not(atomic_load(&registrar.registered), "it did not wait: is there a guard?");
    /* Something happens, again and again: the dispatcher may be back in select first. */
    for (double end = deadline(); test_left_ms(end) > 0;) {
        selector_wakeup(&framework_dispatcher(&framework)->selector);
        if (await_registered(&registrar, test_now() + 0.002)) {
            break;
        }
    }
    cr_assert(atomic_load(&registrar.registered), "not registered although much happened");
    pthread_join(registrar.thread, NULL);
    client_expect_text(client, "is anybody there\n");
    client_close(client);
    framework_stop(&framework);
    recorder_expect_whole_life(&recorder);
}

/* With it, it does not, at whichever dispatcher: all of them are asleep. */
Test(stage5_registration, lesson_with_the_guard_it_does_not_wait)
{
    enum { ROUNDS = 21 };
    struct registrar registrar;
    framework_start(&framework, "--guard lock --dispatchers 3 --workers 0 --idle-timeout 0 "
                                "--request-timeout 0");
    for (int i = 0; i < ROUNDS; i++) {
        framework_await_asleep(&framework);
        int client = begin_registration(&registrar);
        cr_assert(await_registered(&registrar, deadline()),
                  "a registration on an idle server waits");
        pthread_join(registrar.thread, NULL);
        client_echo(client, "is anybody there\n");
        client_close(client);
        framework_await_closed(&framework, (uint64_t)i + 1);
        recorder_expect_whole_life(&recorder);
    }
    framework_stop(&framework);
}
