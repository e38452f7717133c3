/*
 * The side of an element that the application's handler sees: each verb goes on to the facade in
 * front of it.
 */
#include "common/apps/handler_element.h"

#include "common/base/container_of.h"

struct handler_element *handler_element_of(struct channel_facade *facade)
{
    return container_of(facade, struct handler_element, facade);
}

static struct channel_facade *outer(struct channel_facade *facade)
{
    return handler_element_of(facade)->outer;
}

static struct input_queue *pass_input(struct channel_facade *facade)
{
    return channel_input(outer(facade));
}

static enum output_result pass_enqueue(struct channel_facade *facade, struct piece piece)
{
    return channel_enqueue(outer(facade), piece);
}

static enum output_result pass_flush(struct channel_facade *facade)
{
    return channel_flush(outer(facade));
}

/* The element stays, and the handler behind it changes. Elements in front of it may have to fit. */
static void pass_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    struct handler_element *element = handler_element_of(facade);
    handler_element_set_inner(element, handler);
    channel_set_handler(element->outer, &element->handler);
}

static void pass_suspend(struct channel_facade *facade)
{
    channel_suspend(outer(facade));
}

static void pass_resume(struct channel_facade *facade)
{
    channel_resume(outer(facade));
}

static void pass_close(struct channel_facade *facade)
{
    channel_close(outer(facade));
}

static void pass_reset(struct channel_facade *facade)
{
    channel_reset(outer(facade));
}

static void pass_finish(struct channel_facade *facade)
{
    channel_finish(outer(facade));
}

static bool pass_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    return channel_set_write_rate(outer(facade), bytes_per_second);
}

static int pass_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    return channel_peer(outer(facade), endpoint);
}

static enum end_reason pass_end_reason(struct channel_facade *facade)
{
    return channel_end_reason(outer(facade));
}

/* The element is in the connection's memory, so a reference to the channel keeps it, too. */
static void pass_retain(struct channel_facade *facade)
{
    channel_retain(outer(facade));
}

static void pass_release(struct channel_facade *facade)
{
    channel_release(outer(facade));
}

const struct channel_facade_verbs handler_element_facade_verbs = {
    .outer = outer,
    .input = pass_input,
    .enqueue = pass_enqueue,
    .flush = pass_flush,
    .set_handler = pass_set_handler,
    .suspend = pass_suspend,
    .resume = pass_resume,
    .close = pass_close,
    .reset = pass_reset,
    .finish = pass_finish,
    .connect = handler_element_connect,
    .set_write_rate = pass_set_write_rate,
    .peer = pass_peer,
    .end_reason = pass_end_reason,
    .retain = pass_retain,
    .release = pass_release,
};
