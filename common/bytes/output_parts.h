/*
 * The parts of an output chain: what can wait in it beside copies of bytes, who else may hold
 * output back, and how fast it may leave. Each is in a file of its own, which knows the chain; the
 * chain knows no part, and a program links those that it calls.
 *
 *   shared_message.c  a link to a message that many chains send
 *   shared_file.c     a link to a range of a file
 *   output_hold.c     output that waits for somebody to release it
 *   output_rate.c     a rate
 *
 * A part takes hold of the chain in two places: the verbs of a link, and the gate.
 *
 * Interface:
 * - As the chain itself: one thread at a time, without a lock.
 */
#ifndef COMMON_OUTPUT_PARTS_H
#define COMMON_OUTPUT_PARTS_H

#include "common/bytes/output_chain.h"

/* ---- Hold and rate: who sends calls these --------------------------------------------------- */

/**
 * From now on holds back what is enqueued, unless earlier output waits for the socket anyway. If it
 * returns true, the holder has to call output_chain_release(), even if another one holds or
 * releases before. Each holder has a number of its own, not 0. When OUTPUT_BATCH or the high mark
 * is reached, the chain drains by itself.
 */
bool output_chain_hold(struct output_chain *chain, uint32_t holder);

/**
 * Drains what is held back, unless the chain is corked: then the uncork will, and the result says
 * how much waits for it.
 */
enum output_result output_chain_release(struct output_chain *chain);

/**
 * From now on no more bytes per second are written; 0: as many as the socket takes. False without
 * memory, or once the chain is broken.
 */
bool output_chain_set_rate(struct output_chain *chain, uint64_t bytes_per_second);

enum {
    /** The most that one drain sends of what is not in memory: a download must not hold its thread.
     */
    OUTPUT_FILE_BATCH = 1 << 20,
};

/* ---- Links ---------------------------------------------------------------------------------- */

/** What a part does with links of its kind: segments that have no room of their own. */
struct link_verbs {
    /**
     * Appends the piece, but for its first `taken` bytes, which the socket has taken already. 0, or
     * an errno, which breaks the chain.
     */
    int (*append)(struct output_chain *chain, const struct piece *piece, size_t taken);

    /**
     * Where the link's bytes lie: from start to end, as in a segment. NULL: they are not in memory,
     * so `write` offers the socket at most `most` of them, takes those that have left out of the
     * chain, and says how many it has offered. It returns how many have left, or -1 with errno.
     */
    const unsigned char *(*bytes)(const struct segment *link);
    ssize_t (*write)(struct output_chain *chain, struct segment *link, size_t most,
                     size_t *offered);

    /** Frees a link that has left, or is dropped. */
    void (*release)(struct output_chain *chain, struct segment *link);
};

/** Puts a link behind what waits. The part counts its bytes. */
void output_chain_append_link(struct output_chain *chain, struct segment *link);

/** Puts a copy of bytes behind what waits. 0, or ENOMEM. */
int output_chain_append_copy(struct output_chain *chain, const unsigned char *data, size_t length);

/** Takes the first link out, and frees it. */
void output_chain_drop_first(struct output_chain *chain);

/** So many bytes in memory have left from the front. */
void output_chain_consume(struct output_chain *chain, size_t count);

/**
 * The socket's answer to a system call: counts it and the bytes that have left. Returns how many
 * have; 0 if the socket takes none now; -1 with errno if the peer is gone.
 */
ssize_t output_chain_wrote(struct output_chain *chain, ssize_t written);

/* ---- The gate ------------------------------------------------------------------------------- */

/** Says how much of what waits may leave. A part's struct begins with it. */
struct output_gate {
    const struct output_gate_verbs *verbs;
};

struct output_gate_verbs {
    /** How many bytes may leave now. */
    size_t (*allowance)(struct output_gate *gate);

    /** So many have left. */
    void (*spend)(struct output_gate *gate, size_t bytes);

    /** For output_chain_due(), while so many bytes wait. */
    int64_t (*due)(const struct output_gate *gate, uint64_t waiting);

    /** The chain is closed. */
    void (*close)(struct output_gate *gate);
};

/**
 * The moment, in milliseconds of clock_ms(), at which to drain what the gate holds back; 0: it
 * holds nothing back now. While it does, it is no use to wait for the socket.
 */
static inline int64_t output_chain_due(const struct output_chain *chain)
{
    return chain->gate != NULL && chain->length > 0
               ? chain->gate->verbs->due(chain->gate, chain->length)
               : 0;
}

/* ---- States --------------------------------------------------------------------------------- */

/** What waits, and whether it waits for the socket, gives the state. */
enum output_result output_chain_settle(struct output_chain *chain);

/** A byte was lost, or will be, so no later one may follow it on the stream. Sets errno. */
enum output_result output_chain_break(struct output_chain *chain, int error);

#endif
