/*
 * What a connection has been told to send and its socket has not taken yet.
 *
 * A non-blocking socket takes what fits and no more; the rest has to wait somewhere, and must not
 * wait in a handler (Hitchens: "Don't spin in a handler waiting for output to drain. Perhaps it
 * never will"). The queue is a chain of segments, drained by one writev(2) at a time. An empty
 * queue tries the socket first, because it nearly always takes a reply at once (Lea: "normally also
 * do first write now"; erratum 10).
 *
 * A peer that does not read must cost bounded memory only (erratum 5), so what waits is measured
 * against three limits. Above the high mark the queue is choked: stop reading that client until it
 * falls below the low mark. Above the cap it takes nothing more: let that client go.
 *
 * Interface:
 * - All calls are safe from any thread: another connection's handler may enqueue.
 * - The lock is held across a write to the socket. On a non-blocking socket that is short; a queue
 *   on a blocking socket (stage 1) belongs to one thread alone.
 * - The queue does not own the socket, and must not be used after it was closed.
 * - It does not know a selector: whoever gets OUTPUT_WAITING or OUTPUT_CHOKED sees to it that
 *   output_queue_drain() is called when the socket can be written again.
 * - Bytes that were accepted are written in order or, once the queue is broken, dropped.
 * - A range of a file waits like anything else and counts with all its bytes, though they take no
 *   memory: a client that is sent a big file is choked until most of it has left.
 */
#ifndef COMMON_OUTPUT_QUEUE_H
#define COMMON_OUTPUT_QUEUE_H

#include "buffer_factory.h"
#include "input_queue.h"
#include "pace.h"
#include "shared_file.h"
#include "shared_message.h"

/** Bytes; low_mark <= high_mark <= cap. One set serves all queues. */
struct output_limits {
    size_t high_mark;
    size_t low_mark;
    size_t cap;
};

/** What a call leaves behind, from best to worst. */
enum output_result {
    OUTPUT_FLOWING, /* nothing waits, or only for an uncork: nothing to do */
    OUTPUT_WAITING, /* some bytes wait: drain when the socket can be written */
    OUTPUT_CHOKED,  /* as waiting, and too many: stop reading this client */
    OUTPUT_REFUSED, /* more than the cap waits: nothing was accepted, let the client go */
    OUTPUT_BROKEN,  /* the peer, memory or a file is gone: what waited is dropped, see errno */
};

enum {
    /** The most that one writev() is asked to take of what waits. */
    OUTPUT_QUEUE_BATCH = 65536,

    /** The most of a file that one call sends: a fast download must not hold its thread. */
    OUTPUT_QUEUE_FILE_BATCH = 1 << 20,
};

struct output_queue {
    struct buffer_factory *factory;
    const struct output_limits *limits;
    int fd;
    struct mutex lock;
    bool corked GUARDED_BY(&lock);
    bool choked GUARDED_BY(&lock);
    bool broken GUARDED_BY(&lock);
    struct segment *head GUARDED_BY(&lock);
    struct segment *tail GUARDED_BY(&lock);
    size_t length GUARDED_BY(&lock); /* bytes that wait */
    uint64_t sent GUARDED_BY(&lock); /* bytes the socket has taken and nobody has counted yet */
    struct pace pace GUARDED_BY(&lock);
};

/** An empty queue in front of fd. Factory and limits have to outlive it. */
void output_queue_init(struct output_queue *queue, struct buffer_factory *factory,
                       const struct output_limits *limits, int fd);

/** Drops what waits and gives all memory back. No thread may use the queue any more. */
void output_queue_destroy(struct output_queue *queue);

/** Accepts a copy of the message, after trying the socket if nothing waits. */
enum output_result output_queue_enqueue(struct output_queue *queue, struct message message);

/** As output_queue_enqueue(), but takes a reference instead of a copy. */
enum output_result output_queue_enqueue_shared(struct output_queue *queue,
                                               struct shared_message *message);

/**
 * Accepts a range of a file, with a reference to it. The file may grow or change meanwhile; if it
 * ends before the range does, the queue breaks: the peer was promised bytes that do not exist.
 */
enum output_result output_queue_enqueue_file(struct output_queue *queue, struct shared_file *file,
                                             size_t offset, size_t length);

/**
 * Writes what waits, as far as the socket takes it. With a long file that may be less than it would
 * take; what is left is OUTPUT_WAITING or OUTPUT_CHOKED, as always.
 */
enum output_result output_queue_drain(struct output_queue *queue);

/**
 * Holds output back until output_queue_uncork(): the replies to a batch of messages then leave by
 * one system call instead of one each.
 */
void output_queue_cork(struct output_queue *queue);

/** Ends the cork and drains. */
enum output_result output_queue_uncork(struct output_queue *queue);

/**
 * Drops what waits; whatever is enqueued from now on is OUTPUT_BROKEN. Once this has returned the
 * socket is not touched any more and may be closed, while others still hold on to the queue.
 */
void output_queue_close(struct output_queue *queue);

/** What the queue looks like at this moment: flowing, waiting, choked or broken. */
enum output_result output_queue_look(struct output_queue *queue);

/** Bytes that wait at this moment. */
size_t output_queue_length(struct output_queue *queue);

/** From now on no more bytes per second are written; 0: as many as the socket takes. */
void output_queue_set_rate(struct output_queue *queue, uint64_t bytes_per_second);

/**
 * The moment, in milliseconds of clock_ms(), at which to drain what the rate holds back; 0: the
 * rate holds nothing back now. While it does, it is no use to wait for the socket.
 */
int64_t output_queue_due(struct output_queue *queue);

/** Bytes the socket has taken since this was last asked. */
uint64_t output_queue_newly_sent(struct output_queue *queue);

#endif
