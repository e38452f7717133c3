#include "handler_adapter.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"

#include <stdlib.h>
#include <unistd.h>

static void handler_adapter_process(struct handler_adapter *adapter) NO_LOCK_HELD;
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
    connection_open(&adapter->connection, &dispatcher->server->home, fd, handler);
    return adapter;
}

void handler_adapter_close(struct handler_adapter *adapter)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    loop_serves(&dispatcher->loop, adapter->key.fd);
    timer_heap_cancel(&dispatcher->timers, &adapter->timer);
    selector_cancel(&adapter->key);
    close(connection_detach(&adapter->connection));
    admission_leave(dispatcher->admission);
    free(adapter);
}

/* ---- In the dispatcher's thread ------------------------------------------------------------ */

/* Has the selector wait for what the connection wants. False if there is nothing to wait for. */
static bool handler_adapter_resume(struct handler_adapter *adapter, unsigned wants)
{
    if (wants == CONNECTION_OVER)
        return false;
    return wants == adapter->key.interest || selector_interest(&adapter->key, wants) == 0;
}

/* Whether it is in the dispatcher's list: then the next key there is attached. */
static bool handler_adapter_has_turn(const struct handler_adapter *adapter)
{
    return adapter->key.attachment != adapter;
}

/* Puts it into the dispatcher's list, unless it is there: the others go first. */
static void handler_adapter_give_turn(struct handler_adapter *adapter)
{
    if (!handler_adapter_has_turn(adapter))
        turns_append(&adapter->dispatcher->again, &adapter->key);
}

/* Waits for what the connection wants, or ends it. */
static void handler_adapter_wait(struct handler_adapter *adapter) NO_LOCK_HELD
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    unsigned wants = connection_wants(&adapter->connection);
    if (wants == CONNECTION_RUN) {
        handler_adapter_give_turn(adapter);
    } else if (!handler_adapter_resume(adapter, wants)) {
        handler_adapter_close(adapter);
        return;
    }
    timer_heap_set_by(&dispatcher->timers, &adapter->timer,
                      connection_deadline(&adapter->connection, dispatcher->now));
}

static void handler_adapter_set_processing(struct handler_adapter *adapter, bool processing)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    mutex_lock(&dispatcher->guard.lock);
    adapter->processing = processing;
    mutex_unlock(&dispatcher->guard.lock);
}

/* Lea's "process" and "send", whoever does them. */
static void handler_adapter_call(struct handler_adapter *adapter,
                                 enum connection_messages how) NO_LOCK_HELD
{
    struct run run = {.found = &adapter->found};
    connection_handle(&adapter->connection, &run, how);
    connection_send(&adapter->connection, &run);
}

/* The dispatcher's thread does what a worker need not, or will not, do. */
static void handler_adapter_do(struct handler_adapter *adapter,
                               enum connection_messages how) NO_LOCK_HELD
{
    handler_adapter_call(adapter, how);
    handler_adapter_wait(adapter);
}

/* A timer that is due is not given up, however busy the workers are. */
static void handler_adapter_submit(struct handler_adapter *adapter) NO_LOCK_HELD
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    if (!connection_must_run(&adapter->connection))
        task_list_append(&dispatcher->round, &adapter->task);
    else if (!executor_insist(dispatcher->executor, &adapter->task))
        handler_adapter_refuse(&adapter->task);
}

/* Gives a whole request to a worker. If less has come, the dispatcher goes on itself. */
static void handler_adapter_process(struct handler_adapter *adapter)
{
    loop_serves(&adapter->dispatcher->loop, adapter->key.fd);
    if (!connection_find(&adapter->connection, &adapter->found)) {
        handler_adapter_do(adapter, HANDLE_MESSAGES);
        return;
    }
    selector_interest(&adapter->key, SELECT_NOTHING);
    handler_adapter_set_processing(adapter, true);
    handler_adapter_submit(adapter);
}

/* Input has come, or room for what could not be sent before. */
void handler_adapter_run(struct handler_adapter *adapter)
{
    if ((adapter->key.ready & SELECT_READ) != 0)
        connection_receive(&adapter->connection);
    handler_adapter_process(adapter);
}

/* One that has more to do after its turn is in the list again, for the next round. */
void handler_adapter_take_turns(struct turns *list)
{
    struct turns turns = *list;
    struct selection_key *key;
    list->first = NULL;
    while ((key = turns_take_first(&turns)) != NULL) {
        struct handler_adapter *adapter = container_of(key, struct handler_adapter, key);
        key->attachment = adapter;
        handler_adapter_process(adapter);
    }
}

/* The timer of one that is being processed is set again when it is back. */
static bool handler_adapter_is_due(struct handler_adapter *adapter)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    mutex_lock(&dispatcher->guard.lock);
    timer_heap_set(&dispatcher->timers, &adapter->timer, INT64_MAX);
    bool processing = adapter->processing;
    mutex_unlock(&dispatcher->guard.lock);
    return !processing;
}

/* A timer may fire too early, because its deadline has moved since: then it is only set again. */
void handler_adapter_expire(struct handler_adapter *adapter)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    if (!handler_adapter_is_due(adapter))
        return;
    bool stops =
        dispatcher_is_stopping(dispatcher) && connection_ask(&adapter->connection, ASK_STOP, 0);
    if (connection_expire(&adapter->connection, dispatcher->now) || stops ||
        handler_adapter_has_turn(adapter))
        handler_adapter_give_turn(adapter); /* in this round, if it has none; that sets the timer */
    else
        handler_adapter_wait(adapter);
}

struct handler_adapter *handler_adapter_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler_adapter, timer);
}

/* While a worker has it, what it holds is the worker's. */
void handler_adapter_count_held(const struct handler_adapter *adapter, uint64_t *output,
                                uint64_t *input)
{
    mutex_lock(&adapter->dispatcher->guard.lock);
    bool rests = !adapter->processing;
    mutex_unlock(&adapter->dispatcher->guard.lock);
    if (!rests)
        return;
    *output += output_chain_length(&adapter->connection.output);
    *input += input_queue_length(&adapter->connection.input);
}

static struct handler_adapter *handler_adapter_of(struct task *task)
{
    return container_of(task, struct handler_adapter, task);
}

void handler_adapter_refuse(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    handler_adapter_set_processing(adapter, false);
    loop_serves(&adapter->dispatcher->loop, task->fd);
    handler_adapter_do(adapter, REFUSE_MESSAGE);
}

/* There may be no memory for a new adapter's timer. */
void handler_adapter_go_on(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    struct dispatcher *dispatcher = adapter->dispatcher;
    handler_adapter_set_processing(adapter, false);
    if (!timer_heap_set(&dispatcher->timers, &adapter->timer, INT64_MAX))
        handler_adapter_close(adapter);
    else if (dispatcher_is_stopping(dispatcher) &&
             connection_ask(&adapter->connection, ASK_STOP, 0))
        handler_adapter_process(adapter);
    else
        handler_adapter_wait(adapter);
}

/* ---- In a worker --------------------------------------------------------------------------- */

/*
 * The end of the worker's part, as in stage 3: it takes the guard, wakes the selector and switches
 * the client's events on itself. To close the connection, to stop it, to give it another
 * turn, or to set its timer to an earlier moment, it leaves to the dispatcher.
 */
static void handler_adapter_hand_back(struct handler_adapter *adapter)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    unsigned wants = connection_wants(&adapter->connection);
    int64_t deadline = connection_deadline(&adapter->connection, clock_ms());
    selector_guard_acquire(&dispatcher->guard);
    if (dispatcher->stopping || wants == CONNECTION_RUN || deadline < adapter->timer.moment ||
        !handler_adapter_resume(adapter, wants)) {
        dispatcher_hand_back(dispatcher, &adapter->task);
    } else {
        adapter->processing = false; /* selected perhaps, but not run before the guard is free */
    }
    selector_guard_release(&dispatcher->guard);
}

/* Lea's Processer: what a worker does. */
static void handler_adapter_run_task(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    bool refused = task->late && !connection_must_run(&adapter->connection);
    handler_adapter_call(adapter, refused ? REFUSE_MESSAGE : HANDLE_MESSAGES);
    handler_adapter_hand_back(adapter);
}

/* The saturation policy has given up a request: it gets no reply. */
static void handler_adapter_drop_task(struct task *task)
{
    struct handler_adapter *adapter = handler_adapter_of(task);
    handler_adapter_call(adapter, DROP_MESSAGE);
    handler_adapter_hand_back(adapter);
}
