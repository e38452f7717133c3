/*
 * A handler serves one connection, from its first byte to its last, in a thread of its own.
 *
 * Lea, "Classic ServerSocket Loop": read, process, write, with calls that block. The connection is
 * the same as in the later stages (connection.h). Its socket is a blocking one: send waits for
 * room, and recv for the next line. But a client that is quiet for a moment is waited for in
 * poll(2), because recv looks at no deadline, and does not hear that the server stops.
 *
 * Interface:
 * - While handler_run() runs, its thread is the connection's runner; others may only ask
 *   (connection_ask()) and call shutdown(2) on its socket.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/base/wakeup.h"
#include "common/server/connection.h"

struct handler_threads;

struct handler {
    struct connection connection;
    struct handler_threads *threads;
    bool has_timeout;         /* its sends have a time limit */
    bool has_patience;        /* its reads have one */
    bool is_quiet;            /* it has sent nothing for RECEIVE_MS, so its thread sleeps in poll */
    bool knows_stop;          /* its last run has heard that the server stops */
    int64_t deadline;         /* when its last wait had to end; INT64_MAX: never */
    struct wakeup wakeup;     /* out of its sleep, while the application's handler holds messages */
    struct handler *previous; /* all handlers there are; see handler_threads.h */
    struct handler *next;
    struct handler *next_waiting;            /* those that no thread serves yet */
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** Makes a handler, which owns fd from now on. NULL without memory; fd stays the caller's then. */
struct handler *handler_create(struct handler_threads *threads, int fd) NO_LOCK_HELD;

/** Frees the handler. Returns its descriptor, which is the caller's again. */
int handler_release(struct handler *handler) NO_LOCK_HELD;

/** Another thread has told a connection's handler to go on: wakes its thread. Any thread. */
void handler_wake(struct connection *connection, struct channel_hold *hold);

/** Serves the connection until it ends, one way or the other. The handler's own thread. */
void handler_run(struct handler *handler) NO_LOCK_HELD;

#endif
