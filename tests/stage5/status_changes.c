/*
 * Case 31 with several dispatchers, each of which has a status-change queue and a wakeup of its
 * own: whoever changes something, the dispatcher of that connection sees it.
 */
#include "framework.h"

#include "inside/changes_tests.h"

TestSuite(stage5_status_changes, .timeout = 120);

Test(stage5_status_changes, case_31_changes_while_the_dispatchers_are_awake_cost_nothing)
{
    changes_while_awake_cost_nothing("--workers 0 --dispatchers 2");
}

Test(stage5_status_changes, case_31_eight_threads_with_a_hundred_thousand_changes_each)
{
    a_hundred_thousand_changes_each("--workers 0 --dispatchers 2");
}
