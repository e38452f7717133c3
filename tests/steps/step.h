/*
 * What the tests of the steps share: see tests/steps.sh for how they are run.
 *
 * A step's tests are run twice: they pass on its program, and each fails on the program of the step
 * before. There it has to fail for the reason that the step's page gives, and not because something
 * else went wrong; so the assertion that is the lesson is a verdict(), and only a test that fails
 * by one counts. A test whose name begins with keeps_ passes on both; one that begins with holds_
 * fails there only by chance, if at all. These are for mistakes that people make on their way from
 * one to the other.
 */
#ifndef TESTS_STEPS_STEP_H
#define TESTS_STEPS_STEP_H

#include "support/client.h"

#include <criterion/criterion.h>

/** An assertion that is what a step is about. */
#define verdict(condition, ...) cr_assert((condition), "verdict: " __VA_ARGS__)

/** The program, with as many descriptors as it may have; 0 leaves them. */
struct server_process step_start(size_t descriptors);

/** The program with options. A bare one gets none: its port is free only if it is told nothing
 * else. */
struct server_process step_start_with(const char *options);

/** Whether the program is a step that has no options but --port: ours, or a lab that STEP_GRADED
 * names. */
bool step_is_bare(void);

/** Whether the program is a step of the core before C.number, which does not have that one's
 * option. */
bool step_is_core_before(int number);

/** Whether we know which step the program is. */
bool step_is_known(void);

/**
 * Closes all clients and ends the program. Bare steps are ended by SIGTERM itself, a stage exits
 * with 0. That it is gone already, or ends in another way, is a verdict.
 */
void step_stop(struct server_process *server);

/** The same for a program that was sent SIGTERM already. */
void step_stop_told(struct server_process *server);

/** Fails with a verdict if the program has ended; its standard error is part of the message. */
void step_expect_alive(struct server_process *server);

/** Keeps the program from running until step_thaw(), so that several things happen to it at once.
 */
void step_freeze(const struct server_process *server);
void step_thaw(const struct server_process *server);

/** The body of a test: that twenty silent clients cost no thread is a verdict. */
void step_expect_one_thread(void);

/**
 * How long a test waits, in milliseconds, before it gives the verdict that something does not
 * happen. STEP_PATIENCE_MS makes that shorter where the verdict is expected.
 */
int step_patience_ms(void);

/** The moment at which that time is over, from now: for what wants a test_now() time. */
double step_patience(void);

/** Has all threads of the program, those that it starts later too, share one processor. */
void step_pin(const struct server_process *server);

/**
 * The body of a test: clients send a line each, all get an answer, and that so many times. That one
 * gets none is a verdict.
 */
void step_expect_rounds(const char *options, int clients, int rounds, const char *line,
                        bool pinned);

/** Sends a line and takes the answer: false if it does not come within step_patience_ms(). */
bool step_answers(int client, const char *line);

/**
 * Takes @p length bytes, however long all of them take: fewer if none comes for step_patience_ms(),
 * or no more can. How many.
 */
size_t step_receive(int client, char *data, size_t length);

/** A client that has had an answer already. */
int step_client(const struct server_process *server);

/** Sends a line; returns when the server's system has it, and without waiting for the answer. */
void step_ask(int client, const char *question);

/** Waits until the server has read all that the client has sent. */
void step_await_read(const struct server_process *server, int client);

/**
 * Waits until the program is done with those whom it has accepted and who have left: it holds
 * @p most descriptors again, or all its threads sleep, or it has ended. For step_patience() at
 * most.
 */
void step_await_done(struct server_process *server, long most);

/** Whether bytes of an answer have arrived that the client has not taken yet. */
bool step_has_answer(int client);

#endif
