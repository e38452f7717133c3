/*
 * Many clients at once, driven by one thread: each sends its own lines and checks every byte that
 * comes back.
 */
#ifndef TESTS_STAGE3_CROWD_H
#define TESTS_STAGE3_CROWD_H

#include "support/client.h"

struct crowd_member {
    int fd;
    char *data; /**< what it sends, and expects back */
    size_t length;
    size_t sent;
    size_t received;
};

struct crowd {
    struct crowd_member *members;
    int count;
};

/**
 * Connects them. Each has lines of 8 to @p longest bytes, its own number and the line's in each,
 * at least @p bytes in all.
 */
#define crowd_open(server, count, longest, bytes)                                                  \
    crowd_open_at(HERE, server, count, longest, bytes, (struct client_buffers){0})

/** The same with chosen buffer sizes: crowd_open_with(..., (struct client_buffers){...}). */
#define crowd_open_with(server, count, longest, bytes, ...)                                        \
    crowd_open_at(HERE, server, count, longest, bytes, __VA_ARGS__)
struct crowd crowd_open_at(const char *where, const struct server_process *server, int count,
                           size_t longest, size_t bytes, struct client_buffers buffers);

/** Has each send all its lines as fast as it can, and asserts that they all come back, each to its
 * sender. */
#define crowd_exchange(crowd) crowd_exchange_at(HERE, crowd)
void crowd_exchange_at(const char *where, struct crowd *crowd);

/**
 * A line each, again and again: sends one, waits for it to come back, sends the next, all clients
 * at once. Asserts that all @p rounds of each come to their end.
 */
#define crowd_ping(server, count, rounds) crowd_ping_at(HERE, server, count, rounds)
void crowd_ping_at(const char *where, const struct server_process *server, int count, int rounds);

void crowd_close(struct crowd *crowd);

#endif
