/*
 * Stands in for common/workers/executor_saturation.c: one policy.
 */
#include "common/workers/executor_parts.h"

static bool abort_task(struct executor *executor, struct task *task) REQUIRES(&executor->lock)
{
    (void)task;
    executor->stats.aborted++;
    return false;
}

const struct saturation_policy saturation_abort = {"abort", false, abort_task};
