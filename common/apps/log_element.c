#include "common/apps/log_element.h"

#include "common/apps/chain_service.h"
#include "common/base/container_of.h"
#include "common/base/log_value.h"
#include "common/server/channel_calls.h"
#include "common/server/server.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    SHOWN = 60, /* bytes of each message that are shown, before the count of all */
};

struct log_element {
    struct handler_element element; /* first */
    const struct log *log;
    char who[CHANNEL_TEXT_SIZE];
};

static struct log_element *log_element_of(struct input_handler *handler)
{
    return container_of(handler, struct log_element, element.handler);
}

/* Logs a line about some bytes that pass. */
static void show(struct log_element *self, const char *event, const unsigned char *data,
                 size_t length)
{
    char text[4 * SHOWN + 1];
    char cut[32] = "";
    size_t shown = length < SHOWN ? length : SHOWN;
    log_value(text, sizeof(text), data, shown);
    if (shown < length)
        snprintf(cut, sizeof(cut), " shown=%zu", shown);
    log_write(self->log, LOG_LEVEL_INFO, "event=%s %s bytes=%zu%s text=\"%s\"", event, self->who,
              length, cut, text);
}

static enum framing_result show_next_message(struct input_handler *handler,
                                             struct channel_facade *facade, struct message *message)
{
    enum framing_result result = handler_element_verbs.next_message(handler, facade, message);
    if (result == FRAMING_MESSAGE)
        show(log_element_of(handler), "input", message->data, message->length);
    return result;
}

static void show_starting(struct input_handler *handler, struct channel_facade *facade)
{
    struct log_element *self = log_element_of(handler);
    channel_describe(facade, self->who);
    log_write(self->log, LOG_LEVEL_INFO, "event=begun %s", self->who);
    handler_element_verbs.starting(handler, facade);
}

static void show_stopped(struct input_handler *handler, struct channel_facade *facade)
{
    struct log_element *self = log_element_of(handler);
    log_write(self->log, LOG_LEVEL_INFO, "event=ended %s reason=\"%s\"", self->who,
              end_reason_text(channel_end_reason(facade)));
    handler_element_verbs.stopped(handler, facade); /* may be its end */
}

static void show_piece(struct log_element *self, const struct piece *piece)
{
    if (piece->kind == PIECE_BYTES)
        show(self, "output", piece->bytes.data, piece->bytes.length);
    else
        log_write(self->log, LOG_LEVEL_INFO, "event=output %s bytes=%" PRIu64 " file=yes",
                  self->who, piece->range.length);
}

static enum output_result show_enqueue(struct channel_facade *facade, struct piece piece)
{
    show_piece(log_element_of(&handler_element_of(facade)->handler), &piece);
    return handler_element_facade_verbs.enqueue(facade, piece);
}

static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner);

static const struct handler_element_kind kind = {sizeof(struct log_element), begin};

static void init(struct log_element *element, const struct log *log,
                 const struct input_handler_verbs *verbs,
                 const struct channel_facade_verbs *facade_verbs, struct input_handler *inner)
{
    handler_element_init(&element->element, verbs, facade_verbs, inner);
    element->element.kind = &kind;
    element->log = log;
}

static void begin(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner)
{
    const struct log *log = container_of(model, const struct log_element, element)->log;
    init(container_of(element, struct log_element, element), log, model->all_verbs,
         model->facade.verbs, inner);
}

static struct input_handler *create(struct input_handler_factory *self, void *memory) NO_LOCK_HELD
{
    struct log_element_factory *factory = container_of(self, struct log_element_factory, factory);
    struct log_element *element = memory;
    struct input_handler *inner = input_handler_create(
        factory->inner, (unsigned char *)memory + handler_element_room(sizeof(*element)));
    if (inner == NULL)
        return NULL;
    init(element, factory->log, &factory->verbs, &factory->facade_verbs, inner);
    return &element->element.handler;
}

/* The facade passes every call on, except those that the log replaces. */
struct input_handler_factory *log_element_over(struct log_element_factory *factory,
                                               struct input_handler_factory *inner, struct log *log)
{
    *factory = (struct log_element_factory){
        .factory = {.handler_size =
                        handler_element_room(sizeof(struct log_element)) + inner->handler_size,
                    .create = create},
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
    return &factory->factory;
}

struct option log_element_option(bool *wanted)
{
    *wanted = false;
    return (struct option){.name = "--log-traffic",
                           .help = "show all that comes in and goes out, passwords too",
                           .target = wanted};
}

/* ---- As a service --------------------------------------------------------------------------- */

static bool wanted;

static void add_options(struct options *options)
{
    options_add(options, log_element_option(&wanted));
}

static struct input_handler_factory *log_over(struct input_handler_factory *inner,
                                              struct server *server)
{
    static struct log_element_factory factory;
    return wanted ? log_element_over(&factory, inner, &server->log) : inner;
}

const struct chain_service log_service = {add_options, log_over};
