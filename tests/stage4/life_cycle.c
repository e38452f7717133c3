/*
 * Ends: each test ends a connection in another way, and asserts that it had one whole life.
 */
#include "framework.h"

#include "inside/life_cycle_tests.h"

TestSuite(stage4_life_cycle, .timeout = 60);

#define ENDS(name)                                                                                 \
    Test(stage4_life_cycle, name)                                                                  \
    {                                                                                              \
        name("--workers 2");                                                                       \
    }

ENDS(peer_closes)
ENDS(peer_half_closes)
ENDS(peer_resets)
ENDS(peer_resets_with_output_waiting)
ENDS(peer_resets_before_its_registration)
ENDS(handler_fails)
ENDS(handler_closes)
ENDS(handler_closes_while_it_starts)
ENDS(another_thread_closes)
ENDS(another_thread_unregisters)
ENDS(closed_and_unregistered_and_reset_at_once)
ENDS(output_above_the_cap)
ENDS(line_too_long)
ENDS(close_flushes)
ENDS(close_and_the_peer_never_reads)
ENDS(close_lasts_longer_than_the_drain_timeout)
ENDS(close_and_the_peer_never_closes)
ENDS(close_and_the_peer_never_stops_sending)
ENDS(idle_timeout)
ENDS(request_timeout)
ENDS(request_timeout_that_is_told)
ENDS(idle_timeout_that_is_told)
ENDS(idle_timeout_with_output_waiting_is_not_told)
ENDS(lifetime)
ENDS(lifetime_of_one_that_is_busy)
ENDS(progress_timeout)
ENDS(server_stops_while_idle)
ENDS(server_stops_while_running)
ENDS(server_stops_while_output_waits)
ENDS(server_stops_while_choked)
ENDS(server_stops_before_it_has_started)
ENDS(kernel_does_not_watch)
ENDS(facade_that_is_kept)

/* It is not idle while a worker has it; only then its time begins. */
Test(stage4_life_cycle, idle_time_does_not_run_out_while_a_worker_runs)
{
    int client = begin("--workers 2", "--idle-timeout 0.3");
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "this takes longer than the timeout\n");
    test_point_await_held(RUN_BEGINS, 1);
    long rounds = test_point_count(DISPATCHER_AWAKE);
    test_pause_ms(350);
    test_point_await_count(DISPATCHER_AWAKE, rounds + 1); /* there is nothing else to wake it */
    cr_assert_eq(framework_count(&framework, COUNTER_TIMED_OUT), 0);
    test_point_release(RUN_BEGINS);
    client_expect_text(client, "this takes longer than the timeout\n");
    client_expect_end(client);
    expect_end(1);
    client_close(client);
}
