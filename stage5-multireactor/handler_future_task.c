#include "handler_future_task.h"

#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "dispatcher.h"
#include "handler_adapter.h"

static struct handler_adapter *adapter_of(struct future_task *future)
{
    return container_of(future, struct handler_future_task, future)->adapter;
}

static enum run_outcome outcome_of(struct connection *connection)
{
    switch (connection_wants(connection)) {
    case CONNECTION_OVER: return RUN_OVER;
    case CONNECTION_RUN: return RUN_AGAIN;
    default: return RUN_RESTS;
    }
}

/* Messages, drain. (Hitchens drains first; what waits is no hurry, and leaves with them.) */
static void call_handler(struct handler_adapter *adapter, enum connection_messages how) NO_LOCK_HELD
{
    struct connection *connection = &adapter->connection;
    struct run run;
    TEST_POINT("adapter: call");
    run_begin(&run, connection);
    connection_handle(connection, &run, how);
    run_make_calls(&run);
    connection_send(connection, &run);
    run_end(&run);
}

/* In the worker: the Callable's call(). */
static int handler_future_task_call(struct future_task *future) NO_LOCK_HELD
{
    struct handler_adapter *adapter = adapter_of(future);
    bool refused = future->task.late && !connection_must_run(&adapter->connection);
    call_handler(adapter, refused ? REFUSE_MESSAGE : HANDLE_MESSAGES);
    return (int)outcome_of(&adapter->connection);
}

void handler_future_task_do(struct handler_adapter *adapter)
{
    call_handler(adapter, HANDLE_MESSAGES);
}

void handler_future_task_refuse(struct handler_future_task *task, enum connection_messages how)
{
    call_handler(task->adapter, how);
    handler_adapter_done(task->adapter, outcome_of(&task->adapter->connection));
}

/*
 * In the worker, or, if the executor has dropped the run, in the thread that dropped it. That may
 * be any thread, so this touches nothing of the dispatcher's, such as its `round`.
 */
static void handler_future_task_done(struct future_task *future) NO_LOCK_HELD
{
    struct handler_adapter *adapter = adapter_of(future);
    int outcome;
    if (future_task_has_run(future, &outcome)) {
        handler_adapter_done(adapter, (enum run_outcome)outcome);
    } else if (connection_must_run(&adapter->connection)) {
        TEST_POINT("adapter: dropped");
        handler_future_task_prepare(&adapter->run, adapter);
        if (!executor_insist(adapter->dispatcher->executor, &future->task))
            task_run(&future->task);
    } else {
        handler_future_task_refuse(&adapter->run, DROP_MESSAGE);
    }
}

void handler_future_task_prepare(struct handler_future_task *task, struct handler_adapter *adapter)
{
    task->adapter = adapter;
    future_task_init(&task->future, NULL, handler_future_task_call, handler_future_task_done);
    task->future.task.urgent = executor_has_priorities(adapter->dispatcher->executor) &&
                               connection_is_urgent(&adapter->connection);
    task->future.task.fd = adapter->connection.output.fd;
}
