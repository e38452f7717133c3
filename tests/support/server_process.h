/*
 * A server program under test: start it on a free port, read its ready line, ask it for its
 * counters, stop it, or run it to its end when it is meant to refuse its arguments.
 *
 * The program is named by the environment: SERVER is its path, SERVER_NAME the name it calls itself
 * by (the last part of SERVER if not set).
 *
 * Rules:
 * - Options are one printf-style string, split at spaces. `--port 0` is put in front of them, and
 *   SERVER_OPTIONS.
 * - Every server that was started is stopped by server_stop() at the end of the test body (a check
 * in a Criterion .fini cannot fail a test). It asserts exit status 0, so that what a sanitizer
 * finds at exit comes to light. A test that fails on the way leaves nothing behind: the child dies
 * with its parent.
 * - If RELAY is set, it is a program of stage 4 or 5, which stands as a relay between the clients
 * and each server that is started. RELAY_OPTIONS are further options for it.
 * - What the server writes to standard error goes to a memory file: it never blocks the server, and
 * it is shown when the server does not start or does not stop as it should.
 * - Main thread of the test only: these functions assert.
 */
#ifndef TESTS_SERVER_PROCESS_H
#define TESTS_SERVER_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HERE_TEXT_(line) #line
#define HERE_TEXT(line)  HERE_TEXT_(line)
/** The caller's file and line, put in front of every message of a failed helper. */
#define HERE __FILE__ ":" HERE_TEXT(__LINE__)

struct server_process {
    pid_t pid;
    int pidfd;
    int out;              /**< read end of the server's standard output */
    int err;              /**< memory file with the server's standard error */
    int family;           /**< AF_INET or AF_INET6 */
    int port;             /**< where it listens, from the ready line */
    char ready_line[256]; /**< first line of standard output, without its LF */
    pid_t relay;          /**< what clients connect to instead (RELAY); 0: nothing */
};

/** Limits for the program; 0 leaves one as it is. */
struct server_limits {
    size_t descriptors;   /**< RLIMIT_NOFILE */
    size_t address_space; /**< RLIMIT_AS in bytes; not under a sanitizer */
    int err;              /**< its standard error; 0: a file, which server_errors() reads */
};

/** How a program that ran to its end ended. */
struct program_result {
    bool started; /**< it began to serve (and was then killed) */
    bool late;    /**< it neither ended nor served in time (and was then killed) */
    int exit_status;
    char command[512]; /**< what was run, for messages */
    char out[16384];
    char err[16384];
};

/** The path of the program under test; asserts that SERVER is set. */
const char *server_program(void);

/** The name the program calls itself by. */
const char *server_name(void);

/** Starts the program and waits for its ready line. Asserts that it comes. */
#define server_start(...) server_start_at(HERE, (struct server_limits){0}, " " __VA_ARGS__)

/** Whether the server has an option: its --help lists it. */
bool server_has_option(const char *name);

/** The same with resource limits: server_start_limited((struct server_limits){...}, options, ...).
 */
#define server_start_limited(limits, ...) server_start_at(HERE, limits, " " __VA_ARGS__)

struct server_process server_start_at(const char *where, struct server_limits limits,
                                      const char *options, ...)
    __attribute__((format(printf, 3, 4)));

/**
 * Starts the program like server_start(), but lets it refuse: false if it ended, or said nothing
 * in time, instead of beginning to serve. What it is then, server_await_end() tells.
 */
bool server_try_start(struct server_process *server, const char *options, ...)
    __attribute__((format(printf, 2, 3)));

/** The process of the server that was started last, which may have ended; 0 before the first. */
pid_t server_latest(void);

/** SIGTERM, then exit status 0 within the deadline. */
#define server_stop(server) server_stop_at(HERE, server)
void server_stop_at(const char *where, struct server_process *server);

/** Exit status 0 within the deadline, of a server that was sent its signal already: a second one
 * kills. */
#define server_expect_exit(server) server_expect_exit_at(HERE, server)
void server_expect_exit_at(const char *where, struct server_process *server);

/**
 * Waits for the end of the server without asking for it.
 * Returns its wait status, or -1 if it still runs at @p end. Called again it returns the same
 * status.
 */
int server_await_end(struct server_process *server, double end);

/** Frees what the test holds of a server whose end was awaited. */
void server_forget(struct server_process *server);

void server_signal(const struct server_process *server, int signal);

/**
 * Copies what the server has written to standard error so far; always terminated. Where that is
 * more than there is room for: the last of it, from the beginning of a line on.
 */
void server_errors(const struct server_process *server, char *text, size_t size);

/**
 * Sends SIGUSR1 and returns the value of one counter of the stats line that comes, 0 if it is not
 * named there; asserts that the line comes. It may be one that an earlier SIGUSR1 asked for, and
 * whose numbers are a moment older.
 */
#define server_counter(server, name) server_counter_at(HERE, server, name)
long long server_counter_at(const char *where, const struct server_process *server,
                            const char *name);

/** Asks for the counter again and again until it is at least @p least; asserts that this happens.
 */
#define server_await_counter(server, name, least) server_await_counter_at(HERE, server, name, least)
void server_await_counter_at(const char *where, const struct server_process *server,
                             const char *name, long long least);

/**
 * The value of a counter in the last stats line of @p text, -1 if there is none.
 * @param lines receives the number of stats lines in the text; may be NULL
 */
long long stats_value(const char *text, const char *name, int *lines);

/** Asserts that the program does not serve this application, because that needs what stages 4 and 5
 * offer. */
void program_expect_lack(const char *application, const char *needs);

/**
 * Runs the program with these options only (no --port) until it ends, or serves, or the deadline.
 * Options of more than 511 bytes are cut there.
 */
struct program_result program_run(const char *options, ...) __attribute__((format(printf, 1, 2)));

#endif
