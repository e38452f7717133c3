#include "handler_future_task.h"

#include "dispatcher.h"
#include "handler_adapter.h"

static struct handler_adapter *adapter_of(struct future_task *future)
{
    return ((struct handler_future_task *)future)->adapter;
}

/* In the worker: the Callable's call(). */
static int handler_future_task_call(struct future_task *future)
{
    return handler_adapter_call(adapter_of(future));
}

/* In the worker, or, if the executor has dropped the run, in the thread that dropped it. */
static void handler_future_task_done(struct future_task *future)
{
    struct handler_adapter *adapter = adapter_of(future);
    if (!future_task_was_cancelled(future))
        handler_adapter_done(adapter, future->error);
    else if (handler_adapter_must_run(adapter))
        dispatcher_execute(adapter->dispatcher, adapter);
    else
        handler_adapter_refuse(adapter, false);
}

void handler_future_task_prepare(struct handler_future_task *task, struct handler_adapter *adapter)
{
    task->adapter = adapter;
    future_task_init(&task->future, &adapter->dispatcher->monitor, handler_future_task_call,
                     handler_future_task_done);
    task->future.task.urgent = adapter->urgent;
    task->future.task.fd = adapter->key.fd;
}
