/*
 * The options that only stage 3 has, as a user meets them.
 */
#include "support/client.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage3_usage, .timeout = 60);

static void expect_refused(const char *arguments, const char *complaint)
{
    char expected[512];
    struct program_result result = program_run("%s", arguments);
    snprintf(expected, sizeof expected, "%s: %s\n", server_name(), complaint);
    cr_assert(result.exit_status == 2 && strcmp(result.err, expected) == 0 && !*result.out,
              "`%s`: expected exit status 2 and `%s` on standard error, got %d and `%s`", arguments,
              expected, result.exit_status, result.err);
}

Test(stage3_usage, bad_numbers)
{
    expect_refused("--workers 0", "--workers: expected a number from 1 to 10000, got '0'");
    expect_refused("--workers x", "--workers: expected a number from 1 to 10000, got 'x'");
    expect_refused("--workers=", "--workers: expected a number from 1 to 10000, got ''");
    expect_refused("--workers 10001", "--workers: expected a number from 1 to 10000, got '10001'");
    expect_refused("--workers", "--workers: needs a value: N");
    expect_refused("--max-workers -1",
                   "--max-workers: expected a number from 0 to 10000, got '-1'");
    expect_refused("--keep-alive soon", "--keep-alive: expected a number of seconds, got 'soon'");
}

Test(stage3_usage, bad_choices)
{
    static const char queues[] = "--queue: expected one of direct, bounded:N, unbounded, priority";
    static const char *const bad_queues[] = {"x", "bounded", "bounded:", "bounded:0", "bounded:x"};
    for (size_t i = 0; i < sizeof bad_queues / sizeof *bad_queues; i++) {
        char arguments[64];
        char complaint[128];
        snprintf(arguments, sizeof arguments, "--queue %s", bad_queues[i]);
        snprintf(complaint, sizeof complaint, "%s, got '%s'", queues, bad_queues[i]);
        expect_refused(arguments, complaint);
    }
    expect_refused("--saturation x", "--saturation: expected one of abort, block, caller-runs, "
                                     "discard, discard-oldest, got 'x'");
    expect_refused("--guard x", "--guard: expected one of lock, none, got 'x'");
    expect_refused("--guard=", "--guard: expected one of lock, none, got ''");
}

Test(stage3_usage, help_lists_the_options)
{
    static const char *const options[] = {"--selector",   "--workers", "--max-workers",
                                          "--keep-alive", "--queue",   "--saturation",
                                          "--guard",      "none"};
    struct program_result result = program_run("--help");
    cr_assert_eq(result.exit_status, 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        cr_assert(strstr(result.out, options[i]), "--help does not list %s; it prints: %s",
                  options[i], result.out);
    }
}

/* No handler here can send to another client, which is what a chat is: the reason for stage 4. */
Test(stage3_usage, cannot_yet_chat)
{
    struct program_result result = program_run("--app chat --port 0");
    cr_assert_not(result.started, "it serves a chat");
    cr_assert_eq(result.exit_status, 2);
    cr_assert(
        strstr(result.err, "--app: chat needs output from other connections' handlers, which "),
        "%s", result.err);
    cr_assert(strstr(result.err, server_name()), "%s", result.err);
}
