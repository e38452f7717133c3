/*
 * The channel facade (common/server/channel_facade.h) in this stage: the calls that a handler may
 * make on its own connection, and most of them also on another one, in any thread and at any time.
 * Each call changes the requests to the connection, or its output, and queues the adapter if the
 * dispatcher has to know.
 */
#include "handler_adapter.h"

#include "common/base/container_of.h"

static struct handler_adapter *adapter_of(struct channel_facade *facade)
{
    return container_of(facade, struct handler_adapter, connection.facade);
}

static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    struct handler_adapter *adapter = adapter_of(facade);
    enum output_result result = connection_enqueue(&adapter->connection, piece);
    if (result != OUTPUT_FLOWING)
        handler_adapter_output(adapter, result);
    return result;
}

static void facade_suspend(struct channel_facade *facade)
{
    handler_adapter_ask(adapter_of(facade), ASK_SUSPEND, 0);
}

static void facade_resume(struct channel_facade *facade)
{
    handler_adapter_ask(adapter_of(facade), 0, ASK_SUSPEND);
}

static void facade_finish(struct channel_facade *facade)
{
    handler_adapter_ask(adapter_of(facade), ASK_FINISH, 0);
}

static void facade_close(struct channel_facade *facade)
{
    struct handler_adapter *adapter = adapter_of(facade);
    connection_end_because(&adapter->connection, END_CLOSED);
    handler_adapter_ask(adapter, ASK_CLOSE, 0);
}

static void facade_reset(struct channel_facade *facade)
{
    struct handler_adapter *adapter = adapter_of(facade);
    connection_end_because(&adapter->connection, END_CLOSED);
    handler_adapter_ask(adapter, ASK_CLOSE | ASK_RESET, 0);
}

static void facade_retain(struct channel_facade *facade)
{
    handler_adapter_retain(adapter_of(facade));
}

static void facade_release(struct channel_facade *facade)
{
    handler_adapter_release(adapter_of(facade));
}

static const struct channel_facade_verbs verbs = {
    .input = connection_facade_input,
    .enqueue = facade_enqueue,
    .flush = connection_shared_flush,
    .set_handler = connection_facade_set_handler,
    .suspend = facade_suspend,
    .resume = facade_resume,
    .close = facade_close,
    .reset = facade_reset,
    .finish = facade_finish,
    .peer = connection_facade_peer,
    .end_reason = connection_facade_end_reason,
    .retain = facade_retain,
    .release = facade_release,
};

/* Which lock it is the compiler cannot know, so what it guards is not annotated. */
static void lock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_lock(&container_of(connection, struct handler_adapter, connection)->output_lock);
}

static void unlock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_unlock(&container_of(connection, struct handler_adapter, connection)->output_lock);
}

const struct connection_sharing handler_adapter_sharing = {
    .verbs = &verbs,
    .lock_output = lock_output,
    .unlock_output = unlock_output,
};
