/*
 * Tasks that a handler begins: each runs in a helper as a future, whose `done` posts the result to
 * the connection. The connection has a list of those that are under way, oldest first, and hands
 * results out from its front only: so they come in the order of their beginning.
 *
 * The list is the runner's. Of a task that is in it a helper touches only the future and the post;
 * a reference to the facade keeps the connection's memory until the helper has posted.
 */
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/server/channel_calls_back.h"
#include "common/server/connection_parts.h"
#include "common/workers/executor.h"

#include <assert.h>

static struct channel_task *task_of(struct future_task *future)
{
    return container_of(future, struct channel_task, future);
}

/* ---- The list, a ring: the last one knows the first ---------------------------------------- */

static void append(struct connection *connection, struct channel_task *task)
{
    struct channel_task *last = connection->begun;
    task->next = last != NULL ? last->next : task;
    if (last != NULL)
        last->next = task;
    connection->begun = task;
}

static void remove_first(struct connection *connection)
{
    struct channel_task *last = connection->begun;
    struct channel_task *first = last->next;
    last->next = first->next;
    if (first == last)
        connection->begun = NULL;
}

static struct channel_task *first_of(const struct connection *connection)
{
    return connection->begun != NULL ? connection->begun->next : NULL;
}

/* Whether the tasks that are under way let no message be handled. */
static bool hold_messages(const struct connection *connection)
{
    const struct channel_task *task = first_of(connection);
    for (int count = 1; task != NULL && count < CHANNEL_TASKS_MAX; count++) {
        if (task->meanwhile == CHANNEL_WAITS)
            return true;
        if (task == connection->begun)
            return false;
        task = task->next;
    }
    return task != NULL;
}

/* Tells the core what the list means for it. */
static void mark(struct connection *connection)
{
    connection_mark(connection, MARK_BEGUN, connection->begun != NULL);
    connection_mark(connection, MARK_WAITS, hold_messages(connection));
}

/* ---- In a helper --------------------------------------------------------------------------- */

static int call(struct future_task *future) NO_LOCK_HELD
{
    TEST_POINT("helper: before a task");
    channel_task_run(task_of(future));
    return 0;
}

/* Done, or given up. Once it is posted the task is the connection's, and may be gone. */
static void done(struct future_task *future) NO_LOCK_HELD
{
    struct channel_task *task = task_of(future);
    struct channel_facade *channel = task->channel;
    TEST_POINT("helper: before the result");
    channel_post(channel, &task->result);
    channel_release(channel);
}

/* ---- In the connection's own context ------------------------------------------------------- */

/* A result is in. It may have to wait for older ones, and younger ones may have waited for it. */
static void hear_result(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct connection *connection = connection_of(facade);
    struct channel_task *task = container_of(post, struct channel_task, result);
    task->is_back = true;
    while ((task = first_of(connection)) != NULL && task->is_back) {
        remove_first(connection);
        mark(connection);
        if (future_task_has_run(&task->future, NULL))
            channel_task_complete(task);
        else
            channel_task_drop(task); /* cancelled */
    }
}

static void drop_result(struct channel_post *post) NO_LOCK_HELD
{
    channel_task_drop(container_of(post, struct channel_task, result));
}

/*
 * The helpers post the others, and the connection, which takes no posts any more when this is over,
 * drops them. A task that waits for a helper is not done at all.
 */
static void give_up_tasks(struct connection *connection) NO_LOCK_HELD
{
    struct channel_task *task;
    while (connection_is(connection, MARK_BEGUN) && (task = first_of(connection)) != NULL) {
        remove_first(connection);
        mark(connection);
        if (task->is_back)
            channel_task_drop(task);
        else
            future_task_cancel(&task->future);
    }
}

static const struct connection_part tasks_part = {.end = give_up_tasks};

static void begin(struct connection *connection, struct channel_task *task,
                  enum channel_meanwhile meanwhile) NO_LOCK_HELD
{
    struct executor *helpers = connection_server(connection)->helpers;
    struct task *work = &task->future.task;
    assert(connection_is_own_run(connection));
    future_task_init(&task->future, NULL, call, done);
    work->fd = connection->output.fd;
    task->result = (struct channel_post){.run = hear_result, .dropped = drop_result};
    task->channel = &connection->facade;
    task->meanwhile = (uint8_t)meanwhile;
    task->is_back = false;
    append(connection, task);
    mark(connection);
    connection_use_part(connection, PART_TASKS, &tasks_part);
    channel_retain(task->channel);
    if (helpers == NULL || !executor_submit(helpers, work))
        task_run(work);
}

bool channel_begin(struct channel_facade *facade, struct channel_task *task,
                   enum channel_meanwhile meanwhile)
{
    assert(task->run != NULL && task->completed != NULL);
    if (atomic_exchange(&task->begun, true))
        return false;
    task->facade = facade;
    facade = facade_behind(facade);
    if (facade->verbs->begin != NULL)
        facade->verbs->begin(facade, task, meanwhile);
    else
        begin(connection_of(facade), task, meanwhile);
    return true;
}

/* The helpers still hold it; its turn with them posts it. */
bool channel_cancel_task(struct channel_task *task)
{
    return atomic_load(&task->begun) && future_task_cancel(&task->future);
}
