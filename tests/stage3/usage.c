/*
 * What stage 3 cannot do, as a user meets it. What each option takes, tests/conformance/usage.c
 * asks.
 */
#include "support/server_process.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(stage3_usage, .timeout = 120);

/* No handler here can send to another client, which is what a chat is: the reason for stage 4. */
Test(stage3_usage, cannot_yet_chat)
{
    program_expect_lack("chat", "output from other connections' handlers");
}

/* Nor has it a context that all clients share and none of them owns. */
Test(stage3_usage, cannot_yet_be_a_store)
{
    program_expect_lack("store", "strands");
}
