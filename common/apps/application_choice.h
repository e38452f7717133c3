/*
 * Which application a server serves: the table of all, the options with which a user chooses, and
 * what a stage's main does with the choice.
 */
#ifndef COMMON_APPS_APPLICATION_CHOICE_H
#define COMMON_APPS_APPLICATION_CHOICE_H

#include "common/apps/application.h"
#include "common/base/options.h"
#include "common/server/server.h"
#include "common/workers/executor.h"

/**
 * All applications, echo first because it is the default of --app, and NULL last. make writes this
 * table (build/applications.c): each folder common/apps/NAME with a NAME.c is an application, and
 * so is the file that `make APP=path/to/NAME.c` names. NAME.c defines a `const struct application
 * NAME_application`.
 */
extern const struct application *const applications[];

enum { APPLICATION_TEXT_SIZE = 512 };

/** Where a chat finds those on other servers. */
struct broker_choice {
    const char *address;       /* --broker, HOST:PORT; NULL: nowhere */
    const char *name;          /* --broker-name, of this server; NULL: one is made up */
    const char *password_file; /* --broker-password-file; NULL: the broker wants no password */
    int64_t lease;             /* --broker-lease; ms */
};

/** What a user chooses: the application, and the values of the applications' options. */
struct application_choice {
    const struct application *chosen;
    unsigned offers;             /* the stage's */
    const char *mail_dir;        /* pop3: --mail-dir; NULL: not given */
    const char *users;           /* pop3: --users; NULL: not given */
    const char *http_root;       /* http: --root */
    const char *relay_to;        /* relay: --to; NULL: not given */
    struct broker_choice broker; /* chat */

    /* What --help and errors say; a table of options keeps only pointers. */
    char help[APPLICATION_TEXT_SIZE];
    char expects[APPLICATION_TEXT_SIZE];
    char idle_help[APPLICATION_TEXT_SIZE];
};

/**
 * Adds --app and the options of all applications: --help lists them whichever is chosen. `offers`
 * is what the stage offers.
 */
void application_options(struct options *options, struct application_choice *choice,
                         unsigned offers);

/**
 * After options_parse(): sets the chosen application's own defaults for options that the user has
 * not given. Returns OPTIONS_SERVE. Or prints the reason on standard error and returns 2, the
 * status to exit with, if the stage does not offer what the application needs, or if the
 * application cannot work under that saturation policy (NULL: there is none).
 */
int application_settle(const struct application_choice *choice, struct options *options,
                       const struct saturation_policy *policy);

/** Opens the chosen application. NULL: it cannot be opened, and the reason was printed. */
struct input_handler_factory *application_open(const struct application_choice *choice,
                                               struct server *server);

/** Ends it, after every handler's `stopped`. The factory may be NULL: it was not opened. */
void application_close(const struct application_choice *choice,
                       struct input_handler_factory *factory);

#endif
