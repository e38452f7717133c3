/*
 * A handler serves one connection, from its first byte to its last, in a thread of its own.
 *
 * Lea, "Classic ServerSocket loop": read, process, write, with calls that block. That is all there
 * is to say about a client, and it is said in the order in which it happens.
 *
 * Interface:
 * - A handler owns its socket, its queues and its times. While handler_run() runs, its thread alone
 *   touches them; only shutdown(2) is called on the socket by another.
 */
#ifndef HANDLER_H
#define HANDLER_H

#include "common/server.h"

struct handler_threads;

struct handler {
    struct server *server;
    struct handler_threads *threads;
    int fd;
    int last_reads; /* how often it will still read once the server is stopping */
    struct input_queue input;
    struct output_chain output;
    struct deadlines deadlines;
    struct handler *previous; /* all handlers there are; see handler_threads.h */
    struct handler *next;
    struct handler *next_waiting; /* those that no thread serves yet */
};

/** Makes a handler, which owns fd from now on. NULL without memory; fd stays the caller's then. */
struct handler *handler_create(struct handler_threads *threads, struct server *server, int fd);

/** Frees the handler, whose socket is the caller's again: its descriptor. */
int handler_release(struct handler *handler);

/** Serves the connection until it ends, one way or the other. The handler's own thread. */
void handler_run(struct handler *handler);

#endif
