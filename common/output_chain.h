/*
 * What a connection has been told to send and its socket has not taken yet.
 *
 * A non-blocking socket takes what fits and no more; the rest has to wait somewhere, and must not
 * wait in a handler (Hitchens: "Don't spin in a handler waiting for output to drain. Perhaps it
 * never will"). It waits in a chain of segments, drained by one writev(2) at a time. An empty chain
 * tries the socket first, because it nearly always takes a reply at once (Lea: "normally also do
 * first write now"; erratum 10).
 *
 * A peer that does not read must cost bounded memory only (erratum 5), so what waits is measured
 * against three limits. Above the high mark the chain is choked: stop reading that client until it
 * falls below the low mark. Above the cap it takes nothing more: let that client go.
 *
 * Interface:
 * - One thread at a time, without a lock. Where other connections' handlers may enqueue, it takes
 *   an output queue (output_queue.h), which is this with a lock.
 * - The chain does not own the socket, and must not be used after it was closed.
 * - It does not know a selector: whoever gets OUTPUT_WAITING or OUTPUT_CHOKED sees to it that
 *   output_chain_drain() is called when the socket can be written again.
 * - Bytes that were accepted are written in order or, once the chain is broken, dropped.
 * - A range of a file waits like anything else and counts with all its bytes, though they take no
 *   memory: a client that is sent a big file is choked until most of it has left.
 */
#ifndef COMMON_OUTPUT_CHAIN_H
#define COMMON_OUTPUT_CHAIN_H

#include "buffer_factory.h"
#include "input_queue.h"
#include "pace.h"
#include "shared_file.h"
#include "shared_message.h"

/** What all connections of a server share. Bytes; low_mark <= high_mark <= cap. */
struct output_settings {
    struct buffer_factory *buffers;
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
    OUTPUT_BATCH = 65536,

    /** The most of a file that one call sends: a fast download must not hold its thread. */
    OUTPUT_FILE_BATCH = 1 << 20,
};

struct output_chain {
    const struct output_settings *settings;
    int fd;
    bool corked;
    bool choked;
    bool broken;
    struct segment *head;
    struct segment *tail;
    size_t length; /* bytes that wait */
    uint64_t sent; /* bytes the socket has taken and nobody has counted yet */
    struct pace pace;
};

/** An empty chain in front of fd. The settings, and what they name, have to outlive it. */
void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd);

/** Drops what waits and gives all memory back. */
void output_chain_clear(struct output_chain *chain);

/** Accepts a copy of the message, after trying the socket if nothing waits. */
enum output_result output_chain_enqueue(struct output_chain *chain, struct message message);

/** As output_chain_enqueue(), but takes a reference instead of a copy. */
enum output_result output_chain_enqueue_shared(struct output_chain *chain,
                                               struct shared_message *message);

/**
 * Accepts a range of a file, with a reference to it. The file may grow or change meanwhile; if it
 * ends before the range does, the chain breaks: the peer was promised bytes that do not exist.
 */
enum output_result output_chain_enqueue_file(struct output_chain *chain, struct shared_file *file,
                                             size_t offset, size_t length);

/**
 * Writes what waits, as far as the socket takes it. With a long file that may be less than it would
 * take; what is left is OUTPUT_WAITING or OUTPUT_CHOKED, as always.
 */
enum output_result output_chain_drain(struct output_chain *chain);

/**
 * Holds output back until output_chain_uncork(): the replies to a batch of messages then leave by
 * one system call instead of one each.
 */
void output_chain_cork(struct output_chain *chain);

/** Ends the cork and drains. */
enum output_result output_chain_uncork(struct output_chain *chain);

/** Drops what waits; whatever is enqueued from now on is OUTPUT_BROKEN. */
void output_chain_close(struct output_chain *chain);

/** What the chain looks like: flowing, waiting, choked or broken. */
enum output_result output_chain_look(struct output_chain *chain);

/** Bytes that wait. */
size_t output_chain_length(const struct output_chain *chain);

/** From now on no more bytes per second are written; 0: as many as the socket takes. */
void output_chain_set_rate(struct output_chain *chain, uint64_t bytes_per_second);

/**
 * The moment, in milliseconds of clock_ms(), at which to drain what the rate holds back; 0: the
 * rate holds nothing back now. While it does, it is no use to wait for the socket.
 */
int64_t output_chain_due(const struct output_chain *chain);

/** Bytes the socket has taken since this was last asked. */
uint64_t output_chain_newly_sent(struct output_chain *chain);

#endif
