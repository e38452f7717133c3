/*
 * An executor that an operator watches (watch.h): tasks that wait, and workers that are in one
 * handler for long.
 *
 * Interface: main() has it, and adds its part to the watch; the executor outlives the watch.
 */
#ifndef COMMON_WATCH_EXECUTOR_H
#define COMMON_WATCH_EXECUTOR_H

#include "common/server/watch.h"
#include "common/workers/executor.h"

struct watched_executor {
    struct watched_part part;
    struct executor *executor;
    const char *name;
    bool handles;       /* its tasks are runs of handlers, which should not take long */
    uint64_t completed; /* when the last look was */
    int64_t at;         /* the last look, ns */
    int64_t wait_ms;    /* of a task that is submitted now, as the last look has it */
};

/**
 * Has the watch look at an executor, whose name stands before its gauges. If it runs handlers,
 * those that take long are logged; a helper's task may take its time.
 */
void watch_executor(struct watch *watch, struct watched_executor *watched,
                    struct executor *executor, const char *name, bool handles);

#endif
