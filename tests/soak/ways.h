/*
 * Ways for a client to come and go, good and bad, and threads full of such clients.
 *
 * Every way checks what it gets: the replies byte for byte, an end where one is due. What is wrong
 * is written down once, in words, and ends the crowd; the test's main thread asserts that nothing
 * was. Which way is taken next, and with what, follows from a seed.
 *
 * SOAK_CONNECTIONS, SOAK_IDLE and SOAK_SECONDS in the environment make a short test a long one
 * (make soak).
 */
#ifndef TESTS_WAYS_H
#define TESTS_WAYS_H

#include "support/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

enum {
    WAYS_THREADS_MOST = 64,
    WAYS_TEXT = 1 << 16, /* bytes that a client sends at a time, at most */
    WAYS_PATIENCE_S = 1, /* less than any timeout of the server, by far */
};

/** What all threads of a crowd share. */
struct crowd {
    const struct server_process *server;
    size_t max_line;    /* of the server */
    long most;          /* connections to make; then the crowd goes */
    bool fast;          /* only ways that wait for nothing but the server's reply */
    atomic_bool over;   /* time to go */
    atomic_bool failed; /* somebody has written why to `failure` */
    atomic_long connections;
    atomic_llong bytes; /* that came back as they should */
    atomic_int worst_ms;
    char failure[512];
    int thread_count;
    struct member {
        struct crowd *crowd;
        pthread_t thread;
        uint64_t random;
        int source;
        char *sent;
        char *received;
    } members[WAYS_THREADS_MOST];
};

/** The number in the environment, or the standard one. */
long soak_number(const char *name, long standard);

/** Sends so many threads out. */
void crowd_start(struct crowd *crowd, int threads, uint64_t seed);

/** Has all of them come back. Asserts that none has found anything wrong. */
void crowd_end(struct crowd *crowd);

/** Waits until they have made all their connections, or one has found something, or `end`. */
void crowd_await(struct crowd *crowd, double end);

/** What the server says at its start of its memory, with --log info, in bytes: "bytes" that it may
 * need in all, or "each" client. */
long long soak_bound(const struct server_process *server, const char *name);

#endif
