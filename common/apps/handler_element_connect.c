/*
 * An element and connections that are opened: the new one's handler gets an element of its own.
 */
#include "common/apps/handler_element.h"

#include "common/base/container_of.h"

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

int handler_element_connect(struct channel_facade *facade, const struct endpoint *to,
                            int64_t timeout, struct input_handler_factory *factory)
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
