#include "handler.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/test_point.h"

#include <stdlib.h>
#include <unistd.h>

static void handler_read(struct selection_key *key) NO_LOCK_HELD;
static void handler_send(struct selection_key *key) NO_LOCK_HELD;
static void handler_process(struct handler *handler) NO_LOCK_HELD;
static void handler_run_task(struct task *task) NO_LOCK_HELD;
static void handler_drop_task(struct task *task) NO_LOCK_HELD;

/* Lea's two states. */
static struct runnable reading = {handler_read};
static struct runnable sending = {handler_send};

static const struct task_verbs task_verbs = {handler_run_task, handler_drop_task};

static bool handler_register(struct reactor *reactor, struct handler *handler, int fd)
{
    return timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX) &&
           selector_register(&reactor->selector, &handler->key, fd, SELECT_READ, &reading) == 0;
}

bool handler_create(struct reactor *reactor, int fd)
{
    struct input_handler_factory *factory = reactor->server->listener.factory;
    loop_serves(&reactor->loop, fd);
    struct handler *handler = calloc(1, sizeof(*handler) + factory->handler_size);
    struct input_handler *input =
        handler != NULL ? input_handler_create(factory, handler->memory) : NULL;
    if (input == NULL) {
        free(handler);
        return false;
    }
    handler->task = (struct task){.verbs = &task_verbs, .fd = fd};
    connection_open(&handler->connection, &reactor->server->home, fd, input);
    connection_advance(&handler->connection, LIFE_STARTING);
    if (!handler_register(reactor, handler, fd)) {
        timer_heap_cancel(&reactor->timers, &handler->timer);
        connection_detach(&handler->connection);
        free(handler);
        return false;
    }
    handler_process(handler);
    return true;
}

void handler_close(struct handler *handler)
{
    struct reactor *reactor = reactor_of(&handler->key);
    loop_serves(&reactor->loop, handler->key.fd);
    timer_heap_cancel(&reactor->timers, &handler->timer);
    selector_cancel(&handler->key);
    close(connection_detach(&handler->connection));
    told_list_forget(&reactor->told, &handler->connection);
    admission_leave(&reactor->admission);
    free(handler);
}

/* ---- In the reactor's thread --------------------------------------------------------------- */

/* Has the selector wait for what the connection wants. False if there is nothing to wait for. */
static bool handler_resume(struct handler *handler, unsigned wants)
{
    if (wants == CONNECTION_OVER)
        return false;
    handler->key.attachment = (wants & SELECT_READ) != 0 ? &reading : &sending;
    return wants == handler->key.interest || selector_interest(&handler->key, wants) == 0;
}

/* Whether it is in the reactor's list: then the next key there is attached, and no state. */
static bool handler_has_turn(const struct handler *handler)
{
    return handler->key.attachment != &reading && handler->key.attachment != &sending;
}

/* Puts it into the reactor's list, unless it is there: the others go first. */
static void handler_give_turn(struct handler *handler)
{
    if (!handler_has_turn(handler))
        turns_append(&reactor_of(&handler->key)->again, &handler->key);
}

/* What the connection waits for decides which of Lea's two states comes next. */
static void handler_wait(struct handler *handler) NO_LOCK_HELD
{
    struct reactor *reactor = reactor_of(&handler->key);
    unsigned wants = connection_wants(&handler->connection);
    if (wants == CONNECTION_RUN) {
        handler_give_turn(handler);
    } else if (!handler_resume(handler, wants)) {
        handler_close(handler);
        return;
    }
    timer_heap_set_by(&reactor->timers, &handler->timer,
                      connection_deadline(&handler->connection, reactor->now));
}

static void handler_set_processing(struct reactor *reactor, struct handler *handler,
                                   bool processing)
{
    mutex_lock(&reactor->guard.lock);
    handler->processing = processing;
    mutex_unlock(&reactor->guard.lock);
}

/* Lea's "process" and "send", whoever does them. */
static void handler_call(struct handler *handler, enum connection_messages how) NO_LOCK_HELD
{
    struct run run = {.found = &handler->found};
    connection_handle(&handler->connection, &run, how);
    connection_send(&handler->connection, &run);
}

/* The reactor's thread does what a worker need not, or will not, do. */
static void handler_do(struct handler *handler, enum connection_messages how) NO_LOCK_HELD
{
    handler_call(handler, how);
    handler_wait(handler);
}

/* A run that must take place, as for a due timer, is not given up, however busy the workers are. */
static void handler_submit(struct reactor *reactor, struct handler *handler) NO_LOCK_HELD
{
    if (!connection_must_run(&handler->connection))
        task_list_append(&reactor->round, &handler->task);
    else if (!executor_insist(reactor->executor, &handler->task))
        handler_refuse(&handler->task);
}

/* Gives a whole request to a worker. If less has come, the reactor goes on itself. */
static void handler_process(struct handler *handler)
{
    struct connection *connection = &handler->connection;
    struct reactor *reactor = reactor_of(&handler->key);
    struct executor *executor = reactor->executor;
    loop_serves(&reactor->loop, handler->key.fd);
    handler->task.urgent = executor_has_priorities(executor) && connection_is_urgent(connection);
    if (!connection_find(connection, &handler->found)) {
        handler_do(handler, HANDLE_MESSAGES);
        return;
    }
    selector_interest(&handler->key, SELECT_NOTHING);
    handler_set_processing(reactor, handler, true);
    handler_submit(reactor, handler);
}

/* State "reading": input has come, or room for what could not be sent before. */
static void handler_read(struct selection_key *key)
{
    struct handler *handler = container_of(key, struct handler, key);
    if ((key->ready & SELECT_READ) != 0)
        connection_receive(&handler->connection);
    handler_process(handler);
}

/* State "sending": it waits for room, or for neither. Nothing is read meanwhile. */
static void handler_send(struct selection_key *key)
{
    handler_process(container_of(key, struct handler, key));
}

void handler_wake(struct connection *connection, struct channel_hold *hold)
{
    struct handler *handler = container_of(connection, struct handler, connection);
    struct reactor *reactor = reactor_of(&handler->key);
    told_list_put(&reactor->told, connection, hold);
    selector_wakeup(&reactor->selector);
}

/* A worker that has one at the moment sees that more is asked of it: handler_hand_back(). */
void handler_take_told(struct reactor *reactor)
{
    struct channel_hold *hold = told_list_take(&reactor->told);
    while (hold != NULL) {
        struct connection *connection = told_list_connection(hold, &hold);
        struct handler *handler = container_of(connection, struct handler, connection);
        mutex_lock(&reactor->guard.lock);
        bool rests = !handler->processing;
        mutex_unlock(&reactor->guard.lock);
        if (rests)
            handler_give_turn(handler);
    }
}

/* One that has more to do after its turn is in the list again, for the next round. */
void handler_take_turns(struct turns *list)
{
    struct turns turns = *list;
    struct selection_key *key;
    list->first = NULL;
    while ((key = turns_take_first(&turns)) != NULL) {
        key->attachment = &reading; /* out of the list: any state will do until handler_wait() */
        handler_process(container_of(key, struct handler, key));
    }
}

/* The timer of one that is being processed is set again when it is back. */
static bool handler_is_due(struct handler *handler)
{
    struct reactor *reactor = reactor_of(&handler->key);
    mutex_lock(&reactor->guard.lock);
    timer_heap_set(&reactor->timers, &handler->timer, INT64_MAX);
    bool processing = handler->processing;
    handler->fired = processing;
    mutex_unlock(&reactor->guard.lock);
    return !processing;
}

/* A timer that fires too early, because its clock has begun anew, is only set again. */
void handler_expire(struct handler *handler)
{
    struct reactor *reactor = reactor_of(&handler->key);
    if (!handler_is_due(handler))
        return;
    bool stops = reactor_is_stopping(reactor) && connection_ask(&handler->connection, ASK_STOP, 0);
    if (connection_expire(&handler->connection, reactor->now) || stops || handler_has_turn(handler))
        handler_give_turn(handler); /* in this round, if it has none; that sets the timer */
    else
        handler_wait(handler);
}

struct handler *handler_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler, timer);
}

/* While a worker has it, what it holds is the worker's. */
void handler_count_held(const struct handler *handler, uint64_t *output, uint64_t *input)
{
    struct reactor *reactor = reactor_of(&handler->key);
    mutex_lock(&reactor->guard.lock);
    bool rests = !handler->processing;
    mutex_unlock(&reactor->guard.lock);
    if (!rests)
        return;
    *output += output_chain_length(&handler->connection.output);
    *input += input_queue_length(&handler->connection.input);
}

static struct handler *handler_of(struct task *task)
{
    return container_of(task, struct handler, task);
}

void handler_refuse(struct task *task)
{
    struct handler *handler = handler_of(task);
    struct reactor *reactor = reactor_of(&handler->key);
    handler_set_processing(reactor, handler, false);
    loop_serves(&reactor->loop, task->fd);
    handler_do(handler, REFUSE_MESSAGE);
}

void handler_go_on(struct task *task)
{
    struct handler *handler = handler_of(task);
    struct reactor *reactor = reactor_of(&handler->key);
    handler_set_processing(reactor, handler, false);
    if (reactor_is_stopping(reactor) && connection_ask(&handler->connection, ASK_STOP, 0))
        handler_process(handler);
    else
        handler_wait(handler);
}

/* ---- In a worker --------------------------------------------------------------------------- */

/*
 * The end of the worker's part, as in Hitchens' design of 2006: it takes the guard, wakes the
 * selector and switches the client's events on itself. To close the connection, to stop it, to give
 * it another turn, or to set its timer again or to an earlier moment, it leaves to the reactor.
 */
static void handler_hand_back(struct handler *handler)
{
    struct reactor *reactor = reactor_of(&handler->key);
    unsigned wants = connection_wants(&handler->connection);
    int64_t deadline = INT64_MAX;
    if (handler->connection.marks != 0) /* else it has not come nearer */
        deadline = connection_deadline(&handler->connection, clock_ms());
    TEST_POINT("worker: before hand-back");
    selector_guard_acquire(&reactor->guard);
    TEST_POINT("worker: guard held");
    bool told = (atomic_load(&handler->connection.asked) & ASK_CALLS) != 0; /* since the run */
    if (reactor->stopping || told || handler->fired || wants == CONNECTION_RUN ||
        deadline < handler->timer.moment || !handler_resume(handler, wants)) {
        handler->fired = false;
        reactor_hand_back(reactor, &handler->task);
    } else {
        TEST_POINT("worker: selection resumed");
        handler->processing = false; /* the reactor runs nothing before it has had the guard */
    }
    selector_guard_release(&reactor->guard);
    TEST_POINT("worker: after hand-back");
}

/* Lea's Processer: what a worker does. */
static void handler_run_task(struct task *task)
{
    struct handler *handler = handler_of(task);
    bool refused = task->late && !connection_must_run(&handler->connection);
    TEST_POINT("worker: before processing");
    handler_call(handler, refused ? REFUSE_MESSAGE : HANDLE_MESSAGES);
    handler_hand_back(handler);
}

/* The saturation policy has given up a request: it gets no reply. */
static void handler_drop_task(struct task *task)
{
    struct handler *handler = handler_of(task);
    handler_call(handler, DROP_MESSAGE);
    handler_hand_back(handler);
}
