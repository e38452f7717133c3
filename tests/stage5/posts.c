/*
 * Posts: calls in a connection's own context, from any thread (channel_post()), with the handler in
 * the dispatcher and in a worker.
 */
#include "framework.h"

#include "inside/post_tests.h"

TestSuite(stage5_posts, .timeout = 60);

#define BOTH_WAYS(name)                                                                            \
    Test(stage5_posts, name##_in_the_dispatcher)                                                   \
    {                                                                                              \
        name("--workers 0");                                                                       \
    }                                                                                              \
    Test(stage5_posts, name##_in_a_worker)                                                         \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

BOTH_WAYS(wakes_a_connection_that_rests)
BOTH_WAYS(comes_too_late_for_a_run)
BOTH_WAYS(runs_while_input_is_suspended)
BOTH_WAYS(posts_itself_again)
BOTH_WAYS(is_dropped_if_the_connection_ends_first)
BOTH_WAYS(is_dropped_at_once_after_the_end)
BOTH_WAYS(many_threads_post)
BOTH_WAYS(many_threads_post_the_same)
