/*
 * An application: what a server serves. It knows no socket, no thread and no stage; the framework
 * knows nothing of what it does (Hitchens: decouple I/O grunt work from the client handler logic).
 */
#ifndef COMMON_APPS_APPLICATION_H
#define COMMON_APPS_APPLICATION_H

#include "../input_handler.h"
#include "../options.h"
#include "../server.h"

struct application {
    const char *name; /* for --app, and for the line that announces the server */

    /** What makes its handlers, for as long as the server runs; NULL with errno. */
    struct input_handler_factory *(*open)(struct server *server);

    /** Ends it. Every handler has heard `stopped`. */
    void (*close)(struct input_handler_factory *factory);
};

extern const struct application application_echo;
extern const struct application application_chat;

/** The option --app, which sets *application. */
struct option application_option(const struct application **application);

#endif
