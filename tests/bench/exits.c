/*
 * Preloaded into the programs of steps that gcov counts: those have no end of their own, and what
 * was counted is written by exit().
 */
#include <signal.h>
#include <stdlib.h>

static void end(int signal_number)
{
    (void)signal_number;
    exit(0); /* it sleeps when this comes: NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

__attribute__((constructor)) static void begin(void)
{
    signal(SIGTERM, end);
}
