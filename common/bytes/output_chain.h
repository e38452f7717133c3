/*
 * Bytes that a connection has to send and that its socket has not taken yet.
 *
 * A non-blocking socket takes what fits and no more; the rest has to wait somewhere, and must not
 * wait in a handler (Hitchens: "Don't spin in a handler waiting for output to drain. Perhaps it
 * never will"). It waits in a chain of segments, drained by one writev(2) at a time. An empty chain
 * tries the socket first, because it nearly always takes a reply at once (Lea: "normally also do
 * first write now"; erratum 10).
 *
 * A peer that does not read must cost bounded memory only (erratum 5), so what waits is measured
 * against three limits. Above the high mark the chain is choked: stop reading from that client
 * until no more than the low mark waits. Above the cap it takes nothing more: disconnect that
 * client. One that gets an answer of one piece to each message of its own stops at the high mark.
 *
 * Interface:
 * - One thread at a time, without a lock. Where other connections' handlers may enqueue, the
 *   connection has a lock for it (connection.h).
 * - The chain does not own the socket, and must not be used after it was closed.
 * - It does not know a selector. If you get OUTPUT_WAITING or OUTPUT_CHOKED, you must call
 *   output_chain_drain() once the socket is writable again.
 * - Bytes that were accepted are written in order or, once the chain is broken, dropped.
 * - What waits beside copies of bytes (shared messages, ranges of files), who else may hold output
 *   back, and rates are parts in files of their own, which a program links if it calls them
 *   (output_parts.h).
 */
#ifndef COMMON_OUTPUT_CHAIN_H
#define COMMON_OUTPUT_CHAIN_H

#include "common/bytes/buffer_factory.h"
#include "common/bytes/input_queue.h"

#include <stdatomic.h>
#include <sys/types.h>

/** What all connections of a server share. Bytes; low_mark <= high_mark <= cap. */
struct output_settings {
    struct buffer_factory *buffers;
    size_t high_mark;
    size_t low_mark;
    size_t cap;
};

/** What a call leaves behind, from best to worst. */
enum output_result {
    OUTPUT_FLOWING, /* nothing waits for the socket; what is corked may wait for the uncork */
    OUTPUT_WAITING, /* some bytes wait: drain when the socket can be written */
    OUTPUT_CHOKED,  /* as waiting, and too many: stop reading this client */
    OUTPUT_REFUSED, /* more than the cap waits: nothing was accepted, disconnect it */
    OUTPUT_BROKEN,  /* the peer, memory or a file is gone: what waited is dropped, see errno */
};

/** Where bytes are that are to be sent. */
enum piece_kind {
    PIECE_BYTES, /* in memory */
    PIECE_FILE,  /* in a file */
};

/**
 * Something to send, for output_chain_enqueue(). It is good as long as what it points to is.
 * piece_shared() is in shared_message.h, piece_file() in shared_file.h.
 */
struct piece {
    enum piece_kind kind;
    const struct link_verbs
        *verbs; /* of the part that keeps it while it waits; NULL: a copy waits */
    union {
        struct {
            struct message bytes; /* those of a shared message, too */
            struct shared_message *shared;
        };
        struct {
            struct shared_file *file;
            uint64_t offset;
            uint64_t length;
        } range;
    };
};

enum {
    /** The most that one writev() is asked to take of what waits. */
    OUTPUT_BATCH = 65536,
};

struct output_chain {
    const struct output_settings *settings;
    struct segment *last;     /* knows the first one (a ring); NULL: nothing waits */
    struct output_gate *gate; /* how much may leave now; NULL: what the socket takes */
    uint64_t length;          /* bytes that wait; those of files can be more than a size_t counts */
    uint32_t holder;          /* what waits is held back, by this number; 0: it is not */
    uint32_t sent;            /* bytes the socket has taken, not counted yet */
    uint32_t calls;           /* system calls that were made for it, not counted yet */
    uint32_t overhead;        /* bytes that links of parts cost beside those that wait */
    int fd;
    atomic_bool corked;  /* set by the runner, without the lock that others enqueue under */
    atomic_bool drained; /* it was choked and is not any more; until asked */
    atomic_uchar state;  /* enum output_result, as it was left; read by any thread */
    bool no_memory : 1;  /* memory was what broke it */
    bool finished : 1;   /* all has left, and no more is taken */
};

/** An empty chain in front of fd. The settings, and what they name, have to outlive it. */
void output_chain_init(struct output_chain *chain, const struct output_settings *settings, int fd);

/** A copy of a message. */
static inline struct piece piece_copy(struct message message)
{
    return (struct piece){.kind = PIECE_BYTES, .bytes = message};
}

/** A copy of bytes that lie anywhere. */
static inline struct piece piece_bytes(const void *bytes, size_t length)
{
    return (struct piece){.kind = PIECE_BYTES, .bytes = {bytes, length}};
}

/** Accepts a piece, after trying the socket if nothing waits. */
enum output_result output_chain_enqueue(struct output_chain *chain, struct piece piece);

/**
 * Writes what waits, as far as the socket takes it. Of a long file it writes only a bounded part in
 * one call, so that other connections get their turn; what is left is OUTPUT_WAITING or
 * OUTPUT_CHOKED, as always.
 */
enum output_result output_chain_drain(struct output_chain *chain);

/**
 * Sends what waits, also what is held back for somebody. If that was all there is no more: true,
 * and whoever enqueues something from now on hears OUTPUT_BROKEN. Under the lock, so that nothing
 * is accepted that the end of the stream would overtake.
 */
bool output_chain_finish(struct output_chain *chain);

/**
 * Holds output back until output_chain_uncork(): the replies to a batch of messages then leave by
 * one system call instead of one each. Takes no lock: another thread that enqueues at this moment
 * may not see the cork yet, and then writes its message at once, as without a cork. The socket is
 * not tried, so more than the high mark chokes even a client that reads, until the uncork.
 */
void output_chain_cork(struct output_chain *chain);

/** Ends the cork and sends nothing. Enqueuing tries the socket at once again, if nothing waits. */
void output_chain_lift_cork(struct output_chain *chain);

/** Ends the cork and drains. */
enum output_result output_chain_uncork(struct output_chain *chain);

/**
 * Writes what waits although it is held back, as far as the socket takes it without waiting, even
 * one that blocks, and up to the first range of a file.
 */
enum output_result output_chain_flush(struct output_chain *chain);

/** Whether it was choked, and is not any more. Any thread, with the lock or without. */
static inline bool output_chain_has_drained(const struct output_chain *chain)
{
    return atomic_load_explicit(&chain->drained, memory_order_relaxed);
}

/** Whether nothing waits for the socket, and nobody has to hear that less does. Any thread. */
static inline bool output_chain_is_calm(const struct output_chain *chain)
{
    return atomic_load_explicit(&chain->state, memory_order_relaxed) == OUTPUT_FLOWING &&
           !atomic_load_explicit(&chain->drained, memory_order_relaxed);
}

/** Whether it was choked and is not any more; true once for each time that it was choked. */
static inline bool output_chain_take_drained(struct output_chain *chain)
{
    return output_chain_has_drained(chain) &&
           atomic_exchange_explicit(&chain->drained, false, memory_order_relaxed);
}

/** Drops what waits. From now on enqueuing returns OUTPUT_BROKEN. */
void output_chain_close(struct output_chain *chain);

/** What the chain looks like: flowing, waiting, choked or broken. Any thread, lock or not. */
static inline enum output_result output_chain_look(const struct output_chain *chain)
{
    return (enum output_result)atomic_load_explicit(&chain->state, memory_order_relaxed);
}

/** Bytes that wait. */
static inline uint64_t output_chain_length(const struct output_chain *chain)
{
    return chain->length;
}

/** Bytes the socket has taken since this was last asked. */
uint64_t output_chain_newly_sent(struct output_chain *chain);

/** System calls that have offered bytes to the socket since this was last asked. */
uint32_t output_chain_new_calls(struct output_chain *chain);

#endif
