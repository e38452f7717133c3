/*
 * The selector guard: the acceptor registers connections from its own thread, and here that is the
 * rule and not the exception. Stage 4's tests show what else the guard promises; it is the same.
 */
#include "framework.h"

#include "inside/guard_tests.h"

TestSuite(stage5_registration, .timeout = 120);

Test(stage5_registration, lesson_without_the_guard_it_waits_until_something_happens)
{
    without_the_guard_it_waits("--workers 0");
}

Test(stage5_registration, lesson_with_the_guard_it_does_not_wait)
{
    with_the_guard_it_does_not_wait("--workers 0 --dispatchers 3");
}

Test(stage5_registration, is_one_wakeup)
{
    a_registration_is_one_wakeup("--workers 0 --dispatchers 1");
}

/* Events come before the queue here. */
Test(stage5_registration, an_early_event_waits_until_the_connection_has_begun)
{
    struct registrar registrar;
    struct recorder recorder;
    framework_start(&framework, "--idle-timeout 0 --request-timeout 0 --workers 0 --dispatchers 1");
    int client = begin_early_event(&registrar, &recorder);
    test_point_release(RUN_ENDED);
    cr_assert(await_registered(&registrar, test_deadline()));
    test_point_release(DISPATCHER_AWAKE);
    expect_it_begins_first(&registrar, client);
    framework_stop(&framework);
}
