/*
 * Pairs that all lead to one server, which a user names: what a proxy in front of one server needs
 * beside its `pass`.
 *
 * Interface:
 * - An application has one pair_upstream. Its `start` returns what pair_upstream_start() does, its
 *   `options` calls pair_upstream_option(), its handler_size is that of a struct that begins with
 *   an upstream_pair, and its pair_verbs have the two functions below.
 * - The name is looked up once, at the start. For each client its addresses are tried in their
 *   order, each for --connect-timeout; if none answers, the client's connection is closed.
 */
#ifndef COMMON_PAIR_UPSTREAM_H
#define COMMON_PAIR_UPSTREAM_H

#include "common/apps/pair.h"
#include "common/base/options.h"
#include "common/server/host_port.h"

struct pair_upstream {
    struct pairing pairing; /* first; its verbs are the application's */
    const char *option;     /* "--upstream" */
    const char *help;

    const char *chosen; /* NULL: none */
    struct host_port_addresses addresses;
};

struct upstream_pair {
    struct pair pair; /* first */
    size_t tried;     /* so many addresses */
};

/** Adds the option. In the application's `options`. */
void pair_upstream_option(struct options *options, struct pair_upstream *upstream);

/** Finds the server's addresses. NULL: none was given, or found, and the reason was printed. */
void *pair_upstream_start(struct pair_upstream *upstream, struct server *server);

/** A `began`, and a `not_connected`. */
void pair_upstream_began(struct pair *pair) NO_LOCK_HELD;
void pair_upstream_not_connected(struct pair *pair, int error) NO_LOCK_HELD;

#endif
