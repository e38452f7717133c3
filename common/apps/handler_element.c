#include "common/apps/handler_element.h"

#include "common/base/container_of.h"
#include "common/server/channel_calls.h"

static struct handler_element *element_of(struct input_handler *handler)
{
    return container_of(handler, struct handler_element, handler);
}

struct handler_element *handler_element_of(struct channel_facade *facade)
{
    return container_of(facade, struct handler_element, facade);
}

static bool pass_holds_input(const struct input_handler *self);

/*
 * The framework behaves differently if a handler lacks a verb that is one of its traits. So an
 * element has the traits of the handler behind it, and a holds_input of its own, which is about the
 * element.
 */
static void fit(struct handler_element *element)
{
    struct input_handler_verbs *verbs = &element->verbs;
    unsigned traits = input_handler_traits(element->inner);
    *verbs = *element->all_verbs;
    if ((traits & TRAIT_CONTINUES) == 0)
        verbs->continue_output = NULL;
    if ((traits & TRAIT_HOLDS_INPUT) == 0 && verbs->holds_input == pass_holds_input)
        verbs->holds_input = NULL;
    if ((traits & TRAIT_HEARS_DRAINED) == 0)
        verbs->drained = NULL;
    if ((traits & TRAIT_HEARS_LATE) == 0)
        verbs->timed_out = NULL;
    if ((traits & TRAIT_HEARS_IDLE) == 0)
        verbs->idle = NULL;
    if (!input_handler_hears_left(element->inner))
        verbs->left = NULL;
    verbs->one_piece = (traits & TRAIT_ONE_PIECE) != 0;
    verbs->duplex = (traits & TRAIT_DUPLEX) != 0;
}

void handler_element_init(struct handler_element *element, const struct input_handler_verbs *verbs,
                          const struct channel_facade_verbs *facade_verbs,
                          struct input_handler *inner)
{
    element->handler.verbs = &element->verbs;
    element->all_verbs = verbs;
    element->facade.verbs = facade_verbs;
    element->inner = inner;
    fit(element);
}

/* ---- Towards the application --------------------------------------------------------------- */

static enum framing_result pass_next_message(struct input_handler *self,
                                             struct channel_facade *facade,
                                             struct message *message) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return input_handler_next_message(element->inner, &element->facade, message);
}

static bool pass_is_urgent(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return input_handler_is_urgent(element->inner, &element->facade);
}

static bool pass_handle_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return input_handler_handle_input(element->inner, message, &element->facade);
}

static void pass_refuse_input(struct input_handler *self, struct message message,
                              struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_refuse_input(element->inner, message, &element->facade);
}

static bool pass_continue_output(struct input_handler *self,
                                 struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    return input_handler_continue_output(element->inner, &element->facade);
}

static bool pass_holds_input(const struct input_handler *self) NO_LOCK_HELD
{
    return input_handler_holds_input(container_of(self, struct handler_element, handler)->inner);
}

static void pass_drained(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_drained(element->inner, &element->facade);
}

static void pass_timed_out(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_timed_out(element->inner, &element->facade);
}

static void pass_idle(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_idle(element->inner, &element->facade);
}

static void pass_left(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_left(element->inner, &element->facade);
}

static void pass_unused(struct input_handler *self) NO_LOCK_HELD
{
    input_handler_unused(element_of(self)->inner);
}

static void pass_not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    input_handler_not_connected(element_of(self)->inner, error);
}

static void pass_starting(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    element->outer = facade;
    input_handler_starting(element->inner, &element->facade);
}

static void pass_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_started(element->inner, &element->facade);
}

static void pass_end_of_input(struct input_handler *self,
                              struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_end_of_input(element->inner, &element->facade);
}

static void pass_stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_stopping(element->inner, &element->facade);
}

static void pass_stopped(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct handler_element *element = element_of(self);
    (void)facade;
    input_handler_stopped(element->inner, &element->facade);
}

const struct input_handler_verbs handler_element_verbs = {
    .next_message = pass_next_message,
    .is_urgent = pass_is_urgent,
    .handle_input = pass_handle_input,
    .refuse_input = pass_refuse_input,
    .continue_output = pass_continue_output,
    .holds_input = pass_holds_input,
    .drained = pass_drained,
    .timed_out = pass_timed_out,
    .idle = pass_idle,
    .left = pass_left,
    .unused = pass_unused,
    .not_connected = pass_not_connected,
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
    element->inner = handler;
    fit(element);
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

/* Makes the handler of a new connection behind an element like one that there is. */
struct another_factory {
    struct input_handler_factory factory;
    struct input_handler_factory *inner;
    const struct handler_element *model;
};

static struct input_handler *create_another(struct input_handler_factory *self,
                                            void *memory) NO_LOCK_HELD
{
    struct another_factory *another = container_of(self, struct another_factory, factory);
    const struct handler_element_kind *kind = another->model->kind;
    struct handler_element *element = memory;
    struct input_handler *inner = input_handler_create(
        another->inner, (unsigned char *)memory + handler_element_room(kind->size));
    if (inner == NULL)
        return NULL;
    kind->begin(element, another->model, inner);
    return &element->handler;
}

static int pass_connect(struct channel_facade *facade, const struct endpoint *to, int64_t timeout,
                        struct input_handler_factory *factory) NO_LOCK_HELD
{
    const struct handler_element *model = handler_element_of(facade);
    if (model->kind == NULL)
        return channel_connect(model->outer, to, timeout, factory);
    struct another_factory another = {
        .factory = {.handler_size = handler_element_room(model->kind->size) + factory->handler_size,
                    .create = create_another},
        .inner = factory,
        .model = model,
    };
    return channel_connect(model->outer, to, timeout, &another.factory);
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
    .connect = pass_connect,
    .set_write_rate = pass_set_write_rate,
    .peer = pass_peer,
    .end_reason = pass_end_reason,
    .retain = pass_retain,
    .release = pass_release,
};
