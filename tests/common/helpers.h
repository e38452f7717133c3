/*
 * What the unit tests of common/ share: repeatable randomness, pairs of sockets, text that was
 * printed, and a heap with nothing left in it.
 *
 * Rules:
 * - Randomness comes from a fixed seed, so a failure repeats; assertions name the seed and step.
 * - Nothing here asserts from any thread but the test's own.
 */
#ifndef TESTS_COMMON_HELPERS_H
#define TESTS_COMMON_HELPERS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- randomness ---- */

struct rng {
    uint64_t state;
};

struct rng rng_from(uint64_t seed);

/** From 0 up to, not including, bound. */
size_t rng_below(struct rng *rng, size_t bound);

/** From least to most. */
size_t rng_between(struct rng *rng, size_t least, size_t most);

/** Fills with bytes that differ from place to place, and from seed to seed. */
void fill_pattern(unsigned char *data, size_t length, uint64_t seed);

/* ---- sockets ---- */

/** A connected pair of stream sockets, both ends non-blocking. */
void pair_open(int ends[2]);

/** The same with the smallest buffers the system gives. */
void pair_open_small(int ends[2]);

void pair_close(const int ends[2]);

/** Writes all, which must fit. */
void put(int fd, const void *data, size_t length);

/** Reads what is there now, at most size bytes; how many. */
size_t take_now(int fd, void *data, size_t size);

/** Writes until the socket takes no more; how many bytes it took. */
size_t fill_up(int fd);

/** A TCP socket that listens on loopback; address becomes where. */
int tcp_listen(struct sockaddr_in *address);

/** A client that has connected there, non-blocking. */
int tcp_connect(const struct sockaddr_in *address);

/** Two ends of a TCP connection over loopback, both non-blocking. */
void tcp_pair_open(int ends[2]);

/** Closes so that the peer sees a reset. */
void close_with_reset(int fd);

/* ---- printed text ---- */

/** What goes to one of the standard descriptors, from start to stop. */
struct capture {
    int fd;
    int saved;
    FILE *file;
};

void capture_start(struct capture *capture, int fd);

/** The text so far goes to text, cut at size; the descriptor is what it was before. */
void capture_stop(struct capture *capture, char *text, size_t size);

/** What the statement prints to that descriptor goes to text, an array. */
#define CAPTURED(descriptor, text, statement)                                                      \
    do {                                                                                           \
        struct capture captured;                                                                   \
        capture_start(&captured, descriptor);                                                      \
        statement;                                                                                 \
        capture_stop(&captured, text, sizeof(text));                                               \
    } while (0)

/* ---- limits ---- */

/** Whether a limit set by setrlimit(2) is kept by the system: valgrind answers that call itself. */
bool limits_are_real(void);

/** Whether the tests may take all memory: not under a sanitizer or valgrind, which need some
 * themselves. */
bool memory_can_run_out(void);

/** From now on malloc() returns NULL for all sizes from 24 bytes on. No assertion before
 * memory_give_back(). */
void memory_take_all(void);

void memory_give_back(void);

#endif
