/*
 * An output chain that several threads may fill: Hitchens' OutputQueue.
 *
 * In stages 1 to 3 a connection is one thread's at a time, and so is its output. From stage 4 on a
 * handler may send to other connections too, as a chat does; so the chain gets a lock.
 *
 * Interface:
 * - All calls are safe from any thread. What each does is told where output_chain.h names it.
 * - The lock is held across a write to the socket, or else two threads' bytes would leave in
 *   another order than they were accepted in. On a non-blocking socket that is short.
 */
#ifndef COMMON_OUTPUT_QUEUE_H
#define COMMON_OUTPUT_QUEUE_H

#include "lock.h"
#include "output_chain.h"

struct output_queue {
    struct mutex lock;
    struct output_chain chain GUARDED_BY(&lock);
};

/** An empty queue in front of fd. The settings, and what they name, have to outlive it. */
void output_queue_init(struct output_queue *queue, const struct output_settings *settings, int fd);

/** Drops what waits and gives all memory back. No thread may use the queue any more. */
void output_queue_destroy(struct output_queue *queue);

enum output_result output_queue_enqueue(struct output_queue *queue, struct message message);
enum output_result output_queue_enqueue_shared(struct output_queue *queue,
                                               struct shared_message *message);
enum output_result output_queue_enqueue_file(struct output_queue *queue, struct shared_file *file,
                                             size_t offset, size_t length);
enum output_result output_queue_drain(struct output_queue *queue);
void output_queue_cork(struct output_queue *queue);
enum output_result output_queue_uncork(struct output_queue *queue);

/**
 * As output_chain_close(). Once this has returned the socket is not touched any more and may be
 * closed, while others still hold on to the queue.
 */
void output_queue_close(struct output_queue *queue);

enum output_result output_queue_look(struct output_queue *queue);
size_t output_queue_length(struct output_queue *queue);
void output_queue_set_rate(struct output_queue *queue, uint64_t bytes_per_second);
int64_t output_queue_due(struct output_queue *queue);
uint64_t output_queue_newly_sent(struct output_queue *queue);

#endif
