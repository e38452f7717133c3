/*
 * What can be asked of an input queue beside what lines need: for messages whose end is not one
 * fixed byte, for bytes that no socket has read, and for secrets. A program links it if it calls
 * any of it.
 *
 * Interface:
 * - As the queue itself (input_queue.h): one thread at a time, without a lock.
 */
#ifndef COMMON_INPUT_QUEUE_MORE_H
#define COMMON_INPUT_QUEUE_MORE_H

#include "common/bytes/input_queue.h"

/**
 * Finds the first wanted byte that is at a distance of at least `from` from the front, which may be
 * beyond the end. *index is its distance from the front, too. False: there is none. For callers
 * that search for several in turn and keep their own position.
 */
bool input_queue_index_from(const struct input_queue *queue, unsigned char wanted, size_t from,
                            size_t *index);

/**
 * The first count bytes, at least one, which must be there; they stay in the queue. A view, as any
 * message: for a caller that has to read the beginning of a message to know where it ends.
 */
struct message input_queue_peek(const struct input_queue *queue, size_t count);

/** Drops count bytes, which must be there, from the front; 0: none. Retires the message before. */
void input_queue_discard(struct input_queue *queue, size_t count);

/**
 * Puts a copy of bytes, which must not lie in this queue, behind those that are there. False if the
 * limit or memory does not allow all of them; the bytes are as they were then. Either way it
 * retires the message that was handed out last.
 */
bool input_queue_append(struct input_queue *queue, const unsigned char *bytes, size_t length);

/**
 * Whether what comes may be secret, a password say. If so, every byte that leaves the queue is
 * overwritten when its message is retired, and all of them by input_queue_clear(), because memory
 * that goes back to the factory or to the heap keeps its contents, and its next owner may send them
 * to another client. Set it before the second read: what the queue has moved before is not wiped
 * where it was. A queue without secrets pays one branch for each message.
 */
void input_queue_set_secret(struct input_queue *queue, bool secret);

#endif
