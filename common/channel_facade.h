/*
 * A connection as its handler sees it (Hitchens, "A Handler's View of the World"): queues to take
 * from and to put into, and a few words to the framework. What implements it is the framework's
 * affair, or that of an element put between (stage 5).
 *
 * Interface:
 * - Unless it says otherwise, a call is safe from any thread, also from the handler of another
 *   connection. None blocks.
 * - A facade is good during its own handler's calls. Whoever keeps it beyond that, in a list of
 *   users say, keeps a reference; then it is good until the reference is given back. After
 * `stopped` such a facade takes no output and ignores everything else.
 */
#ifndef COMMON_CHANNEL_FACADE_H
#define COMMON_CHANNEL_FACADE_H

#include "input_queue.h"
#include "output_chain.h"
#include "sockets.h"

struct channel_facade;
struct input_handler;

struct channel_facade_verbs {
    struct input_queue *(*input)(struct channel_facade *facade);
    enum output_result (*enqueue)(struct channel_facade *facade, struct message message);
    enum output_result (*enqueue_shared)(struct channel_facade *facade,
                                         struct shared_message *message);
    enum output_result (*enqueue_file)(struct channel_facade *facade, struct shared_file *file,
                                       size_t offset, size_t length);
    void (*set_handler)(struct channel_facade *facade, struct input_handler *handler);
    unsigned (*interest)(struct channel_facade *facade);
    void (*modify_interest)(struct channel_facade *facade, unsigned set, unsigned reset);
    void (*close)(struct channel_facade *facade);
    bool (*set_write_rate)(struct channel_facade *facade, uint64_t bytes_per_second);
    void (*peer)(struct channel_facade *facade, struct endpoint *endpoint);
    void (*retain)(struct channel_facade *facade);
    void (*release)(struct channel_facade *facade);
};

struct channel_facade {
    const struct channel_facade_verbs *verbs;
    void *user_data; /* the application's; the handler's thread alone */
};

/** What has been received. The handler's own calls only. */
static inline struct input_queue *channel_input(struct channel_facade *facade)
{
    return facade->verbs->input(facade);
}

/**
 * Sends a copy of the message, as soon as the peer takes it. While the connection's own handler
 * runs, output is held back and leaves together at the end of the run. A connection that has more
 * than the cap waiting is let go; the result says so, and need not be looked at.
 */
static inline enum output_result channel_enqueue(struct channel_facade *facade,
                                                 struct message message)
{
    return facade->verbs->enqueue(facade, message);
}

/** As channel_enqueue(), with a reference instead of a copy. */
static inline enum output_result channel_enqueue_shared(struct channel_facade *facade,
                                                        struct shared_message *message)
{
    return facade->verbs->enqueue_shared(facade, message);
}

/**
 * Sends a range of a file, of which a reference is kept as long as it takes. The bytes count as
 * waiting output until they have left, so with a long range the handler's next message has to wait.
 */
static inline enum output_result channel_enqueue_file(struct channel_facade *facade,
                                                      struct shared_file *file, size_t offset,
                                                      size_t length)
{
    return facade->verbs->enqueue_file(facade, file, offset, length);
}

/** From the next call on, another handler serves the connection. The handler's own calls only. */
static inline void channel_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    facade->verbs->set_handler(facade, handler);
}

/** What the handler wants to hear of: SELECT_READ, or SELECT_NOTHING. */
static inline unsigned channel_interest(struct channel_facade *facade)
{
    return facade->verbs->interest(facade);
}

/**
 * Changes that: without SELECT_READ nothing more is read from the peer until it is set again. A
 * change while the handler runs is kept, and takes effect when it has run. Writing is the
 * framework's: it knows when output waits.
 */
static inline void channel_modify_interest(struct channel_facade *facade, unsigned set,
                                           unsigned reset)
{
    facade->verbs->modify_interest(facade, set, reset);
}

/** Reads no more, sends what is queued, then closes. */
static inline void channel_close(struct channel_facade *facade)
{
    facade->verbs->close(facade);
}

/**
 * How fast output leaves at the most; 0: as fast as the peer takes it. What is held back counts
 * against the limits like any other output, and a close waits for it (Roth, "write transfer rate").
 * False where a framework has no timers (stage 4).
 */
static inline bool channel_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    return facade->verbs->set_write_rate != NULL &&
           facade->verbs->set_write_rate(facade, bytes_per_second);
}

/** Who is at the other end. */
static inline void channel_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    facade->verbs->peer(facade, endpoint);
}

/** Takes a reference, and gives one back. */
static inline void channel_retain(struct channel_facade *facade)
{
    facade->verbs->retain(facade);
}

static inline void channel_release(struct channel_facade *facade)
{
    facade->verbs->release(facade);
}

#endif
