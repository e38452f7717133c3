/*
 * Bursts: what a run sends to other connections leaves in one call for each.
 */
#include "framework.h"

#include "inside/burst_tests.h"

TestSuite(stage4_bursts, .timeout = 60);

#define WITH_WORKERS(name)                                                                         \
    Test(stage4_bursts, name)                                                                      \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

WITH_WORKERS(is_held_back_until_the_run_ends)
WITH_WORKERS(leaves_with_the_last_message)
WITH_WORKERS(leaves_with_what_others_send)
WITH_WORKERS(waits_for_a_socket_that_is_full)
WITH_WORKERS(outlives_the_connection_it_is_for)
WITH_WORKERS(outlives_the_connection_it_is_of)
