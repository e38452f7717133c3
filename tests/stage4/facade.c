/*
 * What a handler's facade promises, to its own connection and to others.
 */
#include "framework.h"

#include "inside/facade_tests.h"

TestSuite(stage4_facade, .timeout = 60);

#define WITH_WORKERS(name)                                                                         \
    Test(stage4_facade, name)                                                                      \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

WITH_WORKERS(output_of_another_thread_leaves_at_once)
WITH_WORKERS(erratum_13_output_of_another_thread_that_has_to_wait)
WITH_WORKERS(choked_by_another_thread)
WITH_WORKERS(output_of_another_thread_during_a_run)
WITH_WORKERS(output_to_a_peer_that_is_gone_ends_a_suspended_connection)
WITH_WORKERS(case_27_suspended_while_the_peer_sends)
WITH_WORKERS(suspended_by_its_handler_with_messages_left)
WITH_WORKERS(suspended_at_the_end_of_stream)
WITH_WORKERS(case_28_suspend_and_resume_from_different_threads)
WITH_WORKERS(timers_fire_with_input_suspended)
WITH_WORKERS(a_timer_that_is_cancelled_does_not_fire)
WITH_WORKERS(a_timer_does_not_hold_up_the_end)
WITH_WORKERS(handlers_may_be_switched)
WITH_WORKERS(peer_is_the_client)
WITH_WORKERS(behind_a_proxy_peer_is_the_client_that_it_names)
WITH_WORKERS(after_stopped_a_facade_is_harmless)
