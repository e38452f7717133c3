/*
 * What every stage's server has, whatever its threads do: settings, a listener, signals, a log,
 * counters, buffers, and the service itself.
 *
 * Interface:
 * - main() owns the one struct server; it outlives every thread and every connection.
 * - Settings do not change after server_open(), unless an application changes them when it is
 * opened.
 * - The listener and the signals belong to the thread that accepts; the rest is safe from any.
 */
#ifndef COMMON_SERVER_H
#define COMMON_SERVER_H

#include "buffer_factory.h"
#include "counters.h"
#include "deadlines.h"
#include "log.h"
#include "options.h"
#include "output_chain.h"
#include "service.h"
#include "signals.h"
#include "sockets.h"

/** What happens to a client past --max-connections. */
enum overload {
    OVERLOAD_REJECT,   /* it is told so and closed */
    OVERLOAD_WAIT,     /* it is not accepted before another one has gone */
    OVERLOAD_REDIRECT, /* it is told where else to go and closed */
};

struct server_settings {
    struct endpoint bind; /* without the port */
    uint64_t port;
    int64_t urgent_port; /* -1: there is only one port */
    uint64_t max_line;
    uint64_t max_connections;
    enum overload overload;
    char turn_away[300]; /* what a client is told that there is no place for */
    struct deadline_limits deadlines;
    int64_t drain_timeout; /* ms */
    uint64_t output_high_mark;
    uint64_t output_low_mark;
    uint64_t output_cap;
    uint64_t send_buffer;
    uint64_t work_us;
    uint64_t block_ms;
    uint64_t cost_every;
    enum log_level log_level;
    bool stats;
    const char *trace; /* the file to write a trace to; NULL: none */
};

struct server {
    const char *name;
    struct server_settings settings;
    struct listener listener;
    struct listener urgent_listener; /* whose clients go first in a priority queue; fd -1: none */
    struct signals signals;
    struct log log;
    struct log_limit memory_limit;
    struct counters counters;
    struct buffer_factory buffers;
    struct output_settings output_settings;
    struct service service;
};

enum {
    /** How long a client that was told of its error may take to read it; ms. */
    SERVER_LINGER_MS = 2000,

    /** After the system ran out of something, accept again this much later; ms. */
    SERVER_BACK_OFF_MS = 100,
};

/** What a client whose line is too long is told before the close. */
extern const struct message server_too_long_text;

/** What a client is told when no worker takes its message. */
extern const struct message server_busy_text;

/** Adds the options that all stages have. port is the stage's default. */
void server_options(struct options *options, struct server_settings *settings, const char *port);

/** Adds --priority-port, for servers whose executor can favour some clients over others. */
void server_urgent_option(struct options *options, struct server_settings *settings);

/**
 * Makes the server listen, as its settings say. 0; or -1, and the reason stands on standard error.
 */
int server_open(struct server *server, const char *name);

/**
 * Tells on standard output what is served where. Called once, when all that the server needs is
 * open: it also finds out how many connections the descriptor limit leaves room for.
 */
void server_announce(struct server *server, const char *service);

/**
 * A connection ends because there is no memory for what has come: counts it there, and tells of it
 * in the log, not for every client. Any thread; errno stays.
 */
void server_no_memory(struct server *server, struct counters *counters);

/**
 * Prints the counters and writes the trace if that was asked for, and frees all. No other thread
 * runs any more.
 */
void server_close(struct server *server);

#endif
