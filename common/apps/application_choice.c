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
    {.name = "chat", .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_STRANDS},
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
        append(text, "%s%s", between,
               applications[i]->name != NULL ? applications[i]->name
                                             : "one whose name is left out");
        between = ", ";
    }
}

/* One of the program's applications, or one that it can refuse with a reason. */
static bool parse_application(const struct option *option, const char *text)
{
    struct application_choice *choice = option->target;
    for (size_t i = 0; choice->applications[i] != NULL; i++) {
        const char *name = choice->applications[i]->name;
        if (name != NULL && strcmp(name, text) == 0) {
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

/* The help of an option, where more can be added to it; NULL: there is no room for another one. */
static char *own_help(struct application_choice *choice, struct option *option)
{
    for (size_t i = 0; i < choice->help_count; i++) {
        if (option->help == choice->helps[i])
            return choice->helps[i];
    }
    if (choice->help_count == APPLICATION_DEFAULTS)
        return NULL;
    char *help = choice->helps[choice->help_count++];
    help[0] = '\0';
    append(help, "%s", option->help);
    option->help = help;
    return help;
}

/* The help of an option says which applications have a default of their own. */
static void tell_defaults(struct options *options, struct application_choice *choice,
                          const struct application *application)
{
    const char *const *own = application->defaults;
    for (; own != NULL && own[0] != NULL && own[1] != NULL; own += 2) {
        struct option *option = options_look_for(options, own[0]);
        char *help = option != NULL ? own_help(choice, option) : NULL;
        if (help != NULL)
            append(help, "; %s: %s", application->name, own[1]);
    }
}

bool application_set_defaults(struct options *options, const struct application *application)
{
    for (const char *const *own = application->defaults; own != NULL && *own != NULL; own += 2) {
        if (own[1] != NULL && options_set_if_absent(options, own[0], own[1]))
            continue;
        fprintf(stderr, "%s: --app: %s has a default for %s that the option does not take: '%s'\n",
                options->program, application->name, own[0], own[1] != NULL ? own[1] : "");
        return false;
    }
    return true;
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
    choice->help_count = 0;
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
    }
    for (size_t i = 0; applications[i] != NULL; i++)
        tell_defaults(options, choice, applications[i]);
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
    if (!application_set_defaults(options, application))
        return USAGE_ERROR;
    if (application->unordered_answers || policy == NULL || !policy->drops)
        return OPTIONS_SERVE;
    fprintf(stderr,
            "%s: --saturation: expected abort, block or caller-runs with --app %s, got '%s': its "
            "clients know answers by their order, so a request that is dropped would shift them\n",
            options->program, application->name, policy->name);
    return USAGE_ERROR;
}
