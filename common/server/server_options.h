/*
 * The options that every stage's server has, and the settings that the command line becomes.
 *
 * Interface:
 * - main() adds the options, then options_parse() fills the settings in.
 * - main() and the application set them, until server_announce(). After that nobody does, and any
 *   thread reads them.
 */
#ifndef COMMON_SERVER_OPTIONS_H
#define COMMON_SERVER_OPTIONS_H

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/events/deadlines.h"
#include "common/server/network.h"
#include "common/server/sockets.h"

enum {
    /** What --max-connections may be. */
    SERVER_MAX_CONNECTIONS = 1 << 30,
};

struct connection;

/** What happens to a client past --max-connections. */
enum overload {
    OVERLOAD_REJECT,   /* it is told so and closed */
    OVERLOAD_WAIT,     /* it is not accepted before another one has gone */
    OVERLOAD_REDIRECT, /* it is told where else to go and closed */
};

struct server_settings {
    struct endpoint bind; /* without the port */
    size_t port;
    size_t max_line;
    size_t max_connections;
    uint32_t max_message;            /* bytes; the application's; 0: a line of max_line */
    unsigned connection_descriptors; /* that one may need at a time, files included */
    unsigned needs;                  /* the application's, which the stage offers */
    enum overload overload;
    const char *redirect_to; /* HOST:PORT; NULL unless OVERLOAD_REDIRECT */
    char turn_away[1024];    /* what a client is told that there is no place for; applications of
                                another protocol put it in their words */
    struct deadline_limits deadlines;
    int64_t drain_timeout;   /* ms */
    int64_t connect_timeout; /* ms; 0: as long as the system tries */
    size_t output_high_mark;
    size_t output_low_mark;
    size_t output_cap;
    size_t send_buffer;
    struct network_list proxies; /* none: clients connect themselves */
    bool (*admits)(const struct network_list *proxies, const struct endpoint *peer);
    void (*arrive)(struct connection *connection); /* it comes through one of them */
    void (*reveal)(struct endpoint *peer, int fd); /* of such a connection: its client */
    size_t work_us;
    size_t block_ms;
    size_t cost_every;
    const char *cost_for; /* what a message that pays has in it; NULL: any does */
    enum log_level log_level;
    bool stats;
    const char *trace; /* the file to write a trace to; NULL: none */
};

/**
 * Adds the options that all stages have, and sets all settings to zero before: so it is called
 * before the functions below. port is the stage's default.
 */
void server_options(struct options *options, struct server_settings *settings, const char *port);

/** Adds --proxy-protocol, for servers whose clients may come through a proxy. */
void server_proxy_option(struct options *options, struct server_settings *settings);

/** Adds --connect-timeout, for servers whose applications may connect to others. */
void server_connect_option(struct options *options, struct server_settings *settings);

#endif
