/*
 * A handler serves one connection, a completion at a time. It asks for the next bytes before they
 * have come, and for output to be sent before there is room.
 *
 * Interface:
 * - handler_close() frees it, as soon as the kernel has given back what it works with. What may
 *   close must be the last that a function does.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/bytes/output_parts.h"
#include "common/server/connection.h"
#include "proactor.h"

struct handler {
    struct operation receive;
    struct operation send;
    struct operation turn; /* another run, now or when the socket has room */
    struct proactor *proactor;
    struct timer timer;  /* when to look at its clocks if nothing completes before */
    bool stalled;        /* nothing is sent before the next turn */
    bool rests;          /* turn waits for the loss of the connection */
    bool closing;        /* it is freed when nothing is pending */
    unsigned char *lent; /* what a send reads; the kernel's while it is pending */
    struct output_gate gate;
    struct connection connection;
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** Makes a handler, which owns fd. False without memory: fd stays the caller's. */
bool handler_create(struct proactor *proactor, int fd) NO_LOCK_HELD;

/** Ends the connection: what waits is dropped, what is pending is cancelled. */
void handler_close(struct handler *handler) NO_LOCK_HELD;

/** Its timer has fired: a clock may have run out, or the server stops. */
void handler_expire(struct handler *handler) NO_LOCK_HELD;

/** Whose timer that is. */
struct handler *handler_of_timer(struct timer *timer);

#endif
