/*
 * An application: what a server serves. It knows no socket, no thread and no stage; the framework
 * knows nothing of what it does (Hitchens: decouple I/O grunt work from the client handler logic).
 *
 * An author needs only this header. It includes input_handler.h, and that includes
 * channel_facade.h.
 */
#ifndef COMMON_APPS_APPLICATION_H
#define COMMON_APPS_APPLICATION_H

#include "common/server/input_handler.h"

struct options;
struct server;

/**
 * What some stages offer an application, and others cannot. Bits: an application lists what it
 * needs, a stage what it offers. application_choice.c has a name for each, which the refusal shows.
 */
enum stage_offer {
    OFFERS_OUTPUT_FROM_ELSEWHERE = 1, /* the handler of one connection may send to another one */
    OFFERS_TIMERS = 2,                /* channel_set_timer() */
    OFFERS_POST = 4,                  /* channel_post(), from any thread */
    OFFERS_CONNECTIONS = 8,           /* channel_connect() */
};

struct application {
    const char *name; /* for --app, and for the line that announces the server */
    unsigned needs;   /* what not every stage offers: enum stage_offer */

    /**
     * True if a client knows only by their order which answer belongs to which request. If one of
     * its requests is dropped without an answer, it takes the next answer for that one.
     */
    bool ordered_answers;

    /** The descriptors that one connection may need at a time, its socket included; 0: one. */
    unsigned descriptors;

    /** Its own default for --idle-timeout, as a user would type it. NULL: the server's. */
    const char *idle_timeout;

    /**
     * Adds the options that it alone has. Their targets are static variables of its own, which
     * `open` reads. NULL: it has none.
     */
    void (*options)(struct options *options);

    /**
     * For an application that remembers nothing from one message to the next: one handler with
     * these verbs serves all connections, and there is neither open nor close. Each verb may be
     * NULL: then it is what input_handler.h says, and without refuse_input the client reads that
     * the server is busy. NULL: the application has an open.
     */
    const struct input_handler_verbs *verbs;

    /**
     * Returns the factory of its handlers, which must live until `close`. NULL on failure: errno is
     * set, or 0 if the application has already printed the reason on standard error. What options
     * point to lives as long as the program.
     */
    struct input_handler_factory *(*open)(struct server *server);

    /** Ends the application, after every handler's `stopped`. */
    void (*close)(struct input_handler_factory *factory);
};

/**
 * Spends what a message costs (--work-us, --block-ms) and returns the reply of the echo service,
 * the message itself. If it is going to block, it sends the earlier answers first. For the
 * handler's own calls.
 */
struct message application_process(struct server *server, struct channel_facade *facade,
                                   struct message message);

/** The server of a handler, for applications with `verbs`. */
struct server *application_server(struct input_handler *handler);

/**
 * For main(): opens an application, whose options have been parsed. NULL: it cannot be opened, and
 * the reason was printed.
 */
struct input_handler_factory *application_open(const struct application *application,
                                               struct server *server);

/** Ends it, after every handler's `stopped`. The factory may be NULL: it was not opened. */
void application_close(const struct application *application,
                       struct input_handler_factory *factory);

#endif
