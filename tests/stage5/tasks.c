/*
 * Tasks that a handler begins, and their results (channel_begin()), with the handler in the
 * dispatcher and in a worker.
 */
#include "framework.h"

#include <stdio.h>

static void framework_ask_to_stop(struct framework *framework)
{
    dispatcher_stop(framework_dispatcher(framework));
}

#include "inside/helper_tests.h"
#include "inside/task_tests.h"

TestSuite(stage5_tasks, .timeout = 60);

#define BOTH_WAYS(name)                                                                            \
    Test(stage5_tasks, name##_in_the_dispatcher)                                                   \
    {                                                                                              \
        name("--workers 0");                                                                       \
    }                                                                                              \
    Test(stage5_tasks, name##_in_a_worker)                                                         \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

BOTH_WAYS(nobody_else_waits)
BOTH_WAYS(messages_may_go_on)
BOTH_WAYS(results_come_in_the_order_of_begin)
BOTH_WAYS(so_many_tasks_and_no_more_messages)
BOTH_WAYS(of_a_client_that_half_closes)
BOTH_WAYS(of_a_handler_that_closes)
BOTH_WAYS(of_a_handler_that_closes_with_messages_left)
BOTH_WAYS(of_an_output_that_is_finished)
BOTH_WAYS(of_a_connection_that_ends)
BOTH_WAYS(of_a_client_that_resets)
BOTH_WAYS(of_a_client_that_sends_on)
BOTH_WAYS(of_a_connection_that_ends_between_results)
BOTH_WAYS(no_deadline_passes_meanwhile)
BOTH_WAYS(who_waits_for_a_result_is_not_idle)
BOTH_WAYS(of_a_server_that_stops)
BOTH_WAYS(a_server_that_stops_waits_for_choked_output)
BOTH_WAYS(of_a_server_that_has_stopped)
BOTH_WAYS(where_there_are_no_helpers)
BOTH_WAYS(of_many_connections)

Test(stage5_tasks, a_helper_checks_the_password)
{
    log_in_with("--workers 0", true);
}

Test(stage5_tasks, without_helpers_the_handler_checks_it_itself)
{
    log_in_with("--workers 0 --helpers 0", false);
}
