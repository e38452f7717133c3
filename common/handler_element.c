#include "handler_element.h"

#include <stdlib.h>

static struct handler_element *element_of(struct input_handler *handler)
{
    return (struct handler_element *)handler;
}

struct handler_element *handler_element_of(struct channel_facade *facade)
{
    return (struct handler_element *)(void *)((char *)facade -
                                              offsetof(struct handler_element, facade));
}

static void say_unused(struct input_handler *handler)
{
    if (handler->verbs->unused != NULL)
        handler->verbs->unused(handler);
}

struct handler_element *handler_element_create(size_t size, const struct input_handler_verbs *verbs,
                                               const struct channel_facade_verbs *facade_verbs,
                                               struct input_handler *inner)
{
    struct handler_element *element = calloc(1, size);
    if (element == NULL) {
        say_unused(inner);
        return NULL;
    }
    element->handler.verbs = verbs;
    element->facade.verbs = facade_verbs;
    element->inner = inner;
    atomic_init(&element->references, 1);
    return element;
}

/* ---- Towards the application --------------------------------------------------------------- */

static enum framing_result pass_next_message(struct input_handler *self,
                                             struct channel_facade *facade, struct message *message)
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return element->inner->verbs->next_message(element->inner, &element->facade, message);
}

static bool pass_handle_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade)
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return element->inner->verbs->handle_input(element->inner, message, &element->facade);
}

static void pass_refuse_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade)
{
    struct handler_element *element = element_of(self);
    (void)facade;
    if (element->inner->verbs->refuse_input != NULL)
        element->inner->verbs->refuse_input(element->inner, message, &element->facade);
}

static bool pass_continue_output(struct input_handler *self, struct channel_facade *facade)
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return element->inner->verbs->continue_output != NULL &&
           element->inner->verbs->continue_output(element->inner, &element->facade);
}

/* A call that says no more than that something has happened. */
static void tell(struct handler_element *element,
                 void (*call)(struct input_handler *, struct channel_facade *))
{
    if (call != NULL)
        call(element->inner, &element->facade);
}

static void pass_timed_out(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell(element_of(self), element_of(self)->inner->verbs->timed_out);
}

static void pass_unused(struct input_handler *self)
{
    say_unused(element_of(self)->inner);
    free(self);
}

static void pass_starting(struct input_handler *self, struct channel_facade *facade)
{
    struct handler_element *element = element_of(self);
    element->outer = facade;
    channel_retain(facade);
    tell(element, element->inner->verbs->starting);
}

static void pass_started(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell(element_of(self), element_of(self)->inner->verbs->started);
}

static void pass_end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell(element_of(self), element_of(self)->inner->verbs->end_of_input);
}

static void pass_stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell(element_of(self), element_of(self)->inner->verbs->stopping);
}

static void pass_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct handler_element *element = element_of(self);
    (void)facade;
    tell(element, element->inner->verbs->stopped);
    channel_release(&element->facade);
}

const struct input_handler_verbs handler_element_verbs = {
    .next_message = pass_next_message,
    .handle_input = pass_handle_input,
    .refuse_input = pass_refuse_input,
    .continue_output = pass_continue_output,
    .timed_out = pass_timed_out,
    .unused = pass_unused,
    .starting = pass_starting,
    .started = pass_started,
    .end_of_input = pass_end_of_input,
    .stopping = pass_stopping,
    .stopped = pass_stopped,
};

/* ---- Towards the socket -------------------------------------------------------------------- */

static struct channel_facade *outer(struct channel_facade *facade)
{
    return handler_element_of(facade)->outer;
}

static struct input_queue *pass_input(struct channel_facade *facade)
{
    return channel_input(outer(facade));
}

static enum output_result pass_enqueue(struct channel_facade *facade, struct message message)
{
    return channel_enqueue(outer(facade), message);
}

static enum output_result pass_enqueue_shared(struct channel_facade *facade,
                                              struct shared_message *message)
{
    return channel_enqueue_shared(outer(facade), message);
}

static enum output_result pass_enqueue_file(struct channel_facade *facade, struct shared_file *file,
                                            size_t offset, size_t length)
{
    return channel_enqueue_file(outer(facade), file, offset, length);
}

/* The element stays; it is the handler behind it that changes. */
static void pass_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    handler_element_of(facade)->inner = handler;
}

static unsigned pass_interest(struct channel_facade *facade)
{
    return channel_interest(outer(facade));
}

static void pass_modify_interest(struct channel_facade *facade, unsigned set, unsigned reset)
{
    channel_modify_interest(outer(facade), set, reset);
}

static void pass_close(struct channel_facade *facade)
{
    channel_close(outer(facade));
}

static bool pass_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    return channel_set_write_rate(outer(facade), bytes_per_second);
}

static void pass_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    channel_peer(outer(facade), endpoint);
}

static void retain(struct channel_facade *facade)
{
    atomic_fetch_add(&handler_element_of(facade)->references, 1);
}

static void release(struct channel_facade *facade)
{
    struct handler_element *element = handler_element_of(facade);
    if (atomic_fetch_sub(&element->references, 1) > 1)
        return;
    channel_release(element->outer);
    free(element);
}

const struct channel_facade_verbs handler_element_facade_verbs = {
    .input = pass_input,
    .enqueue = pass_enqueue,
    .enqueue_shared = pass_enqueue_shared,
    .enqueue_file = pass_enqueue_file,
    .set_handler = pass_set_handler,
    .interest = pass_interest,
    .modify_interest = pass_modify_interest,
    .close = pass_close,
    .set_write_rate = pass_set_write_rate,
    .peer = pass_peer,
    .retain = retain,
    .release = release,
};
