/*
 * A server that a test plays itself, for a server of ours to connect to: a socket that listens, and
 * one descriptor for each connection, which all of client.h works on.
 */
#ifndef TESTS_BACKEND_H
#define TESTS_BACKEND_H

#include "client.h"

#include <netinet/in.h>

struct backend {
    int listening;
    int port;
};

/** Listens on a free port, with room for so many that are not accepted yet. */
struct backend backend_open(int backlog);

/** The next connection; asserts that there is one. */
#define backend_accept(backend) backend_accept_at(HERE, backend)
int backend_accept_at(const char *where, const struct backend *backend);

/** Asserts that nobody connects for so long. Keep it short. */
void backend_expect_nobody(const struct backend *backend, int milliseconds);

/** Stops listening: who connects is refused. */
void backend_close(struct backend *backend);

/** Fills the backlog, so that a connect is neither answered nor refused; the descriptors. */
enum { BACKEND_FILL = 4 };
void backend_fill(const struct backend *backend, int fds[BACKEND_FILL]);

/**
 * A port where nobody listens, and that nobody else is given while the test's process lives. A
 * program that sets SO_REUSEADDR, as servers do, can listen there.
 */
int backend_nobody(void);

#endif
