/*
 * Runs in workers, as in stage 4; runs.c has those in the dispatcher, too.
 */
#include "framework.h"

#include "inside/run_tests.h"

TestSuite(stage5_worker_runs, .timeout = 60);

#define RUN(name)                                                                                  \
    Test(stage5_worker_runs, name)                                                                 \
    {                                                                                              \
        name();                                                                                    \
    }

RUN(erratum_07_dead_before_it_can_be_seen)
RUN(erratum_07_changes_before_done_do_not_revive)
RUN(erratum_08_no_second_run_before_done)
RUN(erratum_08_change_before_done_is_not_lost)
RUN(erratum_08_output_before_done_is_not_lost)
RUN(erratum_18_change_before_the_run_is_not_overwritten)
RUN(erratum_18_change_by_the_handler_is_merged_with_others)
RUN(case_34_peer_is_gone_before_the_worker_is_done)
RUN(case_36_messages_of_a_connection_one_at_a_time_and_in_order)
RUN(case_29_a_worker_goes_on_with_the_next_connection_after_a_run)
RUN(dispatcher_survives_handlers_that_always_fail)
