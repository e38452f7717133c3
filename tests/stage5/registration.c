/*
 * The selector guard: the acceptor registers connections from its own thread, and here that is the
 * rule and not the exception. Stage 4's tests show what else the guard promises; it is the same.
 */
#include "framework.h"

#include "inside/guard_tests.h"

TestSuite(stage5_registration, .timeout = 60);

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
