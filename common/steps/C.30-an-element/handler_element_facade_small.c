/* Stands in for handler_element_facade.c: the calls of echo. */
#include "common/apps/handler_element.h"
#include "common/base/container_of.h"

static struct channel_facade *outer(struct channel_facade *facade)
{
    return container_of(facade, struct handler_element, facade)->outer;
}

static struct input_queue *pass_input(struct channel_facade *facade)
{
    return channel_input(outer(facade));
}

static enum output_result pass_enqueue(struct channel_facade *facade, struct piece piece)
{
    return channel_enqueue(outer(facade), piece);
}

const struct channel_facade_verbs handler_element_facade_verbs = {
    .outer = outer, .input = pass_input, .enqueue = pass_enqueue};
