/*
 * An application: what a server serves. It knows no socket, no thread and no stage; the framework
 * knows nothing of what it does (Hitchens: decouple I/O grunt work from the client handler logic).
 *
 * Who only answers messages needs no other header. It includes input_handler.h, what to do with a
 * message, and that includes channel_facade.h. What more an author may want has a header of its
 * own: posts, timers, tasks and holds (channel_calls.h), groups (group.h), pairs (pair.h), strands
 * and their groups (strand_group.h), a second listener (application_listen.h), options
 * (common/base/options.h). Who may touch what, and who notices: channel_facade.h.
 */
#ifndef COMMON_APPS_APPLICATION_H
#define COMMON_APPS_APPLICATION_H

#include "common/base/container_of.h"
#include "common/base/counters.h"
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
    OFFERS_WRITE_RATE = 16,           /* channel_set_write_rate(); without it there is no limit */
    OFFERS_STRANDS = 32,              /* strand_open() */
};

struct application {
    const char *name; /* for --app, and for the line that announces the server */
    unsigned needs;   /* what not every stage offers: enum stage_offer */

    /**
     * True if each answer says by itself which request it belongs to, so that a policy of
     * saturation may drop a request without an answer. Mostly a client knows that by their order
     * only, and would take the next answer for that one. So it is false if nothing is said.
     */
    bool unordered_answers;

    /** The descriptors that one connection may need at a time, its socket included; 0: one. */
    unsigned descriptors;

    /**
     * Its own defaults for options of the server: pairs of a name and what a user would type, and a
     * NULL behind them, as {"--idle-timeout", "0", "--max-line", "100000", NULL}. What the user
     * does type counts before that; a stage that lacks an option ignores it. NULL: it has none.
     */
    const char *const *defaults;

    /**
     * Adds the options that it alone has. Their targets are static variables of its own, which
     * `open` reads. NULL: it has none.
     */
    void (*options)(struct options *options);

    /**
     * What its handlers do. Each verb may be NULL: then it is what input_handler.h says. The
     * framework makes the handlers, and there is neither open nor close. NULL: the application has
     * an open.
     */
    const struct input_handler_verbs *verbs;

    /**
     * With `verbs`: the bytes that the application keeps for each connection, of a struct that
     * begins with its input_handler. They are all zero when the connection begins, and go with the
     * last reference to its facade. 0: it keeps nothing, and one handler serves all.
     */
    size_t handler_size;

    /**
     * The bytes of its longest message, with what ends it. A longer one ends its connection
     * (END_TOO_LONG), and nothing more than that is read before it is handled. 0: a line of
     * --max-line and its end.
     */
    uint32_t max_message;

    /**
     * With `verbs`: called before the first client. What it returns application_data() gives to
     * every handler; NULL on failure, as with open. And `finish` is called with it, after every
     * handler's `stopped`. Both may be NULL.
     */
    void *(*start)(struct server *server);
    void (*finish)(void *data);

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

/**
 * The server of a handler, for applications with `verbs`. Any thread that may use the handler. The
 * handler is one that the framework has made, with the verbs that it was given then: not one that
 * channel_set_handler() has put in its place, with a table of its own.
 */
struct server *application_server(struct input_handler *handler);

/** What `start` of its application has returned; NULL: it has none. As application_server(). */
void *application_data(struct input_handler *handler);

/** Its application, whose verbs are as the author has written them. As application_server(). */
const struct application *application_of(struct input_handler *handler);

/**
 * Has --stats and SIGUSR1 print a number of the application's own behind the server's. In its
 * `start` or `open`. The counter lives as long as the program: it is a static variable. Any thread
 * may then call own_counter_add(), which is an atomic step.
 */
void application_count(struct server *server, struct own_counter *counter);

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
