#include "common/apps/handler_element.h"

#include "common/base/container_of.h"

static struct handler_element *element_of(struct input_handler *handler)
{
    return container_of(handler, struct handler_element, handler);
}

static bool pass_holds_input(const struct input_handler *self);

/*
 * The framework behaves differently if a handler has a verb that is one of its traits. So an
 * element has those of the handler behind it, and beside them its own holds_input, which is about
 * the element.
 */
static void fit(struct handler_element *element)
{
    struct input_handler_verbs *verbs = &element->verbs;
    unsigned inner = input_handler_traits(element->inner);
    *verbs = *element->all_verbs;
    input_handler_complete(verbs);
    bool passes_input = verbs->holds_input == pass_holds_input;
    verbs->traits = inner | (passes_input ? 0u : verbs->traits & TRAIT_HOLDS_INPUT);
}

void handler_element_set_inner(struct handler_element *element, struct input_handler *inner)
{
    element->inner = inner;
    fit(element);
}

void handler_element_init(struct handler_element *element, const struct input_handler_verbs *verbs,
                          const struct channel_facade_verbs *facade_verbs,
                          struct input_handler *inner)
{
    element->handler.verbs = &element->verbs;
    element->all_verbs = verbs;
    element->facade.verbs = facade_verbs;
    handler_element_set_inner(element, inner);
}

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
