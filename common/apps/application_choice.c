#include "common/apps/application_choice.h"

#include "common/workers/saturation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { USAGE_ERROR = 2 };

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
    {OFFERS_WRITE_RATE, "a write rate", "stage 5 does"},
    {OFFERS_STRANDS, "strands", "stages 4 and 5 do"},
};

/* Applications that not every program links: what a program without them has to lack for that. */
static const struct application elsewhere[] = {
    {.name = "chat", .needs = OFFERS_OUTPUT_FROM_ELSEWHERE},
    {.name = "relay", .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_CONNECTIONS},
    {.name = "store", .needs = OFFERS_STRANDS},
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
static void append_names(char *text, const struct application *const *applications, unsigned offers)
{
    const char *between = "";
    for (size_t i = 0; applications[i] != NULL; i++) {
        if (!is_offered(applications[i], offers))
            continue;
        append(text, "%s%s", between, applications[i]->name);
        between = ", ";
    }
}

/* One of the program's applications, or one that it can refuse with a reason. */
static bool parse_application(const struct option *option, const char *text)
{
    struct application_choice *choice = option->target;
    for (size_t i = 0; choice->applications[i] != NULL; i++) {
        if (strcmp(choice->applications[i]->name, text) == 0) {
            choice->chosen = choice->applications[i];
            return true;
        }
    }
    for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++) {
        if (strcmp(elsewhere[i].name, text) == 0 && !is_offered(&elsewhere[i], choice->offers)) {
            choice->chosen = &elsewhere[i];
            return true;
        }
    }
    return false;
}

/* What the help of an option says of an application that has a default of its own. */
static void append_default(char *help, const struct application *application, const char *value)
{
    if (value != NULL)
        append(help, "; %s: %s", application->name, value);
}

void application_options(struct options *options, struct application_choice *choice,
                         const struct application *const *applications, unsigned offers)
{
    choice->applications = applications;
    choice->offers = offers;
    strcpy(choice->help, "what to serve: ");
    append_names(choice->help, applications, offers);
    strcpy(choice->expects, "one of ");
    append_names(choice->expects, applications, ~0u);
    strcpy(choice->idle_help,
           "disconnect after SEC seconds without a byte in either direction; 0: never");
    strcpy(choice->cap_help, "disconnect a client with more output waiting");
    options_add(options, (struct option){.name = "--app",
                                         .value = "NAME",
                                         .default_text = applications[0]->name,
                                         .help = choice->help,
                                         .expects = choice->expects,
                                         .parse = parse_application,
                                         .target = choice});
    for (size_t i = 0; applications[i] != NULL; i++) {
        const struct application *application = applications[i];
        if (application->options != NULL)
            application->options(options);
        append_default(choice->idle_help, application, application->idle_timeout);
        append_default(choice->cap_help, application, application->output_cap);
    }
    options_find(options, "--idle-timeout")->help = choice->idle_help;
    options_find(options, "--output-cap")->help = choice->cap_help;
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
    if (application->output_cap != NULL)
        options_set_if_absent(options, "--output-cap", application->output_cap);
    if (application->unordered_answers || policy == NULL || !policy->drops)
        return OPTIONS_SERVE;
    fprintf(stderr,
            "%s: --saturation: expected abort, block or caller-runs with --app %s, got '%s': its "
            "clients know answers by their order, so a request that is dropped would shift them\n",
            options->program, application->name, policy->name);
    return USAGE_ERROR;
}
