/*
 * A message that many output queues send and nobody copies.
 *
 * A line of chat goes to a thousand users: the bytes exist once and every queue holds a reference.
 * Each queue keeps its own position in the message (in the segment that refers to it), so one
 * receiver's progress is not another's (erratum 12: Java's ByteBuffer carries its position along,
 * and the first reader consumes the message for all).
 *
 * Interface:
 * - All calls are safe from any thread.
 * - The bytes never change once a second reference exists.
 * - Whoever creates a message holds its first reference; the last release frees it.
 */
#ifndef COMMON_SHARED_MESSAGE_H
#define COMMON_SHARED_MESSAGE_H

#include "common/bytes/output_chain.h"

struct shared_message {
    atomic_size_t references;
    size_t length;
    unsigned char data[];
};

/** A message of length bytes, not yet written, with one reference; NULL without memory. */
struct shared_message *shared_message_create(size_t length);

/** Takes one more reference. */
void shared_message_retain(struct shared_message *message);

/** Gives one reference back. */
void shared_message_release(struct shared_message *message);

enum {
    /** A message below this is copied: a reference and its share of the heap cost as much. */
    SHARED_MESSAGE_MIN = 256,
};

/** How an output chain keeps one (output_parts.h). */
extern const struct link_verbs shared_message_verbs;

/**
 * Something for an output chain to send. The caller keeps its own reference. What waits counts
 * towards the cap with its link, too, because the cap is what a client that does not read may cost.
 */
static inline struct piece piece_shared(struct shared_message *message)
{
    return (struct piece){.kind = PIECE_BYTES,
                          .verbs = &shared_message_verbs,
                          .bytes = {message->data, message->length},
                          .shared = message};
}

#endif
