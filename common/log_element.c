#include "log_element.h"

#include <stdio.h>

enum {
    SHOWN = 60, /* bytes of each message; behind them stands how many there are in all */
};

struct log_element {
    struct handler_element element; /* first */
    const struct log *log;
    char peer[ENDPOINT_TEXT_SIZE];
};

static struct log_element *log_element_of(struct handler_element *element)
{
    return (struct log_element *)element;
}

/* One byte as it would be written in C. */
static int print_byte(char *text, size_t size, unsigned char byte)
{
    switch (byte) {
    case '\n': return snprintf(text, size, "\\n");
    case '\r': return snprintf(text, size, "\\r");
    case '\t': return snprintf(text, size, "\\t");
    case '\\': return snprintf(text, size, "\\\\");
    case '"': return snprintf(text, size, "\\\"");
    }
    bool printable = byte >= ' ' && byte <= '~';
    return snprintf(text, size, printable ? "%c" : "\\x%02x", byte);
}

/* A line about some bytes that pass; the arrow tells where to. */
static void show(struct log_element *self, const char *arrow, const unsigned char *data,
                 size_t length)
{
    char text[4 * SHOWN + 1] = "";
    size_t shown = length < SHOWN ? length : SHOWN;
    size_t used = 0;
    for (size_t i = 0; i < shown; i++)
        used += (size_t)print_byte(text + used, sizeof(text) - used, data[i]);
    log_write(self->log, LOG_LEVEL_INFO, "%s %s \"%s\"%s (%zu bytes)", self->peer, arrow, text,
              shown < length ? "..." : "", length);
}

static enum framing_result show_next_message(struct input_handler *handler,
                                             struct channel_facade *facade, struct message *message)
{
    enum framing_result result = handler_element_verbs.next_message(handler, facade, message);
    if (result == FRAMING_MESSAGE)
        show(log_element_of((struct handler_element *)handler), "-->", message->data,
             message->length);
    return result;
}

static void show_starting(struct input_handler *handler, struct channel_facade *facade)
{
    struct log_element *self = log_element_of((struct handler_element *)handler);
    struct endpoint peer;
    channel_peer(facade, &peer);
    endpoint_format(&peer, self->peer);
    log_write(self->log, LOG_LEVEL_INFO, "%s has come", self->peer);
    handler_element_verbs.starting(handler, facade);
}

static void show_stopped(struct input_handler *handler, struct channel_facade *facade)
{
    struct log_element *self = log_element_of((struct handler_element *)handler);
    log_write(self->log, LOG_LEVEL_INFO, "%s has gone", self->peer);
    handler_element_verbs.stopped(handler, facade); /* may be its end */
}

static enum output_result show_enqueue(struct channel_facade *facade, struct message message)
{
    show(log_element_of(handler_element_of(facade)), "<--", message.data, message.length);
    return handler_element_facade_verbs.enqueue(facade, message);
}

static enum output_result show_enqueue_shared(struct channel_facade *facade,
                                              struct shared_message *message)
{
    show(log_element_of(handler_element_of(facade)), "<--", message->data, message->length);
    return handler_element_facade_verbs.enqueue_shared(facade, message);
}

static enum output_result show_enqueue_file(struct channel_facade *facade, struct shared_file *file,
                                            size_t offset, size_t length)
{
    struct log_element *self = log_element_of(handler_element_of(facade));
    log_write(self->log, LOG_LEVEL_INFO, "%s <-- %zu bytes of a file", self->peer, length);
    return handler_element_facade_verbs.enqueue_file(facade, file, offset, length);
}

static struct input_handler *create(struct input_handler_factory *self)
{
    struct log_element_factory *factory = (struct log_element_factory *)self;
    struct input_handler *inner = factory->inner->create(factory->inner);
    if (inner == NULL)
        return NULL;
    struct handler_element *element = handler_element_create(
        sizeof(struct log_element), &factory->verbs, &factory->facade_verbs, inner);
    if (element == NULL)
        return NULL;
    log_element_of(element)->log = factory->log;
    return &element->handler;
}

/* Passes everything on, but for the verbs of its own. */
struct input_handler_factory *log_element_over(struct log_element_factory *factory,
                                               struct input_handler_factory *inner, struct log *log)
{
    *factory = (struct log_element_factory){.factory.create = create,
                                            .inner = inner,
                                            .verbs = handler_element_verbs,
                                            .facade_verbs = handler_element_facade_verbs,
                                            .log = log};
    if (!log_wants(log, LOG_LEVEL_INFO))
        log->level = LOG_LEVEL_INFO;
    factory->verbs.next_message = show_next_message;
    factory->verbs.starting = show_starting;
    factory->verbs.stopped = show_stopped;
    factory->facade_verbs.enqueue = show_enqueue;
    factory->facade_verbs.enqueue_shared = show_enqueue_shared;
    factory->facade_verbs.enqueue_file = show_enqueue_file;
    return &factory->factory;
}

struct option log_element_option(bool *wanted)
{
    *wanted = false;
    return (struct option){.name = "--log-traffic",
                           .help = "show all that comes in and goes out, passwords too",
                           .target = wanted};
}
