/*
 * Tasks that a handler begins, and their results (channel_begin()).
 */
#include "framework.h"

#include <stdio.h>

static void framework_ask_to_stop(struct framework *framework)
{
    dispatcher_stop(&framework->dispatcher);
}

#include "inside/helper_tests.h"
#include "inside/task_tests.h"

TestSuite(stage4_tasks, .timeout = 60);

#define WITH_WORKERS(name)                                                                         \
    Test(stage4_tasks, name)                                                                       \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

WITH_WORKERS(nobody_else_waits)
WITH_WORKERS(messages_may_go_on)
WITH_WORKERS(results_come_in_the_order_of_begin)
WITH_WORKERS(so_many_tasks_and_no_more_messages)
WITH_WORKERS(of_a_client_that_half_closes)
WITH_WORKERS(of_a_handler_that_closes)
WITH_WORKERS(of_a_handler_that_closes_with_messages_left)
WITH_WORKERS(of_an_output_that_is_finished)
WITH_WORKERS(of_a_connection_that_ends)
WITH_WORKERS(of_a_client_that_resets)
WITH_WORKERS(of_a_client_that_sends_on)
WITH_WORKERS(of_a_connection_that_ends_between_results)
WITH_WORKERS(no_deadline_passes_meanwhile)
WITH_WORKERS(who_waits_for_a_result_is_not_idle)
WITH_WORKERS(of_a_server_that_stops)
WITH_WORKERS(a_server_that_stops_waits_for_choked_output)
WITH_WORKERS(of_a_server_that_has_stopped)
WITH_WORKERS(where_there_are_no_helpers)
WITH_WORKERS(of_many_connections)

Test(stage4_tasks, a_helper_checks_the_password)
{
    log_in_with("--workers 1", true);
}

Test(stage4_tasks, without_helpers_the_handler_checks_it_itself)
{
    log_in_with("--workers 1 --helpers 0", false);
}
