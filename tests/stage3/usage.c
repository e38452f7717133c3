/*
 * What stage 3 cannot do, as a user meets it. What each option takes, tests/conformance/usage.c
 * asks.
 */
#include "support/server_process.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(stage3_usage, .timeout = 60);

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

/* Nor has it a context that all clients share and none of them owns. */
Test(stage3_usage, cannot_yet_be_a_store)
{
    struct program_result result = program_run("--app store --port 0");
    cr_assert_not(result.started, "it serves a store");
    cr_assert_eq(result.exit_status, 2);
    cr_assert(strstr(result.err, "--app: store needs strands, which "), "%s", result.err);
    cr_assert(strstr(result.err, "; stages 4 and 5 do\n"), "%s", result.err);
}
