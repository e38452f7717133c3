/*
 * What a thread that is not main asks a server's watch: an application that passes the numbers on.
 */
#ifndef COMMON_WATCH_ASK_H
#define COMMON_WATCH_ASK_H

#include "common/server/watch.h"

/**
 * Has each loop count what its connections hold, at its next round: an answer that
 * watch_tell_gauges() has a moment later, if the loop is not held up. Waits for nobody, so a
 * handler may call it, in the loop's own thread too. Any thread that ends before the server is
 * closed.
 */
void watch_ask(struct server *server);

/**
 * watch_gauges() of the server's watch, without asking the loops, for a thread that may outlive
 * that. False: the server has none, or not yet, or not any more. Any thread that ends before the
 * server is closed.
 */
bool watch_tell_gauges(struct server *server, watch_gauge *gauge, void *context);

/** The same for the counters that each loop keeps up to date. */
bool watch_tell_counters(struct server *server, watch_gauge *counter, void *context);

#endif
