#include "common/apps/application_choice.h"

#include "common/base/container_of.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE_ERROR = 2 };

/* ---- Without a state of its own ------------------------------------------------------------- */

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

/* ---- Which one ------------------------------------------------------------------------------ */

/* What the refusal calls each offer, and which stages have it. */
static const struct offer {
    unsigned bit;
    const char *name;
    const char *stages;
} offer_names[] = {
    {OFFERS_OUTPUT_FROM_ELSEWHERE, "output from other connections' handlers", "stages 4 and 5 do"},
    {OFFERS_TIMERS, "timers", "every stage of this course does"},
    {OFFERS_POST, "functions that other threads post", "stages 4 and 5 do"},
    {OFFERS_CONNECTIONS, "outgoing connections", "stages 4 and 5 do"},
};

static bool is_offered(const struct application *application, unsigned offers)
{
    return (application->needs & ~offers) == 0;
}

/* Adds to a text of APPLICATION_TEXT_SIZE bytes, as far as there is room. */
__attribute__((format(printf, 2, 3))) static void append(char *text, const char *format, ...)
{
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + length, APPLICATION_TEXT_SIZE - length, format, arguments);
    va_end(arguments);
}

/* Puts the names of the applications that need no more than these offers behind a text. */
static void append_names(char *text, unsigned offers)
{
    const char *between = "";
    for (size_t i = 0; applications[i] != NULL; i++) {
        if (!is_offered(applications[i], offers))
            continue;
        append(text, "%s%s", between, applications[i]->name);
        between = ", ";
    }
}

static bool parse_application(const struct option *option, const char *text)
{
    for (size_t i = 0; applications[i] != NULL; i++) {
        if (strcmp(applications[i]->name, text) == 0) {
            *(const struct application **)option->target = applications[i];
            return true;
        }
    }
    return false;
}

void application_options(struct options *options, struct application_choice *choice,
                         unsigned offers)
{
    choice->offers = offers;
    strcpy(choice->help, "what to serve: ");
    append_names(choice->help, offers);
    strcpy(choice->expects, "one of ");
    append_names(choice->expects, ~0u);
    strcpy(choice->idle_help,
           "disconnect after SEC seconds without a byte in either direction; 0: never");
    options_add(options, (struct option){.name = "--app",
                                         .value = "NAME",
                                         .default_text = applications[0]->name,
                                         .help = choice->help,
                                         .expects = choice->expects,
                                         .parse = parse_application,
                                         .target = &choice->chosen});
    for (size_t i = 0; applications[i] != NULL; i++) {
        const struct application *application = applications[i];
        if (application->options != NULL)
            application->options(options, choice);
        if (application->idle_timeout != NULL)
            append(choice->idle_help, "; %s: %s", application->name, application->idle_timeout);
    }
    options_find(options, "--idle-timeout")->help = choice->idle_help;
}

/* Reports the first need that the stage does not meet. */
static void refuse_application(const struct application_choice *choice, const char *program)
{
    unsigned missing = choice->chosen->needs & ~choice->offers;
    for (size_t i = 0; missing != 0 && i < sizeof(offer_names) / sizeof(offer_names[0]); i++) {
        const struct offer *offer = &offer_names[i];
        if ((offer->bit & missing) == 0)
            continue;
        fprintf(stderr, "%s: --app: %s needs %s, which %s does not offer; %s\n", program,
                choice->chosen->name, offer->name, program, offer->stages);
        missing = 0;
    }
}

int application_settle(const struct application_choice *choice, struct options *options,
                       const struct saturation_policy *policy)
{
    const struct application *application = choice->chosen;
    if (!is_offered(application, choice->offers)) {
        refuse_application(choice, options->program);
        return USAGE_ERROR;
    }
    if (application->idle_timeout != NULL)
        options_set_if_absent(options, "--idle-timeout", application->idle_timeout);
    if (!application->ordered_answers || policy == NULL || !policy->drops)
        return OPTIONS_SERVE;
    fprintf(stderr,
            "%s: --saturation: expected abort, block or caller-runs with --app %s, got '%s': its "
            "clients know answers by their order, so a request that is dropped would shift them\n",
            options->program, application->name, policy->name);
    return USAGE_ERROR;
}

struct input_handler_factory *application_open(const struct application_choice *choice,
                                               struct server *server)
{
    const struct application *chosen = choice->chosen;
    errno = 0;
    server->settings.connection_descriptors = chosen->descriptors > 0 ? chosen->descriptors : 1;
    struct input_handler_factory *factory = chosen->verbs != NULL
                                                ? stateless_open(server, chosen->verbs)
                                                : chosen->open(server, choice);
    if (factory == NULL && errno != 0)
        fprintf(stderr, "%s: cannot open %s: %s\n", server->name, chosen->name, strerror(errno));
    return factory;
}

void application_close(const struct application_choice *choice,
                       struct input_handler_factory *factory)
{
    if (factory == NULL)
        return;
    if (choice->chosen->verbs != NULL)
        stateless_close(factory);
    else if (choice->chosen->close != NULL)
        choice->chosen->close(factory);
}
