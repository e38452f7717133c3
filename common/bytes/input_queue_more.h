/*
 * What can be asked of an input queue beside what lines need: for messages that do not end with a
 * certain byte, for bytes that no socket has read, and for secrets. A program links it if it calls
 * any of it.
 *
 * Interface:
 * - As the queue itself (input_queue.h): one thread at a time, without a lock.
 */
#ifndef COMMON_INPUT_QUEUE_MORE_H
#define COMMON_INPUT_QUEUE_MORE_H

#include "common/bytes/input_queue.h"

/**
 * Finds the first wanted byte that is at a distance of at least `from`. For callers that search for
 * several in turn and keep their own position.
 */
bool input_queue_index_from(const struct input_queue *queue, unsigned char wanted, size_t from,
                            size_t *index);

/**
 * The first count bytes, which must be there and stay there: for a caller that has to read the
 * beginning of a message to know where it ends.
 */
struct message input_queue_peek(const struct input_queue *queue, size_t count);

/** Drops count bytes, which must be there, from the front. */
void input_queue_discard(struct input_queue *queue, size_t count);

/**
 * Puts a copy of bytes behind those that are there. False if the limit or memory does not allow all
 * of them; the queue is unchanged then.
 */
bool input_queue_append(struct input_queue *queue, const unsigned char *bytes, size_t length);

/**
 * Whether what comes may be secret, a password say. If so, every byte that leaves the queue is
 * overwritten as soon as its message has been used, and all of them by input_queue_clear(), because
 * memory that goes back to the factory or to the heap keeps its contents, and its next owner may
 * send them to another client. Set it before the bytes are taken out. A queue without secrets pays
 * one branch for each message.
 */
void input_queue_set_secret(struct input_queue *queue, bool secret);

#endif
