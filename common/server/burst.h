/*
 * A burst: what a run sends to other connections while more of its own messages wait.
 *
 * Somebody pastes 64 lines into a chat of a thousand. Written one by one they would be 64,000
 * system calls, made by one run, while everybody else waits. But of each listener's lines only the
 * last one is worth a call. So the run says, before each message, whether more of them wait
 * behind it. If so, what the handler sends to others is held back in their output chains, and the
 * run remembers to whom. It leaves
 *   - with what is sent to them next and not held back: the run's last line takes all lines before
 *     it along, in one call for each listener;
 *   - when the run ends, for those who did not get that line;
 *   - after a message during which the burst has become older than BURST_MS, or when a handler
 *     that is going to wait asks for it (channel_flush());
 *   - when OUTPUT_BATCH or the high mark is reached for one connection.
 * A single line is the last one of its run. It is not held back, and costs no more than before.
 *
 * A burst also adds up what the run costs others, because a message for a thousand connections
 * takes a thousand times as long as an answer. When that has become enough, the run ends after the
 * message, as it does after 64 messages, and the next connection has its turn.
 *
 * Interface:
 * - One run's (run.h), and so one thread's. It begins as all zero. Outside of runs nothing is held
 *   back.
 * - The burst has a reference to each connection for which it holds something back.
 * - It allocates a list of them, of as many pointers as there are. Without memory for that, output
 *   is not held back.
 */
#ifndef COMMON_BURST_H
#define COMMON_BURST_H

#include "common/bytes/output_chain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;

enum {
    /** How old a burst may be when the next message begins; ms. */
    BURST_MS = 50,

    /** What a run may cost others: messages that were held back for them, or fewer calls. */
    BURST_WORK = 65536,

    /** A system call costs as much as so many messages that are held back. */
    BURST_WORK_OF_CALL = 32,
};

struct burst {
    uint32_t number; /* what it holds by; 0 before that */
    uint32_t work;   /* what the run has cost others; BURST_WORK ends it */
    bool more;       /* another message waits behind the one that is being handled */
    int64_t since;   /* when the oldest output was held back; ms of clock_ms() */
    struct connection **held;
    size_t count;
    size_t capacity;
    void (*end)(struct burst *burst); /* burst_end(), if there is anything to end: so the core,
                                         which has runs, links no bursts */
};

/** The run is over: what is still held back leaves. */
void burst_end(struct burst *burst);

/** What is held back leaves, and the burst goes on. */
void burst_flush(struct burst *burst);

/** Between two messages, while something is held back: it leaves if it is old. */
void burst_flush_old(struct burst *burst);

/** Remembers a connection for which something is held back. False without memory. */
bool burst_add(struct burst *burst, struct connection *connection);

/** The number by which this burst alone holds output back: output_chain_hold(). */
uint32_t burst_number(struct burst *burst);

#endif
