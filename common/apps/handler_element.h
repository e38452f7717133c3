/*
 * An element of a handler chain. It stands between an application and its channel: the application
 * takes it for the channel, and the framework takes it for the application (Roth: frameworks
 * "support handler chains").
 *
 *   framework  <-- channel_facade --  element  <-- channel_facade --  application's handler
 *              --  input_handler -->           --  input_handler -->
 *
 * This one passes every call on, but for posts, timers, tasks and holds: those go to the connection
 * past all elements, and an application's call is what links them. Others begin with it and replace
 * the few verbs that they are made for: log_element.h prints what passes, throttle_element.h sets
 * the rate of the channel when the connection begins. One that changes the bytes, as TLS does,
 * would have an input queue of its own behind `input`, fill it in `next_message`, and encrypt in
 * `enqueue`; docs/services.md says what else.
 *
 * Interface:
 * - Elements can be stacked in any number. The application's optional verbs that the framework asks
 *   for, such as drained, timed_out and idle, an element passes on only if the handler behind it
 *   has them, so that a server behaves the same with an element and without.
 * - An element that changes bytes has an input queue of its own, returns it from `input`, fills it
 *   in `next_message`, and answers `holds_input`, because the framework sees the channel's queue
 *   only. What it sends may come as a copy, a shared message or a range of a file: all three have
 *   to be changed.
 * - Threads and locks are those of the two interfaces. Its facade may be kept, and called by any
 *   thread, as long as a reference is held; so an element whose output depends on the order needs a
 *   lock around the change and outer's enqueue.
 * - One element serves one connection. It is part of the connection's memory, in front of the
 *   handler behind it, so a reference to its facade is one to the connection.
 */
#ifndef COMMON_HANDLER_ELEMENT_H
#define COMMON_HANDLER_ELEMENT_H

#include "common/server/input_handler_calls.h"

#include <stdalign.h>
#include <stddef.h>

struct handler_element;

/** How to begin one of the same kind, for a connection that the application opens. */
struct handler_element_kind {
    size_t size;

    /** In memory that is all zero, in front of inner. */
    void (*begin)(struct handler_element *element, const struct handler_element *model,
                  struct input_handler *inner);
};

struct handler_element {
    struct input_handler handler; /* what the framework calls */
    struct channel_facade facade; /* what the application calls */
    struct input_handler *inner;  /* towards the application */
    struct channel_facade *outer; /* towards the socket; from `starting` on */
    const struct input_handler_verbs *all_verbs;
    struct input_handler_verbs verbs;        /* the same, with the traits of the inner handler */
    const struct handler_element_kind *kind; /* how to make another; NULL: not possible */
};

/** Verbs that pass everything on, to begin with. */
extern const struct input_handler_verbs handler_element_verbs;
extern const struct channel_facade_verbs handler_element_facade_verbs;

/**
 * Begins an element in front of inner. It is the beginning of a struct that is all zero. Both sets
 * of verbs must live as long as it does.
 */
void handler_element_init(struct handler_element *element, const struct input_handler_verbs *verbs,
                          const struct channel_facade_verbs *facade_verbs,
                          struct input_handler *inner);

/** The handler behind an element is another one from now on, which may have other traits. */
void handler_element_set_inner(struct handler_element *element, struct input_handler *inner);

/** The size of an element, rounded up so that the handler behind it can follow in one block. */
static inline size_t handler_element_room(size_t size)
{
    size_t unit = alignof(int64_t);
    return (size + unit - 1) / unit * unit;
}

/**
 * As channel_connect(): the new connection's handler is behind an element of the same kind, if
 * there is one.
 */
int handler_element_connect(struct channel_facade *facade, const struct endpoint *to,
                            int64_t timeout, struct input_handler_factory *factory) NO_LOCK_HELD;

/** The element that a facade belongs to. */
struct handler_element *handler_element_of(struct channel_facade *facade);

#endif
