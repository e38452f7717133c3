/*
 * The ring: requests that the kernel carries out, and their completions (io_uring(7)). It stands
 * where the reactor has its selector, and is made of three system calls and shared memory.
 *
 * A selector says that a read would not wait now. A ring says that a read is done, and the bytes
 * are there (POSA2's Asynchronous Operation Processor and Completion Event Queue).
 *
 * Interface:
 * - One thread at a time, the one that has opened it.
 * - A request begins when ring_wait() hands it to the kernel. From then until its completion has
 *   been taken, the operation, and the memory that the request names, belong to the kernel: they
 *   stay where they are. A request that nobody needs any more is cancelled, and completes then.
 * - The bytes of a receive lie in a buffer that the kernel has chosen at the last moment. Give it
 *   back when they have been used.
 */
#ifndef RING_H
#define RING_H

#include <linux/io_uring.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct operation;

/** How a request has ended. */
struct completion {
    struct operation *operation;
    int result; /* what the system call would have returned, or a negative errno */
    int buffer; /* the number of the buffer that a receive has filled; -1: none */
};

/** What a request is for, a member of its owner: what to run when it is done. */
struct operation {
    void (*done)(struct operation *self, const struct completion *completion);
    bool pending; /* the kernel has it; there is no second request for it meanwhile */
};

struct ring {
    int fd;
    size_t requests_size;
    size_t completions_size;
    void *requests_start; /* what is mapped */
    void *completions_start;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *completions;
    _Atomic unsigned *requests_head;    /* the kernel's: what it has taken */
    _Atomic unsigned *requests_tail;    /* ours, published when we enter */
    _Atomic unsigned *completions_head; /* ours */
    _Atomic unsigned *completions_tail; /* the kernel's */
    unsigned requests_mask;
    unsigned completions_mask;
    unsigned tail; /* of the requests, with those that are not published yet */

    struct io_uring_buf_ring *free_buffers; /* a ring, too: we put them in, the kernel takes */
    unsigned char *buffers;
    unsigned short buffers_tail;
};

enum {
    RING_BUFFER_SIZE = 4096,
};

/** 0; or -1 with errno, where the kernel has no such ring or a sandbox forbids it. */
int ring_open(struct ring *ring);

/** Whatever is still with the kernel is cancelled. For a ring that ring_open() has zeroed, too. */
void ring_close(struct ring *ring);

/**
 * A request for an operation that is not pending, all zero but for these arguments: fill in what
 * else the kernel has to know before the next call.
 */
struct io_uring_sqe *ring_request(struct ring *ring, struct operation *operation, int opcode,
                                  int fd);

/** Asks for at most that many bytes, into a buffer that the kernel takes when they have come. */
void ring_receive(struct ring *ring, struct operation *operation, int fd, size_t most);

/** Asks to be told when the descriptor is ready: for what the ring has no request for. */
void ring_poll(struct ring *ring, struct operation *operation, int fd, unsigned events);

/** Asks to end an operation early, if it is pending: it completes soon, done or cancelled. */
void ring_cancel(struct ring *ring, const struct operation *operation);

/** Hands over the requests, and waits for a completion, or for so many ms; -1: for ever. */
void ring_wait(struct ring *ring, int timeout);

/** Takes the next completion. False if there is none. */
bool ring_take(struct ring *ring, struct completion *completion);

/** The bytes of a buffer, which is ours until it is given back. */
unsigned char *ring_buffer(const struct ring *ring, int buffer);
void ring_give_back(struct ring *ring, int buffer);

#endif
