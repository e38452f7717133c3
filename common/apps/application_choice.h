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

/** What a user chooses: the application, and whatever one of them has options for. */
struct application_choice {
    const struct application *chosen;
    unsigned offers;             /* the stage's */
    const char *mail_dir;        /* pop3: --mail-dir; NULL: none was named */
    const char *users;           /* pop3: --users; likewise */
    const char *http_root;       /* http: --root */
    const char *relay_to;        /* relay: --to; NULL: nobody was named */
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
 * Applies what depends on the chosen application, after options_parse(): its own defaults, for
 * options that the user has not given. Returns OPTIONS_SERVE; or 2, the status to exit with, if the
 * stage does not offer what it needs, or it cannot work under that saturation policy (NULL: there
 * is none), and standard error says why.
 */
int application_settle(const struct application_choice *choice, struct options *options,
                       const struct saturation_policy *policy);

/** Opens the one that was chosen. NULL: it cannot be opened, and standard error tells why. */
struct input_handler_factory *application_open(const struct application_choice *choice,
                                               struct server *server);

/** Ends it. Every handler has heard `stopped`. NULL is allowed: it was not opened. */
void application_close(const struct application_choice *choice,
                       struct input_handler_factory *factory);

#endif
