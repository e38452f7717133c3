/*
 * An application: what a server serves. It knows no socket, no thread and no stage; the framework
 * knows nothing of what it does (Hitchens: decouple I/O grunt work from the client handler logic).
 */
#ifndef COMMON_APPS_APPLICATION_H
#define COMMON_APPS_APPLICATION_H

#include "../input_handler.h"
#include "../options.h"
#include "../server.h"

struct application_choice;

struct application {
    const char *name; /* for --app, and for the line that announces the server */

    /** Adds the options that it alone has. NULL: it has none. */
    void (*options)(struct options *options, struct application_choice *choice);

    /**
     * What makes its handlers, for as long as the server runs; NULL with errno, or with 0 there if
     * it has told on standard error what is wrong. The choice lives as long as the server.
     */
    struct input_handler_factory *(*open)(struct server *server,
                                          const struct application_choice *choice);

    /** Ends it. Every handler has heard `stopped`. */
    void (*close)(struct input_handler_factory *factory);
};

extern const struct application application_echo;
extern const struct application application_chat;
extern const struct application application_pop3;
extern const struct application application_http;

/** What a user chooses: the application, and whatever one of them has options for. */
struct application_choice {
    const struct application *chosen;
    const char *mail_dir;  /* pop3: --mail-dir; NULL: none was named */
    const char *users;     /* pop3: --users; likewise */
    const char *http_root; /* http: --root */
};

/** Adds --app and the options of all applications: --help lists them whichever is chosen. */
void application_options(struct options *options, struct application_choice *choice);

/** Opens the one that was chosen. NULL: it cannot be opened, and standard error tells why. */
struct input_handler_factory *application_open(const struct application_choice *choice,
                                               struct server *server);

#endif
