#include "common/apps/application.h"

#include "common/base/container_of.h"
#include "common/server/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What makes the handlers of an application with verbs: a copy of these, with a default for each
 * that it may lack, by which a handler finds the rest; and the handler of all connections, if it
 * keeps nothing for each.
 */
struct maker {
    struct input_handler_factory factory;
    struct input_handler handler;
    struct input_handler_verbs verbs;
    const struct application *application;
    struct server *server;
    void *data;

    /* What its author had written when it was opened, for an assert. */
    struct application written;
    struct input_handler_verbs written_verbs;
};

static struct input_handler *create(struct input_handler_factory *factory, void *memory);

struct server *application_server(struct input_handler *handler) NO_THREAD_SAFETY_ANALYSIS
{
    const struct maker *maker = container_of(handler->verbs, const struct maker, verbs);
    assert(maker->factory.create == create); /* else its author has written handler->verbs */
    return maker->server;
}

void *application_data(struct input_handler *handler) NO_THREAD_SAFETY_ANALYSIS
{
    const struct maker *maker = container_of(handler->verbs, const struct maker, verbs);
    assert(maker->factory.create == create);
    return maker->data;
}

const struct application *application_of(struct input_handler *handler) NO_THREAD_SAFETY_ANALYSIS
{
    return container_of(handler->verbs, const struct maker, verbs)->application;
}

void application_count(struct server *server, struct own_counter *counter)
{
    struct own_counter **last = &server->own_counters;
    while (*last != NULL)
        last = &(*last)->next;
    counter->next = NULL;
    *last = counter;
}

struct message application_process(struct server *server, struct channel_facade *facade,
                                   struct message message)
{
    if (service_is_free(&server->service))
        return message;
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

/* Byte by byte, and also what lies between the members, because it was copied with them. */
static bool is_same(const void *one, const void *other, size_t length)
{
    return memcmp(one, other, length) == 0;
}

/* Its author must not write any more what has been read: it comes to nothing, or to half. */
static bool is_as_written(const struct maker *maker)
{
    const struct application *application = maker->application;
    return is_same(application, &maker->written, sizeof(maker->written)) &&
           is_same(application->verbs, &maker->written_verbs, sizeof(maker->written_verbs));
}

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct maker *maker = container_of(factory, struct maker, factory);
    bool table_is_as_written = is_as_written(maker);
    assert(table_is_as_written);
    (void)table_is_as_written;
    struct input_handler *handler = factory->handler_size > 0 ? memory : &maker->handler;
    if (handler == memory)
        handler->verbs = &maker->verbs;
    return handler;
}

/* What verbs that are made for other authors find missing; NULL: nothing. */
static const char *own_fault_of(const struct application *application, const void *data)
{
    return application->verbs != NULL && application->verbs->fault != NULL
               ? application->verbs->fault(application, data)
               : NULL;
}

static bool is_refused(const struct application *application, const struct server *server,
                       const char *fault)
{
    if (fault != NULL)
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, application->name, fault);
    return fault != NULL;
}

static void keep_what_is_written(struct maker *maker)
{
    memcpy(&maker->written, maker->application, sizeof(maker->written));
    memcpy(&maker->written_verbs, maker->application->verbs, sizeof(maker->written_verbs));
}

/* Calls the application's own start. False: it cannot, or what it returns is not what it takes. */
static bool start(struct maker *maker)
{
    const struct application *application = maker->application;
    maker->server->opening_verbs = &maker->verbs;
    if (application->start != NULL && (maker->data = application->start(maker->server)) == NULL)
        return false;
    if (!is_refused(application, maker->server, own_fault_of(application, maker->data)))
        return true;
    if (application->finish != NULL)
        application->finish(maker->data);
    errno = 0; /* the reason is printed */
    return false;
}

static struct input_handler_factory *open_maker(const struct application *application,
                                                struct server *server)
{
    struct maker *maker = malloc(sizeof(*maker));
    if (maker == NULL)
        return NULL;
    *maker = (struct maker){
        .factory = {.handler_size = application->handler_size, .create = create},
        .verbs = *application->verbs,
        .application = application,
        .server = server,
    };
    keep_what_is_written(maker);
    maker->handler.verbs = &maker->verbs;
    if (maker->verbs.refuse_input == NULL)
        maker->verbs.refuse_input = say_busy;
    if (!start(maker)) {
        free(maker);
        return NULL;
    }
    input_handler_complete(&maker->verbs); /* behind `start`, which may have filled in its own */
    return &maker->factory;
}

static void close_maker(struct input_handler_factory *factory)
{
    struct maker *maker = container_of(factory, struct maker, factory);
    bool table_is_as_written = is_as_written(maker);
    assert(table_is_as_written);
    (void)table_is_as_written;
    if (maker->application->finish != NULL)
        maker->application->finish(maker->data);
    free(maker);
}

/* What its author has forgotten, or has said twice; NULL: nothing. */
static const char *fault_of(const struct application *application)
{
    bool has_verbs = application->verbs != NULL;
    if (!has_verbs && application->open == NULL)
        return "expected verbs or open in its struct, got neither";
    if (has_verbs && (application->open != NULL || application->close != NULL))
        return "expected verbs, or open and close, in its struct, got both";
    if (!has_verbs && (application->handler_size > 0 || application->start != NULL))
        return "expected verbs beside handler_size and start in its struct, got open";
    if (application->handler_size > 0 && application->handler_size < sizeof(struct input_handler))
        return "expected the size of a struct that begins with its input_handler as handler_size, "
               "got less";
    return own_fault_of(application, NULL);
}

struct input_handler_factory *application_open(const struct application *application,
                                               struct server *server)
{
    unsigned descriptors = application->descriptors;
    const struct application *first = server->opening;
    struct input_handler_verbs *first_verbs = server->opening_verbs;
    if (is_refused(application, server, fault_of(application)))
        return NULL;
    errno = 0;
    server->settings.connection_descriptors = descriptors > 0 ? descriptors : 1;
    server->settings.max_message = application->max_message;
    server->settings.needs |= application->needs;
    server->opening = application;
    struct input_handler_factory *factory =
        application->verbs != NULL ? open_maker(application, server) : application->open(server);
    server->opening = first;
    server->opening_verbs = first_verbs;
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
        close_maker(factory);
    else if (application->close != NULL)
        application->close(factory);
}
