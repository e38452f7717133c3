/*
 * A handler that writes down what it hears, and a server that a connection can be tested with
 * alone: no listener, no thread, no selector.
 *
 * A message is a line of at most 100 bytes, and is echoed.
 */
#ifndef TESTS_NOTING_H
#define TESTS_NOTING_H

#include "common/server/input_handler.h"
#include "common/server/server.h"

struct noting {
    struct input_handler handler; /* first */
    char calls[200];              /* their names, with blanks between them */
    char peer[ENDPOINT_TEXT_SIZE];
    int error; /* of not_connected */
};

/** All that it can hear. A test that wants less copies them and takes some out. */
extern const struct input_handler_verbs noting_verbs;

/**
 * As much of a server as a connection needs, in memory that is all zero: lines of 100 bytes, and
 * that cap for output, with the marks below it. buffer_factory_destroy() ends it.
 */
void bare_server_init(struct server *server, size_t cap);

/** The same, behind a proxy and with a small cap. */
void noting_server_init(struct server *server);

#endif
