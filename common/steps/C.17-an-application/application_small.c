/*
 * Stands in for common/apps/application.c until step C.18: for one application, which keeps nothing
 * for a connection.
 */
#include "common/apps/application.h"
#include "common/server/channel_calls.h" /* what else it may ask, for the page: echo does not */
#include "common/server/server.h"

static struct server *served;
static struct input_handler_verbs verbs; /* of all handlers */
static struct input_handler handler_of_all;

struct server *application_server(struct input_handler *handler)
{
    (void)handler;
    return served;
}

struct message application_process(struct server *server, struct channel_facade *facade,
                                   struct message message)
{
    if (service_blocks(&server->service))
        channel_flush(facade);
    return service_process(&server->service, message);
}

static struct input_handler *create(struct input_handler_factory *self, void *memory)
{
    (void)self;
    (void)memory;
    return &handler_of_all;
}

struct input_handler_factory *application_open(const struct application *application,
                                               struct server *server)
{
    static struct input_handler_factory factory = {.create = create};
    served = server;
    verbs = *application->verbs;
    handler_of_all.verbs = input_handler_complete(&verbs);
    return &factory;
}
