/*
 * The facade of a connection to which nobody sends but its own handler, in its own calls. So there
 * is no lock, and nobody has to be told: the run that calls the handler goes on and sees it all.
 */
#include "common/server/connection_parts.h"

#include "common/base/container_of.h"

static struct connection *connection_of(struct channel_facade *facade)
{
    return container_of(facade, struct connection, facade);
}

struct input_queue *connection_facade_input(struct channel_facade *facade)
{
    return &connection_of(facade)->input;
}

void connection_facade_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    connection_of(facade)->handler = handler;
}

/* A client for which more than the cap waits is disconnected. */
static enum output_result facade_enqueue(struct channel_facade *facade, struct piece piece)
{
    struct connection *connection = connection_of(facade);
    enum output_result result = connection_enqueue(connection, piece);
    if (result == OUTPUT_REFUSED) {
        connection_end_because(connection, END_CAP);
        connection_ask(connection, ASK_END, 0);
    }
    return result;
}

static void facade_suspend(struct channel_facade *facade)
{
    connection_ask(connection_of(facade), 0, ASK_READ);
}

static void facade_resume(struct channel_facade *facade)
{
    connection_ask(connection_of(facade), ASK_READ, 0);
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

static void facade_post(struct channel_facade *facade, struct channel_post *post) NO_LOCK_HELD
{
    if (!connection_post(connection_of(facade), post))
        channel_post_drop(post);
}

enum output_result connection_facade_flush(struct channel_facade *facade)
{
    return connection_flush(connection_of(facade));
}

void connection_facade_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    connection_peer(connection_of(facade), endpoint);
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

const struct channel_facade_verbs connection_facade_verbs = {
    .input = connection_facade_input,
    .enqueue = facade_enqueue,
    .flush = connection_facade_flush,
    .set_handler = connection_facade_set_handler,
    .suspend = facade_suspend,
    .resume = facade_resume,
    .close = facade_close,
    .reset = facade_reset,
    .finish = facade_finish,
    .post = facade_post,
    .set_timer = connection_facade_set_timer,
    .cancel_timer = connection_facade_cancel_timer,
    .begin = connection_facade_begin,
    .peer = connection_facade_peer,
    .end_reason = connection_facade_end_reason,
    .retain = facade_ignore,
    .release = facade_ignore,
};
