/*
 * Ends, by the tests of stage 4. Each end takes place twice: the dispatcher runs the handlers
 * itself, and workers do.
 */
#include "framework.h"

#define stage4_life_cycle stage5_life_cycle
#include "stage4/life_cycle.c"

/* ---- output that a rate holds back ---- */

/* The rate holds all output back, and no event is waited for: it is the reset that tells. */
OneClientTest(stage5_life_cycle, peer_resets_while_its_output_is_held_back, "")
{
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "one after the other\n");
    recorder_await(&recorder, messages, 2);
    client_reset(client);
    expect_one_life();
}

OneClientTest(stage5_life_cycle, close_while_held_back_flushes, "--drain-timeout 0.1")
{
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

OneClientTest(stage5_life_cycle, server_stops_while_output_is_held_back, "--drain-timeout 0.2")
{
    channel_set_write_rate(recorder_facade(&recorder), 1);
    client_send_text(client, "this would take twenty seconds\n");
    recorder_await(&recorder, messages, 2);
    framework_await_asleep(&framework);
    double begun = test_now();
    framework_stop(&framework);
    double took = test_now() - begun;
    cr_assert(took > 0.15 && took < 3, "the stop took %.2f s; the drain timeout is 0.2 s", took);
}
