#include "handler_adapter.h"

#include "common/base/container_of.h"
#include "dispatcher.h"

#include <stdlib.h>

static void handler_adapter_run_task(struct task *task) NO_LOCK_HELD;
static void handler_adapter_drop_task(struct task *task) NO_LOCK_HELD;

static const struct task_verbs task_verbs = {handler_adapter_run_task, handler_adapter_drop_task};

struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd,
                                               struct input_handler_factory *factory)
{
    struct handler_adapter *adapter = calloc(1, sizeof(*adapter) + factory->handler_size);
    struct input_handler *handler =
        adapter != NULL ? input_handler_create(factory, adapter->memory) : NULL;
    if (handler == NULL) {
        free(adapter);
        return NULL;
    }
    adapter->dispatcher = dispatcher;
    adapter->task = (struct task){.verbs = &task_verbs, .fd = fd};
    adapter->processing = true;
    connection_open(&adapter->connection, &dispatcher->server->home, fd, handler);
    return adapter;
}

void handler_adapter_release(struct handler_adapter *adapter)
{
    free(adapter);
}

/* ---- In the dispatcher's thread ------------------------------------------------------------ */

/* Lea's "process" and "send", whoever does them. */
static void handler_adapter_call(struct handler_adapter *adapter,
                                 enum connection_messages how) NO_LOCK_HELD
{
    struct run run = {.found = &adapter->found};
    connection_handle(&adapter->connection, &run, how);
    connection_send(&adapter->connection, &run);
}

void handler_adapter_refuse(struct handler_adapter *adapter)
{
    adapter->processing = false;
    loop_serves(&adapter->dispatcher->loop, adapter->key.fd);
    handler_adapter_call(adapter, REFUSE_MESSAGE);
}

/* A run that must take place, as for a due timer, is not given up, however busy the workers are. */
static bool handler_adapter_submit(struct handler_adapter *adapter) NO_LOCK_HELD
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    bool accepted = true;
    if (!connection_must_run(&adapter->connection))
        task_list_append(&dispatcher->round, &adapter->task);
    else
        accepted = executor_insist(dispatcher->executor, &adapter->task);
    if (!accepted)
        handler_adapter_refuse(adapter);
    return accepted;
}

bool handler_adapter_process(struct handler_adapter *adapter)
{
    if (!connection_find(&adapter->connection, &adapter->found)) {
        handler_adapter_call(adapter, HANDLE_MESSAGES);
        return false;
    }
    adapter->processing = true;
    return handler_adapter_submit(adapter);
}

struct handler_adapter *handler_adapter_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler_adapter, timer);
}

void handler_adapter_count_held(const struct handler_adapter *adapter, uint64_t *output,
                                uint64_t *input)
{
    if (adapter->processing)
        return;
    *output += output_chain_length(&adapter->connection.output);
    *input += input_queue_length(&adapter->connection.input);
}

/* ---- In a worker --------------------------------------------------------------------------- */

/* Only the thread that makes the queue non-empty has to wake the dispatcher: that takes out all. */
void handler_adapter_done(struct handler_adapter *adapter)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    if (status_change_queue_put(&dispatcher->changes, adapter))
        dispatcher_wakeup(dispatcher);
}

static struct handler_adapter *handler_adapter_of(struct task *task)
{
    return container_of(task, struct handler_adapter, task);
}

/* Lea's Processer: what a worker does. */
static void handler_adapter_run_task(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    bool refused = task->late && !connection_must_run(&adapter->connection);
    handler_adapter_call(adapter, refused ? REFUSE_MESSAGE : HANDLE_MESSAGES);
    handler_adapter_done(adapter);
}

/* The saturation policy has given up a request: it gets no reply. */
static void handler_adapter_drop_task(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    handler_adapter_call(adapter, DROP_MESSAGE);
    handler_adapter_done(adapter);
}
