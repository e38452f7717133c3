#include "handler_adapter.h"

#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/base/trace.h"
#include "common/server/channel_calls_back.h"
#include "dispatcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- Life cycle ---------------------------------------------------------------------------- */

/* An adapter that has a handler in its memory and no connection yet. It counts as running. */
static struct handler_adapter *make_adapter(struct dispatcher *dispatcher, int fd,
                                            struct input_handler_factory *factory,
                                            struct input_handler **handler) NO_LOCK_HELD
{
    struct handler_adapter *adapter = calloc(1, sizeof(*adapter) + factory->handler_size);
    *handler = adapter != NULL ? input_handler_create(factory, adapter->memory) : NULL;
    if (*handler == NULL) {
        free(adapter);
        return NULL;
    }
    adapter->dispatcher = dispatcher;
    adapter->key.fd = fd;
    atomic_init(&adapter->references, 1);
    mutex_init(&adapter->output_lock);
    mutex_init(&adapter->state_lock);
    mutex_lock(&adapter->state_lock);
    adapter->running = true;
    mutex_unlock(&adapter->state_lock);
    return adapter;
}

struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd,
                                               struct input_handler_factory *factory)
{
    struct input_handler *handler;
    struct handler_adapter *adapter = make_adapter(dispatcher, fd, factory, &handler);
    if (adapter == NULL)
        return NULL;
    adapter->place = dispatcher->admission;
    connection_open(&adapter->connection, &dispatcher->home, fd, handler);
    return adapter;
}

struct handler_adapter *handler_adapter_create_outgoing(struct dispatcher *dispatcher, int fd,
                                                        const struct endpoint *to, int64_t timeout,
                                                        struct input_handler_factory *factory)
{
    struct input_handler *handler;
    struct handler_adapter *adapter = make_adapter(dispatcher, fd, factory, &handler);
    if (adapter == NULL)
        return NULL;
    connection_open_outgoing(&adapter->connection, &dispatcher->home, fd, to, timeout, handler);
    return adapter;
}

void handler_adapter_retain(struct handler_adapter *adapter)
{
    atomic_fetch_add(&adapter->references, 1);
}

/* The place goes with the memory, so connections that have ended and are still held are bounded. */
void handler_adapter_release(struct handler_adapter *adapter)
{
    if (atomic_fetch_sub(&adapter->references, 1) > 1)
        return;
    assert(adapter->connection.life == LIFE_STOPPED); /* else somebody gave back too many */
    if (adapter->place != NULL)
        admission_leave(adapter->place);
    channel_facade_end(&adapter->connection.facade);
    mutex_destroy(&adapter->output_lock);
    mutex_destroy(&adapter->state_lock);
    free(adapter);
}

/* ---- To the dispatcher --------------------------------------------------------------------- */

/* Puts it into the status-change queue, if it is not there. True: the dispatcher must be woken. */
static bool enqueue_change(struct handler_adapter *adapter) REQUIRES(&adapter->state_lock)
{
    if (adapter->queued)
        return false;
    adapter->queued = true;
    return status_change_queue_put(&adapter->dispatcher->changes, adapter);
}

/* Queues it, unless it will be queued anyway or is dead. True: the dispatcher must be woken. */
static bool announce(struct handler_adapter *adapter) REQUIRES(&adapter->state_lock)
{
    return !adapter->running && !adapter->dead && enqueue_change(adapter);
}

static void end_run(struct handler_adapter *adapter, enum run_outcome outcome)
    REQUIRES(&adapter->state_lock)
{
    adapter->dead = outcome == RUN_OVER;
    adapter->again = outcome == RUN_AGAIN;
    adapter->running = false;
}

/* Wakes the dispatcher if it has to; as soon as the lock is released the adapter may be gone. */
static void unlock(struct handler_adapter *adapter, bool wakes) RELEASE(&adapter->state_lock)
{
    struct dispatcher *dispatcher = adapter->dispatcher;
    mutex_unlock(&adapter->state_lock);
    if (wakes)
        dispatcher_wakeup(dispatcher);
}

/*
 * One step under the lock. The adapter is marked dead before the dispatcher can see it (erratum 7),
 * and it does not stop running before it is in the queue (erratum 8), so that no other thread's
 * change can resume it in between.
 */
void handler_adapter_done(struct handler_adapter *adapter, enum run_outcome outcome)
{
    TEST_POINT("adapter: before done");
    mutex_lock(&adapter->state_lock);
    end_run(adapter, outcome);
    unlock(adapter, enqueue_change(adapter) && outcome != RUN_NONE);
    TEST_POINT("adapter: after done");
}

void handler_adapter_ask(struct handler_adapter *adapter, unsigned set, unsigned reset)
{
    mutex_lock(&adapter->state_lock);
    unlock(adapter, connection_ask(&adapter->connection, set, reset) && announce(adapter));
}

void handler_adapter_end(struct handler_adapter *adapter, enum end_reason reason)
{
    connection_end_because(&adapter->connection, reason);
    handler_adapter_ask(adapter, ASK_END, 0);
}

void handler_adapter_output(struct handler_adapter *adapter, enum output_result result)
{
    if (result == OUTPUT_REFUSED)
        handler_adapter_end(adapter, END_CAP);
    if (result == OUTPUT_FLOWING || result == OUTPUT_REFUSED)
        return;
    mutex_lock(&adapter->state_lock);
    bool broken = result == OUTPUT_BROKEN; /* with nothing to read, no event reports it */
    bool unwatched = (adapter->watching & SELECT_WRITE) == 0;
    bool still_read = result == OUTPUT_CHOKED && (adapter->watching & SELECT_READ) != 0;
    bool wakes = (broken || unwatched || still_read) && announce(adapter);
    unlock(adapter, wakes);
}

/*
 * Under the lock with which a run ends, so either that run still finds the post, or it is announced
 * here. Once the adapter is dead, the connection takes no post.
 */
void handler_adapter_post(struct handler_adapter *adapter, struct channel_post *post)
{
    mutex_lock(&adapter->state_lock);
    bool taken = connection_post(&adapter->connection, post);
    bool wakes = taken && announce(adapter);
    unlock(adapter, wakes);
    if (!taken)
        channel_post_drop(post);
}

/* ---- From the dispatcher ------------------------------------------------------------------- */

bool handler_adapter_prepare_to_run(struct handler_adapter *adapter, unsigned ready)
{
    mutex_lock(&adapter->state_lock);
    bool possible = !adapter->running && !adapter->dead;
    if (possible) {
        adapter->running = true;
        adapter->ready = (uint8_t)ready;
    }
    mutex_unlock(&adapter->state_lock);
    return possible;
}

/* What is next for it. If it rests, it is noted what is watched from now on. */
static enum adapter_status status_of(struct handler_adapter *adapter, unsigned *interest)
    REQUIRES(&adapter->state_lock)
{
    enum adapter_status status;
    if (adapter->running) {
        status = ADAPTER_IS_RUNNING;
    } else if (adapter->dead) {
        status = ADAPTER_IS_DEAD;
    } else if (adapter->again) {
        status = ADAPTER_WANTS_RUN;
    } else {
        *interest = connection_wants(&adapter->connection);
        status = *interest == CONNECTION_RUN ? ADAPTER_WANTS_RUN : ADAPTER_WANTS_REST;
        adapter->watching = (uint8_t)(*interest & (SELECT_READ | SELECT_WRITE));
    }
    trace_event(TRACE_CHANGE_APPLIED, adapter->connection.output.fd, status);
    return status;
}

enum adapter_status handler_adapter_status(struct handler_adapter *adapter, unsigned *interest)
{
    mutex_lock(&adapter->state_lock);
    adapter->queued = false;
    enum adapter_status status = status_of(adapter, interest);
    mutex_unlock(&adapter->state_lock);
    return status;
}

/*
 * If another thread has queued it before the run, the dispatcher comes to it once more anyway. What
 * it wants is asked once, under the lock, and not before.
 */
enum adapter_status handler_adapter_done_here(struct handler_adapter *adapter, unsigned *interest)
{
    enum adapter_status status = ADAPTER_IS_RUNNING;
    bool over = connection_is_over(&adapter->connection);
    TEST_POINT("adapter: before done");
    mutex_lock(&adapter->state_lock);
    end_run(adapter, over ? RUN_OVER : RUN_RESTS);
    if (!adapter->queued)
        status = status_of(adapter, interest);
    if (status == ADAPTER_WANTS_RUN)
        enqueue_change(adapter); /* the others go first */
    mutex_unlock(&adapter->state_lock);
    TEST_POINT("adapter: after done");
    return status;
}

int64_t handler_adapter_expire(struct handler_adapter *adapter, int64_t now)
{
    mutex_lock(&adapter->state_lock);
    bool rests = !adapter->running && !adapter->dead; /* and only this thread can change that */
    mutex_unlock(&adapter->state_lock);
    if (!rests)
        return INT64_MAX;
    if (!connection_expire(&adapter->connection, now))
        return connection_deadline(&adapter->connection, now);
    mutex_lock(&adapter->state_lock);
    unlock(adapter, announce(adapter));
    return INT64_MAX;
}

struct handler_adapter *handler_adapter_of_timer(struct timer *timer)
{
    return container_of(timer, struct handler_adapter, timer);
}

/* While it runs, its input is the runner's. */
void handler_adapter_count_held(struct handler_adapter *adapter, uint64_t *output, uint64_t *input)
{
    mutex_lock(&adapter->state_lock);
    *output += connection_output_held(&adapter->connection);
    if (!adapter->running)
        *input += input_queue_length(&adapter->connection.input);
    mutex_unlock(&adapter->state_lock);
}
