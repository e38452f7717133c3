/*
 * One run of a handler, as a future (Hitchens, "HandlerFutureTask Class").
 *
 * A worker calls it, which runs the adapter; when the run is over, well or with an error, `done`
 * gives the adapter back to the dispatcher. The worker waits for nothing and returns to its pool.
 *
 * Interface:
 * - It is part of its adapter, and is prepared again for each run.
 * - The outcome of the run is the future's result, from which `done` decides. The adapter learns of
 *   an end before the dispatcher can see the adapter at all, so a dead one is never resumed
 * (erratum 7: Hitchens' done() enqueues first and asks afterwards).
 */
#ifndef HANDLER_FUTURE_TASK_H
#define HANDLER_FUTURE_TASK_H

#include "common/server/connection_find.h"
#include "common/workers/future_task.h"

struct handler_adapter;

/** How a run has ended: the result of its future. */
enum run_outcome {
    RUN_NONE,  /* there was none: it is new */
    RUN_RESTS, /* it has done what there was to do; what to wait for, the dispatcher asks */
    RUN_AGAIN, /* messages are left: it wants another run, after the others have had theirs */
    RUN_OVER,  /* the connection has ended: there will be no other run */
};

struct handler_future_task {
    struct future_task future;
    struct handler_adapter *adapter;
};

/** Makes it ready for the adapter's next run. */
void handler_future_task_prepare(struct handler_future_task *task,
                                 struct handler_adapter *adapter) NO_LOCK_HELD;

/** Where there is no executor: the run, as a plain call. The dispatcher's thread. */
void handler_future_task_do(struct handler_adapter *adapter) NO_LOCK_HELD;

/**
 * For a run that the executor does not take: drops one message, by refuse_input or, if `how` is
 * DROP_MESSAGE, without an answer, and ends the run. The thread that submits.
 */
void handler_future_task_refuse(struct handler_future_task *task,
                                enum connection_messages how) NO_LOCK_HELD;

#endif
