/*
 * A server whose calls fail by a plan (tests/faults/shim.c), and visitors who find out what that
 * costs them.
 *
 * Rules:
 * - SERVER names a program that is linked with the shim.
 * - A visitor asserts that what it gets is right as far as it goes: the replies, byte for byte, or
 *   a beginning of them and then a close, or the busy line. Whether it was served or lost is for
 *   the test to judge.
 * - Every server is ended by fault_end(), which asserts an exit status, and which reads what the
 *   shim has counted.
 */
#ifndef TESTS_FAULT_RUN_H
#define TESTS_FAULT_RUN_H

#include "support/client.h"

/** What the shim wrote at the end of a run, and all that stood on standard error. */
struct fault_report {
    long calls;
    long injected;
    bool harmless; /**< what was injected is nothing that a connection may be lost for */
    char errors[65536];
};

/** FAULTS=all in the environment: every error of every call, and not only the first. */
bool faults_all(void);

/** What the next server is started with. NULL for the plan: none; counted from the start or not. */
void faults_plan(const char *plan, bool armed);

/** The same by chance, off at first: one call in so many. NULL for a list: all there are. */
void faults_chance(int one_in, unsigned long long seed, const char *names, const char *errors);

/** Turns counting and faults on or off, and waits until that is so. */
void faults_switch(const struct server_process *server);

/** Takes what the shim has written so far. */
void fault_look(const struct server_process *server, struct fault_report *report);

/** SIGTERM if `stop`, then the end: asserts the exit status, and fills in the report. */
void fault_end(struct server_process *server, bool stop, int exit_status,
               struct fault_report *report);

/** One who comes to be served. */
struct visitor {
    int fd;
    bool lost;
    const char *name;
    const char *how; /* it is lost */
};

struct visitor visitor_connect(const struct server_process *server, const char *name);

/** Sends data and expects the same, or what `expected` says. Nothing once it is lost. */
void visitor_exchange(struct visitor *visitor, const void *data, size_t length,
                      const void *expected, size_t expected_length);
void visitor_echo(struct visitor *visitor, const char *line);

/** Expects the end of the stream and nothing before it; a reset is a loss. */
void visitor_expect_end(struct visitor *visitor);

void visitor_leave(struct visitor *visitor);

/**
 * Somebody comes until one is served: the deadline is asserted. No fault is on. An executor that
 * could start no thread, twice in a row, turns everybody away for a tenth of a second.
 */
void expect_service(const struct server_process *server);

#endif
