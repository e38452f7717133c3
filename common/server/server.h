/*
 * What every stage's server has, whatever its threads do: settings, a listener, signals, a log,
 * counters, buffers, and the service itself.
 *
 * Interface:
 * - main() owns the one struct server; it outlives every thread and every connection.
 * - The listener and the signals belong to the thread that accepts; the rest is safe from any.
 */
#ifndef COMMON_SERVER_H
#define COMMON_SERVER_H

#include "common/base/clock.h"
#include "common/base/counters.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/bytes/buffer_factory.h"
#include "common/bytes/output_chain.h"
#include "common/server/server_options.h"
#include "common/server/service.h"
#include "common/server/sockets.h"

struct burst;
struct channel_facade_verbs;
struct channel_hold;
struct connection;
struct connection_part;
struct executor;
struct input_handler_verbs;
struct server;
struct strand_host;

/**
 * What a loop's connections need so that others than their own handlers may send to them, in any
 * thread: connection_shared.c.
 */
struct connection_sharing {
    const struct channel_facade_verbs
        *verbs; /* of their facades: they see to it that a run follows */
    void (*lock_output)(const struct connection *connection);
    void (*unlock_output)(const struct connection *connection);
    /** Output that a run had held back was released, with that result: the stage may have to know.
     */
    void (*released)(struct connection *connection, enum output_result result);
    void (*flush_old)(struct burst *burst); /* between two messages of its run: burst_flush_old() */
};

/**
 * What the connections of one loop share; each connection knows where it is. It stays as it is
 * while there are connections, so any thread may read it.
 */
struct connection_home {
    struct server *server;
    struct counters *counters; /* the server's; in stage 5 each dispatcher has its own */
    struct output_settings output;
    const struct connection_sharing *sharing; /* NULL: only its own handler sends to one */
    /**
     * Where it is not shared: another thread has told a handler to go on (channel_go_on()), so a
     * run has to follow. Any thread, with any lock; it must not block. NULL: no other thread does.
     */
    void (*wake)(struct connection *connection, struct channel_hold *hold);
};

enum {
    /** How many parts there are of a connection that not every program has. */
    SERVER_PARTS = 6,

    /** How long a client that was told of its error may take to read it; ms. */
    SERVER_LINGER_MS = 2000,

    /** A client that has sent nothing for so long, and has got all, need not linger at a stop; one
     * that sends no more lingers for so long; ms. */
    SERVER_QUIET_MS = 200,

    /** From its accept on, a client has so long to say its first message, even at a stop; ms. */
    SERVER_GRACE_MS = 1000,

    /** From one look of the observer to the next; ms. */
    SERVER_LOOK_MS = 1000,

    /** After the system ran out of something, accept again this much later; ms. */
    SERVER_BACK_OFF_MS = 100,
};

/** Looks after a server that runs (watch.h). */
struct server_observer {
    /** Looks round, if it is time to; when to call this again. ms of clock_ms(). */
    int64_t (*look)(struct server_observer *observer, int64_t now);
    /** Prints what it knows to standard error. */
    void (*report)(struct server_observer *observer);
};

struct server {
    const char *name;
    struct server_settings settings;
    struct deadline_limits outgoing; /* of connections that we have asked for; server_open() */
    struct listener listener;
    struct signals signals;
    struct log log;
    struct log_limit memory_limit;
    struct log_limit proxy_limit;
    struct counters counters;
    struct own_counter *own_counters;          /* of the application */
    const struct application *opening;         /* whose `start` or `open` is running; NULL: none */
    struct input_handler_verbs *opening_verbs; /* the copy of its verbs, which may be filled in */
    struct buffer_factory buffers;
    struct segment_cache cache; /* of the thread that opened the server */
    struct connection_home home;
    struct service service;
    _Atomic(const struct connection_part *) parts[SERVER_PARTS]; /* in use: connection_parts.h */
    struct server_observer *observer;                            /* NULL: none */
    struct strand_host
        *strands; /* runs those of the application (strand.h); NULL: the stage runs none */
    struct executor *helpers;  /* run the tasks of handlers; NULL: whoever begins one does */
    _Atomic int64_t drain_end; /* of the stop; 0: nobody has asked yet */
};

/** What a client is told when no worker takes its message. */
extern const struct message server_busy_text;

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
 * A client's connection ends because there is no memory for what has come: counts it there, and
 * tells of it in the log, not for every client. Any thread; errno stays.
 */
void server_no_memory(struct server *server, struct counters *counters,
                      const struct endpoint *client, int fd);

/**
 * Has the tasks of handlers run by helpers, which outlive every connection. Before the first one;
 * without it the thread that begins a task runs it.
 */
void server_use_helpers(struct server *server, struct executor *helpers);

/** What an operator has asked for with SIGUSR1: gauges, if there is an observer, and counters. */
void server_report(struct server *server);

/**
 * Has the observer look round, if it is time to, and says when to call this again; INT64_MAX:
 * never, there is none. In ms of clock_ms(). The thread that takes signals.
 */
static inline int64_t server_look(struct server *server, int64_t now)
{
    return server->observer != NULL ? server->observer->look(server->observer, now) : INT64_MAX;
}

/** The same for a thread that is about to sleep: for how long it may, in ms; -1: for ever. */
static inline int server_look_timeout(struct server *server)
{
    if (server->observer == NULL)
        return -1;
    int64_t now = clock_ms();
    return (int)(server_look(server, now) - now);
}

/**
 * When a stop cuts off what is left: the drain timeout after this was first asked, when the stop
 * began. So its parts share that time, and do not add it up. ms of clock_ms(). Any thread.
 */
int64_t server_drain_end(struct server *server);

/**
 * Prints the counters and writes the trace if that was asked for, and frees all. No other thread
 * runs any more.
 */
void server_close(struct server *server);

#endif
