/*
 * An element of a handler chain: what stands between an application and its channel, and looks to
 * each of them like the other (Roth: frameworks "support handler chains").
 *
 *   framework  <-- channel_facade --  element  <-- channel_facade --  application's handler
 *              --  input_handler -->           --  input_handler -->
 *
 * This one passes everything on. Others begin with it and replace the few verbs that they are made
 * for: log_element.h looks at what passes, throttle_element.h has a word with the channel when the
 * connection begins. One that changes the bytes, as TLS does, would have an input queue of its own
 * behind `input`, fill it in `next_message`, and encrypt in `enqueue`.
 *
 * Interface:
 * - Elements can be stacked in any number; neither side notices.
 * - Threads and locks are those of the two interfaces: an element adds none. Its facade may be
 *   kept, and called by any thread, as long as a reference is held.
 * - One element serves one connection. It frees itself with the last reference to its facade; the
 *   connection has one until `stopped`.
 */
#ifndef COMMON_HANDLER_ELEMENT_H
#define COMMON_HANDLER_ELEMENT_H

#include "input_handler.h"

#include <stdatomic.h>

struct handler_element {
    struct input_handler handler; /* first: what the channel's side holds */
    struct channel_facade facade; /* what the application's side holds */
    struct input_handler *inner;  /* towards the application */
    struct channel_facade *outer; /* towards the socket; from `starting` on */
    atomic_size_t references;
};

/** Verbs that pass everything on, to begin with. */
extern const struct input_handler_verbs handler_element_verbs;
extern const struct channel_facade_verbs handler_element_facade_verbs;

/**
 * An element of `size` bytes that begins with a struct handler_element, in front of inner. NULL
 * without memory: inner has heard `unused` then.
 */
struct handler_element *handler_element_create(size_t size, const struct input_handler_verbs *verbs,
                                               const struct channel_facade_verbs *facade_verbs,
                                               struct input_handler *inner);

/** Whose facade that is. */
struct handler_element *handler_element_of(struct channel_facade *facade);

#endif
