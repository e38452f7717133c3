/*
 * A TCP client for the tests: loopback only, a deadline on everything.
 *
 * A client is a plain non-blocking descriptor. The asserting functions name the caller's line, what
 * was sent or expected, and what came. They are for the main thread of a test; threads use the ones
 * that return what happened (client_try_...), and the main thread asserts after it has joined them.
 *
 * Rules:
 * - client_expect... take from the socket exactly what they expect, never more.
 * - A connection that the server ended with a reset is never taken for an orderly end of stream.
 */
#ifndef TESTS_CLIENT_H
#define TESTS_CLIENT_H

#include "server_process.h"
#include "with.h"

#include <stdbool.h>
#include <stddef.h>

/** How a wait for bytes went. */
enum client_outcome {
    CLIENT_GOT,   /**< as many bytes as asked for */
    CLIENT_ENDED, /**< end of stream before that */
    CLIENT_RESET, /**< the connection was reset, or failed in another way (errno) */
    CLIENT_LATE   /**< the deadline came first */
};

/**
 * Sizes in bytes asked for before connecting; 0 leaves one to the kernel.
 *
 * Loopback has segments of 64 KiB. A server with a smaller send buffer never fills one, so each of
 * its writes waits 40 ms for a delayed acknowledgement; with segments of an Ethernet's size it does
 * not.
 */
struct client_buffers {
    int receive; /**< SO_RCVBUF */
    int send;    /**< SO_SNDBUF */
    int segment; /**< TCP_MAXSEG */
    int source;  /**< the client's address is 127.0.0.SOURCE, not 127.0.0.1: more ports in all */
};

enum { CLIENT_ETHERNET_SEGMENT = 1448 };

/* ---- connecting ---- */

/** Connects; asserts that it works. */
#define client_connect(server) client_connect_at(HERE, server, (struct client_buffers){0})

/** Connects with chosen sizes: client_connect_with(server, (struct client_buffers){...}).
 */
#define client_connect_with(server, ...) client_connect_at(HERE, server, __VA_ARGS__)
int client_connect_at(const char *where, const struct server_process *server,
                      struct client_buffers buffers);

/** Connects and sends that; the reply may come. */
#define client_connect_send(server, text) client_connect_send_at(HERE, server, text)
int client_connect_send_at(const char *where, const struct server_process *server,
                           const char *text);

/** Connects, sends a line and expects it back: a client that is served. */
#define client_connect_echo(server, line) client_connect_echo_at(HERE, server, line)
int client_connect_echo_at(const char *where, const struct server_process *server,
                           const char *line);

/** Connects or returns -1 with errno. Any thread. */
int client_try_connect(const struct server_process *server, struct client_buffers buffers);

/** Waits until the server refuses connections (it has stopped listening); asserts that it does. */
#define client_await_refusal(server) client_await_refusal_at(HERE, server)
void client_await_refusal_at(const char *where, const struct server_process *server);

/* ---- sending ---- */

#define client_send(fd, data, length) client_send_at(HERE, fd, data, length)
void client_send_at(const char *where, int fd, const void *data, size_t length);

#define client_send_text(fd, text) client_send_text_at(HERE, fd, text)
void client_send_text_at(const char *where, int fd, const char *text);

/** Sends all or stops at an error or the deadline. Returns how much was sent. Any thread. */
size_t client_try_send(int fd, const void *data, size_t length, double end);

/**
 * Sends @p data over and over and reads nothing, until the server has taken nothing for @p
 * quiet_ms, the connection failed, or @p most bytes are out. A server (the latest) that waits for a
 * processor all that time has longer.
 * @return how many bytes were sent
 */
size_t client_push(int fd, const void *data, size_t length, size_t most, int quiet_ms);

/** Waits until the server's system has got all that was sent (the server need not have read it). */
#define client_await_delivered(fd) client_await_delivered_at(HERE, fd)
void client_await_delivered_at(const char *where, int fd);

/** No more will be sent: the server sees end of stream, the client still reads. */
void client_half_close(int fd);

/** Closes so that the peer sees a reset. */
void client_reset(int fd);

void client_close(int fd);

/** Closes all connections that the test has to the server. */
void server_drop_clients(const struct server_process *server);

/** The end of most tests: closes all connections that it has to the server, and stops that. Does
 * nothing if the server has been stopped. */
#define server_close_all(server) server_close_all_at(HERE, server)
void server_close_all_at(const char *where, struct server_process *server);

/* ---- several clients ---- */

/** Lets this process, and servers that it starts, have as many descriptors as it may; how many. */
long descriptors_raise(void);

/** Connects so many; if there is a line, each sends it and expects it back. */
#define clients_connect(server, fds, count, line)                                                  \
    clients_connect_at(HERE, server, fds, (int)(count), line)
void clients_connect_at(const char *where, const struct server_process *server, int fds[],
                        int count, const char *line);

/** Each sends a line and expects it back, before the next one does. */
#define clients_echo(fds, count, line) clients_echo_at(HERE, fds, (int)(count), line)
void clients_echo_at(const char *where, const int fds[], int count, const char *line);

#define clients_send_text(fds, count, text) clients_send_text_at(HERE, fds, (int)(count), text)
void clients_send_text_at(const char *where, const int fds[], int count, const char *text);

#define clients_expect_text(fds, count, text) clients_expect_text_at(HERE, fds, (int)(count), text)
void clients_expect_text_at(const char *where, const int fds[], int count, const char *text);

void clients_close(const int fds[], int count);

/* ---- tests with a server ---- */

/** A test whose body has `server`, a pointer, which was started with these options: see with.h. */
#define ServerTest(suite, name, ...)                                                               \
    TestWith(suite, name, struct server_process, server, *server = server_start(__VA_ARGS__),      \
             server_close_all(server))

/** The same with `client`, who is connected to the server. */
#define ClientTest(suite, name, ...)                                                               \
    static void suite##_##name##_of(struct server_process *server, int client);                    \
    ServerTest(suite, name, __VA_ARGS__)                                                           \
    {                                                                                              \
        suite##_##name##_of(server, client_connect(server));                                       \
    }                                                                                              \
    static void suite##_##name##_of(struct server_process *server __attribute__((unused)),         \
                                    int client)

/* ---- receiving ---- */

#define client_expect(fd, data, length) client_expect_at(HERE, fd, data, length)
void client_expect_at(const char *where, int fd, const void *expected, size_t length);

#define client_expect_text(fd, text) client_expect_text_at(HERE, fd, text)
void client_expect_text_at(const char *where, int fd, const char *expected);

/** Expects an orderly end of stream and not one byte before it. */
#define client_expect_end(fd) client_expect_end_at(HERE, fd)
void client_expect_end_at(const char *where, int fd);

/** Expects that the connection ends, orderly or by reset, without one byte before that. */
#define client_expect_gone(fd) client_expect_gone_at(HERE, fd)
void client_expect_gone_at(const char *where, int fd);

/** Waits for the first byte of a reply and leaves it where it is. */
#define client_await_reply(fd) client_await_reply_at(HERE, fd)
void client_await_reply_at(const char *where, int fd);

/** Expects nothing, neither bytes nor an end, for so long. Keep it short. */
#define client_expect_silence(fd, milliseconds) client_expect_silence_at(HERE, fd, milliseconds)
void client_expect_silence_at(const char *where, int fd, int milliseconds);

/** Sends a text and expects that answer. */
#define client_ask(fd, text, answer) client_ask_at(HERE, fd, text, answer)
void client_ask_at(const char *where, int fd, const char *text, const char *answer);

/** What one end sends comes to the other one, through a relay. */
#define client_pass(from, to, text) client_pass_at(HERE, from, to, text)
void client_pass_at(const char *where, int from, int to, const char *text);

/** Sends a line and expects it back. */
#define client_echo(fd, line) client_echo_at(HERE, fd, line)
void client_echo_at(const char *where, int fd, const char *line);

/** Sends @p data while it expects @p expected, so that neither side's buffers fill up. */
#define client_exchange(fd, data, length, expected, expected_length)                               \
    client_exchange_at(HERE, fd, data, length, expected, expected_length)
void client_exchange_at(const char *where, int fd, const void *data, size_t length,
                        const void *expected, size_t expected_length);

/** Takes @p length bytes, or fewer and says why. @param got receives how many. Any thread. */
enum client_outcome client_try_receive(int fd, void *data, size_t length, double end, size_t *got);

/** Sends a line and waits for the same line. True if it came whole and right in time. Any thread.
 */
bool client_try_echo(int fd, const char *line, double end);

const char *client_outcome_text(enum client_outcome outcome);

/* ---- what to send ---- */

/** @return @p count lines "PREFIX 000000\n", "PREFIX 000001\n", ...; free() it. @param length its
 * size */
char *lines_numbered(const char *prefix, int count, size_t *length);

/** @return one line of @p content letters and @p ending; free() it. @param length its size */
char *line_of(size_t content, const char *ending, size_t *length);

#endif
