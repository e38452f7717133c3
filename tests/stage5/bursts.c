/*
 * Bursts: what a run sends to other connections leaves in one call for each, with the handler in
 * the dispatcher and in a worker.
 */
#include "framework.h"

#include "inside/burst_tests.h"

TestSuite(stage5_bursts, .timeout = 60);

#define BOTH_WAYS(name)                                                                            \
    Test(stage5_bursts, name##_in_the_dispatcher)                                                  \
    {                                                                                              \
        name("--workers 0 --dispatchers 2");                                                       \
    }                                                                                              \
    Test(stage5_bursts, name##_in_a_worker)                                                        \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

BOTH_WAYS(is_held_back_until_the_run_ends)
BOTH_WAYS(leaves_with_the_last_message)
BOTH_WAYS(leaves_with_what_others_send)
BOTH_WAYS(waits_for_a_socket_that_is_full)
BOTH_WAYS(outlives_the_connection_it_is_for)
BOTH_WAYS(outlives_the_connection_it_is_of)
