/*
 * Runs in workers, by the tests of stage 4; runs.c has those in the dispatcher, too.
 */
#include "framework.h"

#define stage4_runs stage5_worker_runs
#include "stage4/runs.c"
