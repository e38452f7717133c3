#include "common/apps/application.h"

#include "common/base/container_of.h"
#include "common/server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The verbs of the application, with defaults for those that it lacks, and its only handler. */
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

static enum framing_result next_line(struct input_handler *self, struct channel_facade *facade,
                                     struct message *line)
{
    size_t max_line = application_server(self)->settings.max_line;
    enum framing_result result = line_framing_next(channel_input(facade), max_line, line);
    if (result == FRAMING_TOO_LONG)
        channel_enqueue(facade, piece_copy(server_too_long_text));
    return result;
}

static void say_busy(struct input_handler *self, struct message message,
                     struct channel_facade *facade)
{
    (void)self;
    (void)message;
    channel_enqueue(facade, piece_copy(server_busy_text));
}

static bool discard(struct input_handler *self, struct message message,
                    struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
    return true;
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
    if (verbs->next_message == NULL)
        stateless->verbs.next_message = next_line;
    if (verbs->handle_input == NULL)
        stateless->verbs.handle_input = discard;
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
    errno = 0;
    server->settings.connection_descriptors = descriptors > 0 ? descriptors : 1;
    struct input_handler_factory *factory = application->verbs != NULL
                                                ? stateless_open(server, application->verbs)
                                                : application->open(server);
    if (factory == NULL && errno != 0)
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, application->name,
                strerror(errno));
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
