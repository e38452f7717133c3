/*
 * Bursts: what a run sends to other connections leaves in one call for each
 * (common/server/burst.h). One connection tells, and the other one hears.
 */
#include "framework.h"

#include "common/base/container_of.h"
#include "common/server/connection.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage4_bursts, .timeout = 120);

#define BURST_LEAVES "burst: before flush"

static struct framework framework;
static struct recorder tells, hears;
static int tells_client, hears_client;

static void begin(const char *options)
{
    recorder_init(&tells);
    recorder_init(&hears);
    tells.other = &hears;
    framework_start(&framework, "%s", options);
    tells_client = framework_connect(&framework, &tells.handler);
    hears_client = framework_connect(&framework, &hears.handler);
    client_echo(tells_client, "hello\n");
    client_echo(hears_client, "hello\n");
    framework_await_asleep(&framework);
}

static void end(void)
{
    framework_close(&framework);
}

/* The own answer leaves with the run, and then what was held back. */
WaysTest(stage4_bursts, is_held_back_until_the_run_ends)
{
    begin(workers);
    test_point_hold(BURST_LEAVES);
    client_send_text(tells_client, "tell one\ntell two\nand that is all\n");
    test_point_await_held(BURST_LEAVES, 1);
    client_expect_text(tells_client, "and that is all\n");
    client_expect_silence(hears_client, 20);
    test_point_release(BURST_LEAVES);
    client_expect_text(hears_client, "one\ntwo\n");
    end();
}

/* The last message is not held back, and takes along what is; the run's end finds nothing. */
WaysTest(stage4_bursts, leaves_with_the_last_message)
{
    begin(workers);
    test_point_hold(BURST_LEAVES);
    client_send_text(tells_client, "tell one\ntell two\ntell three\n");
    client_expect_text(hears_client, "one\ntwo\nthree\n");
    test_point_await_held(BURST_LEAVES, 1);
    test_point_release(BURST_LEAVES);
    client_echo(tells_client, "next\n");
    client_expect_silence(hears_client, 20);
    end();
}

/* What another thread sends meanwhile does not wait for the run, and comes behind what does. */
WaysTest(stage4_bursts, leaves_with_what_others_send)
{
    begin(workers);
    test_point_hold(BURST_LEAVES);
    client_send_text(tells_client, "tell one\nand that is all\n");
    test_point_await_held(BURST_LEAVES, 1);
    recorder_send(&hears, "from elsewhere\n");
    client_expect_text(hears_client, "one\nfrom elsewhere\n");
    test_point_release(BURST_LEAVES);
    client_expect_text(tells_client, "and that is all\n");
    end();
}

static size_t fill_socket(int fd)
{
    static const char zeros[65536];
    size_t filled = 0;
    ssize_t taken;
    while ((taken = write(fd, zeros, sizeof zeros)) > 0) {
        filled += (size_t)taken;
    }
    return filled;
}

/* Nobody watches the socket of one that rests: the run's end has to see to that (erratum 13). */
WaysTest(stage4_bursts, waits_for_a_socket_that_is_full)
{
    begin(workers);
    struct connection *full = container_of(recorder_facade(&hears), struct connection, facade);
    size_t filled = fill_socket(full->output.fd);
    client_ask(tells_client, "tell one\ntell two\nand that is all\n", "and that is all\n");
    framework_await_asleep(&framework);
    char *zeros = calloc(1, filled);
    client_expect(hears_client, zeros, filled);
    free(zeros);
    client_expect_text(hears_client, "one\ntwo\n");
    end();
}

/* Its connection is over, and gone but for the reference that the burst has. */
WaysTest(stage4_bursts, outlives_the_connection_it_is_for)
{
    begin(workers);
    test_point_hold(BURST_LEAVES);
    client_send_text(tells_client, "tell one\nand that is all\n");
    test_point_await_held(BURST_LEAVES, 1);
    client_close(hears_client);
    framework_await_closed(&framework, 1);
    recorder_expect_whole_life(&hears);
    test_point_release(BURST_LEAVES);
    client_expect_text(tells_client, "and that is all\n");
    client_echo(tells_client, "and I am here\n");
    framework_close(&framework);
}

/* It ends in the middle; what it has told by then is heard. */
WaysTest(stage4_bursts, outlives_the_connection_it_is_of)
{
    begin(workers);
    client_send_text(tells_client, "tell one\ntell two\nfail\n");
    client_expect_text(hears_client, "one\ntwo\n");
    client_expect_end(tells_client);
    client_half_close(tells_client); /* which is what a linger waits for */
    framework_await_closed(&framework, 1);
    end();
}
