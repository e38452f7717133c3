/*
 * A handler serves one connection, an event at a time (Lea, "Reactor 4: Handler setup" and "Reactor
 * 5: Request handling"). No call may block: how far the connection is, a thread of stage 1 kept on
 * its stack, and here the connection keeps it (connection.h).
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/events/selector.h"
#include "common/server/connection.h"
#include "reactor.h"

struct handler {
    struct selection_key key;
    struct list_link again; /* in the reactor's list while it goes on without an event */
    struct connection connection;
    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** Makes and registers a handler, which owns fd. False without memory: fd stays the caller's. */
bool handler_create(struct reactor *reactor, int fd) NO_LOCK_HELD;

/** Gives each handler in the reactor's list `again` another turn. */
void handler_take_turns(struct list_link *list) NO_LOCK_HELD;

#endif
