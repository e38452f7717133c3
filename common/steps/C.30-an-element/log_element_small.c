/* Stands in for log_element.c: it shows how much comes in, and neither what, nor whose it is. */
#include "common/apps/chain_service.h"
#include "common/apps/handler_element.h"
#include "common/base/options.h"
#include "common/server/server.h"

static bool wanted;
static const struct log *shown_in;
static struct input_handler_factory *application;
static struct input_handler_verbs verbs;

static bool show_input(struct input_handler *handler, struct message message,
                       struct channel_facade *facade) NO_LOCK_HELD
{
    log_write(shown_in, LOG_LEVEL_INFO, "event=input bytes=%zu", message.length);
    return handler_element_verbs.handle_input(handler, message, facade);
}

static struct input_handler *create(struct input_handler_factory *self, void *memory) NO_LOCK_HELD
{
    struct handler_element *element = memory;
    struct input_handler *inner = input_handler_create(
        application, (unsigned char *)memory + handler_element_room(sizeof(*element)));
    (void)self;
    if (inner == NULL)
        return NULL;
    handler_element_init(element, &verbs, &handler_element_facade_verbs, inner);
    return &element->handler;
}

static void add_options(struct options *options)
{
    options_add(options, (struct option){.name = "--log-traffic",
                                         .help = "show how much comes in",
                                         .target = &wanted});
}

static struct input_handler_factory *over(struct input_handler_factory *inner,
                                          struct server *server)
{
    static struct input_handler_factory factory = {.create = create};
    if (!wanted)
        return inner;
    server->log.level = LOG_LEVEL_INFO;
    shown_in = &server->log;
    application = inner;
    verbs = handler_element_verbs;
    verbs.handle_input = show_input;
    factory.handler_size =
        handler_element_room(sizeof(struct handler_element)) + inner->handler_size;
    return &factory;
}

const struct chain_service log_service = {add_options, over};
