/*
 * The facade of a connection to which nobody sends but its own handler, in its own calls. So there
 * is no lock, and nobody has to be told: the run that calls the handler goes on and sees it all.
 */
#include "common/server/connection_parts.h"

#include <assert.h>

struct input_queue *connection_facade_input(struct channel_facade *facade)
{
    struct connection *connection = connection_of(facade);
    assert(run_own == NULL || run_own->connection == connection || /* mostly, and for each line */
           connection_is_own_call(connection));
    return &connection->input;
}

void connection_facade_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    assert(connection_is_own_run(connection_of(facade)));
    connection_set_handler(connection_of(facade), handler);
}

/* A client for which more than the cap waits is disconnected. */
static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    struct connection *connection = connection_of(facade);
    enum output_result result = output_chain_enqueue(&connection->output, piece);
    if (result == OUTPUT_REFUSED) {
        connection_end_because(connection, END_CAP);
        connection_ask(connection, ASK_END, 0);
    }
    return result;
}

static void facade_suspend(struct channel_facade *facade)
{
    connection_ask(connection_of(facade), ASK_SUSPEND, 0);
}

static void facade_resume(struct channel_facade *facade)
{
    connection_ask(connection_of(facade), 0, ASK_SUSPEND);
}

static void facade_finish(struct channel_facade *facade)
{
    connection_ask(connection_of(facade), ASK_FINISH, 0);
}

static void facade_close(struct channel_facade *facade)
{
    struct connection *connection = connection_of(facade);
    connection_end_because(connection, END_CLOSED);
    connection_ask(connection, ASK_CLOSE, 0);
}

static void facade_reset(struct channel_facade *facade)
{
    struct connection *connection = connection_of(facade);
    connection_end_because(connection, END_CLOSED);
    connection_ask(connection, ASK_CLOSE | ASK_RESET, 0);
}

static enum output_result facade_flush(struct channel_facade *facade)
{
    return output_chain_flush(&connection_of(facade)->output);
}

int connection_facade_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    const struct connection *connection = connection_of(facade);
    endpoint_of_short(endpoint, &connection->peer);
    return connection->output.fd;
}

enum end_reason connection_facade_end_reason(struct channel_facade *facade)
{
    return (enum end_reason)atomic_load(&connection_of(facade)->end_reason);
}

/* A reference is for handlers of other connections, which do not get to know this facade. */
static void facade_ignore(struct channel_facade *facade)
{
    (void)facade;
}

/* Posts, timers and tasks are functions of their own (channel_calls.h), which ask no verb here. */
const struct channel_facade_verbs connection_facade_verbs = {
    .input = connection_facade_input,
    .enqueue = facade_enqueue,
    .flush = facade_flush,
    .set_handler = connection_facade_set_handler,
    .suspend = facade_suspend,
    .resume = facade_resume,
    .close = facade_close,
    .reset = facade_reset,
    .finish = facade_finish,
    .peer = connection_facade_peer,
    .end_reason = connection_facade_end_reason,
    .retain = facade_ignore,
    .release = facade_ignore,
};
