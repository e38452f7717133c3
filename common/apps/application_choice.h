/*
 * Which application a server serves: the options with which a user chooses, and what a program's
 * main does with the choice.
 *
 * Interface:
 * - A program's main.c has a table of the applications that it serves. So it links those, and what
 *   they use, and no others.
 */
#ifndef COMMON_APPS_APPLICATION_CHOICE_H
#define COMMON_APPS_APPLICATION_CHOICE_H

#include "common/apps/application.h"
#include "common/base/options.h"
#include "common/server/server.h"

struct saturation_policy;

/**
 * The applications of this course: NAME_application is in common/apps/NAME/NAME.c. The broker's is
 * the chat, with what links it to other servers.
 */
extern const struct application echo_application, chat_application, broker_application,
    http_application, pop3_application, relay_application, store_application;

/**
 * The application that `make APP=path/to/mine.c` adds. It stands last in a table, because without
 * APP there is none: then the linker makes this address NULL, which ends the table.
 */
extern const struct application application_added __attribute__((weak));

enum {
    APPLICATION_TEXT_SIZE = 512,

    /** For so many options --help says that applications have defaults of their own. */
    APPLICATION_DEFAULTS = 8,
};

/** What a user chooses. */
struct application_choice {
    const struct application *chosen;
    const struct application *const *applications; /* the program's */
    unsigned offers;                               /* the stage's */

    /* What --help and errors say; a table of options keeps only pointers. */
    char help[APPLICATION_TEXT_SIZE];
    char expects[APPLICATION_TEXT_SIZE];
    char helps[APPLICATION_DEFAULTS][APPLICATION_TEXT_SIZE];
    size_t help_count;
};

/**
 * Adds --app and the options of all these applications: --help lists them whichever is chosen. The
 * table ends with NULL and has to outlive the choice; its first application is the default.
 * `offers` is what the stage offers.
 */
void application_options(struct options *options, struct application_choice *choice,
                         const struct application *const *applications, unsigned offers);

/**
 * After options_parse(): sets an application's own defaults for options that the user has not
 * given. False, and the reason stands on standard error: one is nothing that a user could type.
 */
bool application_set_defaults(struct options *options, const struct application *application);

/**
 * After options_parse(): sets the chosen application's own defaults. Returns OPTIONS_SERVE. Or
 * prints the reason on standard error and returns 2, the status to exit with, if the stage does not
 * offer what the application needs, or if the application cannot work under that saturation policy
 * (NULL: there is none).
 */
int application_settle(const struct application_choice *choice, struct options *options,
                       const struct saturation_policy *policy);

#endif
