#include "common/apps/application.h"

#include "common/base/container_of.h"
#include "common/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The verbs of the application, with a default for the one that it may lack, and its only handler.
 */
struct stateless {
    struct input_handler_factory factory;
    struct input_handler handler;
    struct input_handler_verbs verbs;
    struct server *server;
};

struct server *application_server(struct input_handler *handler)
{
    return container_of(handler, struct stateless, handler)->server;
}

struct message application_process(struct server *server, struct channel_facade *facade,
                                   struct message message)
{
    if (service_blocks(&server->service))
        channel_flush(facade);
    return service_process(&server->service, message);
}

static void say_busy(struct input_handler *self, struct message message,
                     struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, piece_copy(server_busy_text));
}

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    (void)memory;
    return &container_of(factory, struct stateless, factory)->handler;
}

static struct input_handler_factory *stateless_open(struct server *server,
                                                    const struct input_handler_verbs *verbs)
{
    struct stateless *stateless = malloc(sizeof(*stateless));
    if (stateless == NULL)
        return NULL;
    *stateless = (struct stateless){.factory.create = create, .verbs = *verbs, .server = server};
    stateless->handler.verbs = &stateless->verbs;
    if (verbs->refuse_input == NULL)
        stateless->verbs.refuse_input = say_busy;
    return &stateless->factory;
}

static void stateless_close(struct input_handler_factory *factory)
{
    free(container_of(factory, struct stateless, factory));
}

struct input_handler_factory *application_open(const struct application *application,
                                               struct server *server)
{
    unsigned descriptors = application->descriptors;
    if (application->verbs == NULL && application->open == NULL) {
        fprintf(stderr, "%s: cannot open %s: expected verbs or open in its struct, got neither\n",
                server->name, application->name);
        return NULL;
    }
    errno = 0;
    server->settings.connection_descriptors = descriptors > 0 ? descriptors : 1;
    struct input_handler_factory *factory = application->verbs != NULL
                                                ? stateless_open(server, application->verbs)
                                                : application->open(server);
    if (factory == NULL && errno != 0)
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, application->name,
                strerror(errno));
    if (factory != NULL && factory->create == NULL) {
        fprintf(stderr, "%s: cannot open %s: expected create in its factory, got none\n",
                server->name, application->name);
        application_close(application, factory);
        return NULL;
    }
    return factory;
}

void application_close(const struct application *application, struct input_handler_factory *factory)
{
    if (factory == NULL)
        return;
    if (application->verbs != NULL)
        stateless_close(factory);
    else if (application->close != NULL)
        application->close(factory);
}
