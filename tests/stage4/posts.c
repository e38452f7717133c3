/*
 * Posts: calls in a connection's own context, from any thread (channel_post()).
 */
#include "framework.h"

#include "inside/post_tests.h"

TestSuite(stage4_posts, .timeout = 60);

#define WITH_WORKERS(name)                                                                         \
    Test(stage4_posts, name)                                                                       \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

WITH_WORKERS(wakes_a_connection_that_rests)
WITH_WORKERS(comes_too_late_for_a_run)
WITH_WORKERS(runs_while_input_is_suspended)
WITH_WORKERS(posts_itself_again)
WITH_WORKERS(is_dropped_if_the_connection_ends_first)
WITH_WORKERS(is_dropped_at_once_after_the_end)
WITH_WORKERS(many_threads_post)
WITH_WORKERS(many_threads_post_the_same)
