/*
 * Ends: each test ends a connection in another way, and asserts that it had one whole life. Each
 * end takes place twice: the dispatcher runs the handlers itself, and workers do.
 */
#include "framework.h"

#include "inside/life_cycle_tests.h"

TestSuite(stage5_life_cycle, .timeout = 60);

#define ENDS(name)                                                                                 \
    Test(stage5_life_cycle, name##_in_the_dispatcher)                                              \
    {                                                                                              \
        name("--workers 0");                                                                       \
    }                                                                                              \
    Test(stage5_life_cycle, name##_in_a_worker)                                                    \
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

/* Once: it takes as long as a linger. */
Test(stage5_life_cycle, close_and_the_peer_never_closes)
{
    close_and_the_peer_never_closes("--workers 0");
}

/* ---- output that a rate holds back ---- */

/* The rate holds all output back, and no event is waited for: it is the reset that tells. */
static void peer_resets_while_its_output_is_held_back(const char *workers)
{
    int client = begin(workers, "");
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "one after the other\n");
    recorder_await(&recorder, messages, 2);
    client_reset(client);
    expect_one_life();
}

ENDS(peer_resets_while_its_output_is_held_back)

static void close_while_held_back_flushes(const char *workers)
{
    int client = begin(workers, "--drain-timeout 0.1");
    double begun = test_now();
    channel_set_write_rate(recorder_facade(&recorder), 50);
    client_send_text(client, "a line of twenty byt\nclose\n");
    client_half_close(client);
    client_expect_text(client, "a line of twenty byt\nclosing\n");
    client_expect_end(client);
    double took = test_now() - begun;
    cr_assert_gt(took, 29 / 50.0 * 0.85, "29 bytes at 50 B/s took %.2f s", took);
    client_close(client);
    expect_one_life();
}

ENDS(close_while_held_back_flushes)

static void server_stops_while_output_is_held_back(const char *workers)
{
    int client = begin(workers, "--drain-timeout 0.2");
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "this would take twenty seconds\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    double took = test_now() - begun;
    cr_assert(took > 0.15 && took < 3, "the stop took %.2f s; the drain timeout is 0.2 s", took);
    recorder_expect_whole_life(&recorder);
    client_close(client);
}

ENDS(server_stops_while_output_is_held_back)
