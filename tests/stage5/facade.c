/*
 * What a handler's facade promises, with the handler in the dispatcher and in a worker.
 */
#include "framework.h"

#include "inside/facade_tests.h"

TestSuite(stage5_facade, .timeout = 60);

#define BOTH_WAYS(name)                                                                            \
    Test(stage5_facade, name##_in_the_dispatcher)                                                  \
    {                                                                                              \
        name("--workers 0");                                                                       \
    }                                                                                              \
    Test(stage5_facade, name##_in_a_worker)                                                        \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

BOTH_WAYS(output_of_another_thread_leaves_at_once)
BOTH_WAYS(erratum_13_output_of_another_thread_that_has_to_wait)
BOTH_WAYS(choked_by_another_thread)
BOTH_WAYS(output_of_another_thread_during_a_run)
BOTH_WAYS(output_to_a_peer_that_is_gone_ends_a_suspended_connection)
BOTH_WAYS(case_27_suspended_while_the_peer_sends)
BOTH_WAYS(suspended_by_its_handler_with_messages_left)
BOTH_WAYS(suspended_at_the_end_of_stream)
BOTH_WAYS(case_28_suspend_and_resume_from_different_threads)
BOTH_WAYS(timers_fire_with_input_suspended)
BOTH_WAYS(a_timer_that_is_cancelled_does_not_fire)
BOTH_WAYS(a_timer_does_not_hold_up_the_end)
BOTH_WAYS(handlers_may_be_switched)
BOTH_WAYS(peer_is_the_client)
BOTH_WAYS(behind_a_proxy_peer_is_the_client_that_it_names)
BOTH_WAYS(after_stopped_a_facade_is_harmless)
