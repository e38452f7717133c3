/*
 * A POP3 client for the tests, on top of support/client.h: it reads answers by lines.
 *
 * Rules:
 * - Every line has to end with CR LF; one that does not is a failure.
 * - Of an answer only what RFC 1939 lays down is looked at: +OK or -ERR, the numbers, the lists.
 * The words behind are the server's affair.
 * - Main thread of the test only: these functions assert.
 */
#ifndef TESTS_POP3_CLIENT_H
#define TESTS_POP3_CLIENT_H

#include "mailboxes.h"
#include "support/client.h"

enum { POP3_LINE_SIZE = 1024 };

/** The next line without its end; good until the next call. */
#define pop3_line(fd) pop3_line_at(HERE, fd)
const char *pop3_line_at(const char *where, int fd);

/** Connects, and takes the greeting. */
#define pop3_connect(server) pop3_connect_at(HERE, server)
int pop3_connect_at(const char *where, const struct server_process *server);

/** The same from 127.0.0.SOURCE: wrong passwords from one address count for no other. */
#define pop3_connect_from(server, source) pop3_connect_from_at(HERE, server, source)
int pop3_connect_from_at(const char *where, const struct server_process *server, int source);

/** Connects and logs in with the password of all. */
#define pop3_login(server, user) pop3_login_at(HERE, server, user)
int pop3_login_at(const char *where, const struct server_process *server, const char *user);

/** Sends a command, gets one line, and returns it; good until the next call. */
#define pop3_ask(fd, command) pop3_ask_at(HERE, fd, command)
const char *pop3_ask_at(const char *where, int fd, const char *command);

/** As pop3_ask(): expects +OK, and returns what follows, from the first word on. */
#define pop3_ok(fd, command) pop3_ok_at(HERE, fd, command)
const char *pop3_ok_at(const char *where, int fd, const char *command);

/** As pop3_ask(): expects -ERR, and returns what follows. */
#define pop3_error(fd, command) pop3_error_at(HERE, fd, command)
const char *pop3_error_at(const char *where, int fd, const char *command);

/** Takes the lines of a long answer, its first line and its final dot not included. Each comes as
 * it was sent, dots and line ends too; free() it. @param length its size */
#define pop3_lines(fd, length) pop3_lines_at(HERE, fd, length)
char *pop3_lines_at(const char *where, int fd, size_t *length);

/** Sends a command, expects +OK, and then exactly these lines before the final dot. */
#define pop3_expect_lines(fd, command, lines) pop3_expect_lines_at(HERE, fd, command, lines)
void pop3_expect_lines_at(const char *where, int fd, const char *command, const char *lines);

/** QUIT, +OK, end of stream. */
#define pop3_quit(fd) pop3_quit_at(HERE, fd)
void pop3_quit_at(const char *where, int fd);

#endif
