/*
 * An element that a program can put before its application: the options that ask for it, and what
 * it becomes then. A program's main.c has a table of those that it offers, and links no others.
 *
 * Interface:
 * - The options come before options_parse(), `over` after it and before there is a connection.
 */
#ifndef COMMON_CHAIN_SERVICE_H
#define COMMON_CHAIN_SERVICE_H

#include "common/server/input_handler.h"

struct options;
struct server;

struct chain_service {
    /** Adds its options. Their targets are static variables of its own. */
    void (*options)(struct options *options);

    /**
     * The factory of its elements before the handlers of `inner`, if the options ask for them; or
     * `inner` itself. It lives as long as the program. NULL: it cannot, and the log says why.
     */
    struct input_handler_factory *(*over)(struct input_handler_factory *inner,
                                          struct server *server);
};

/** --suspicious and --throttle: throttle_element.h. */
extern const struct chain_service throttle_service;

/** --log-traffic: log_element.h. */
extern const struct chain_service log_service;

/** --cipher and --cipher-to: cipher/cipher_element.h. */
extern const struct chain_service cipher_service;

#endif
