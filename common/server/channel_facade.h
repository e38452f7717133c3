/*
 * A connection as its handler sees it (Hitchens, "A Handler's View of the World"): queues to take
 * from and to put into, and a few words to the framework. What implements it is the framework's
 * affair, or that of an element put between (stage 5).
 *
 * Interface: each call says who may make it; "the handler's own calls" are those of its verbs, and
 * of its posts, timers and tasks, of which no two come at a time. What holds for all:
 *
 *   any thread          enqueue, suspend, resume, close, reset, finish, post, go_on,
 *                       set_write_rate, peer, end_reason, retain, release: also the handler of
 *                       another connection, with a reference
 *   handler's own       input, flush, set_handler, set_timer, repeat_timer, cancel_timer, hold,
 *                       begin, cancel_task, connect
 *   before publication  what an application and its verbs say: before the server opens it; what a
 *                       pairing or a group says: before `start` returns; what others read of a
 *                       client without a lock: before channel_retain() for them, or group_join()
 *   the framework's     a post while it waits, a timer while it is set, a task under way, and a
 *                       hold from channel_hold() to `went_on`: its owner does not write it, either
 *
 * Who notices that it was broken (an assert: in a build without NDEBUG):
 *
 *   another's facade    each of the handler's own but connect and cancel_task asserts that the
 *                       thread's run is that connection's, and a strand's facade that the thread is
 *                       inside. Not seen: another thread than a handler's in stages 1 to 3; input
 *                       in a thread that has no run
 *   used after release  every verb says so in words and aborts, in every build: stages 4 and 5, as
 *                       long as the memory has no new owner, and a rehearsal always. Not in stages
 *                       1 to 3. A release that nobody has retained is an assert; and so is, when
 *                       the server ends, a reference to a client that nobody has given back (of an
 *                       outgoing connection: in a rehearsal only)
 *   the framework's     asserts when the call comes of a post, a task or a timer that was written
 *                       meanwhile as a whole; and of a post's `run`, also in channel_post(). Not of
 *                       another field, nor of a timer that is then set
 *   after publication   asserts, at each new client and at the end, that an application with
 *                       `verbs` and these are as they were; in application_server() and
 *                       application_data() that a handler has the verbs that it was given. All
 *                       else only ThreadSanitizer sees, and an `open` with its factory nobody
 *
 * - In stages 1 to 3 only the connection's own handler calls anything, but for go_on, which any
 *   thread may call. An application that needs more says so (enum stage_offer in application.h).
 * - None waits for the peer or for another thread's work. But a call that enqueues can send at
 *   once, and sending a file reads the disk, which may take its time.
 * - None fails for want of memory but enqueue and set_write_rate, which end the connection then,
 *   and connect, which returns ENOMEM.
 * - Where a call's comment names no cost, it is that of a short lock, and of a wakeup if the
 *   connection rests: one write(2), and none if the dispatcher is awake.
 * - A facade is good during its own handler's calls. A handler that gives it to others, as a list
 *   of users does, keeps a reference for them; then it is good until the reference is given back.
 * - Once its output has ended, and at the latest after `stopped`, it takes none any more
 *   (OUTPUT_BROKEN). What it accepted before leaves, unless the connection is lost.
 * - After `stopped` such a facade drops what is posted at once, still tells the peer and the
 *   reason, and ignores everything else.
 */
#ifndef COMMON_CHANNEL_FACADE_H
#define COMMON_CHANNEL_FACADE_H

#include "common/base/lock.h"
#include "common/bytes/input_queue.h"
#include "common/bytes/output_chain.h"
#include "common/server/end_reason.h"
#include "common/server/endpoint.h"

struct channel_facade;
struct input_handler;
struct input_handler_factory;

/* Calls that are no messages: channel_calls.h. */
struct channel_post;
struct channel_timer;
struct channel_task;
struct channel_hold;

/** What becomes of a connection's messages while a task of it is under way. */
enum channel_meanwhile {
    CHANNEL_WAITS,   /* none is handled before the result is in */
    CHANNEL_GOES_ON, /* they are handled, until CHANNEL_TASKS_MAX tasks are under way */
};

struct channel_facade_verbs {
    /* What an element stands before; NULL: this is the connection's own. */
    struct channel_facade *(*outer)(struct channel_facade *facade);
    struct input_queue *(*input)(struct channel_facade *facade);
    enum output_result (*enqueue)(struct channel_facade *facade, struct piece piece);
    enum output_result (*flush)(struct channel_facade *facade);
    void (*set_handler)(struct channel_facade *facade, struct input_handler *handler);
    void (*suspend)(struct channel_facade *facade);
    void (*resume)(struct channel_facade *facade);
    void (*close)(struct channel_facade *facade);
    void (*reset)(struct channel_facade *facade);
    void (*finish)(struct channel_facade *facade);
    int (*connect)(struct channel_facade *facade, const struct endpoint *to, int64_t timeout,
                   struct input_handler_factory *factory);
    /* Only strands have these (strand.c), and in stages 4 and 5 connections have `post`. NULL: the
     * functions of channel_calls.h do it themselves. */
    void (*post)(struct channel_facade *facade, struct channel_post *post);
    void (*set_timer)(struct channel_facade *facade, struct channel_timer *timer,
                      int64_t milliseconds);
    void (*cancel_timer)(struct channel_facade *facade, struct channel_timer *timer);
    void (*begin)(struct channel_facade *facade, struct channel_task *task,
                  enum channel_meanwhile meanwhile);
    bool (*set_write_rate)(struct channel_facade *facade, uint64_t bytes_per_second);
    int (*peer)(struct channel_facade *facade, struct endpoint *endpoint);
    enum end_reason (*end_reason)(struct channel_facade *facade);
    void (*retain)(struct channel_facade *facade);
    void (*release)(struct channel_facade *facade);
};

struct channel_facade {
    const struct channel_facade_verbs *verbs;
};

/**
 * What has been received. The handler's own calls only. It costs nothing; using the queue may move
 * or drop the bytes of the message that was handed out last. In `stopped` it is still there.
 */
static inline struct input_queue *channel_input(struct channel_facade *facade)
{
    return facade->verbs->input(facade);
}

/**
 * Sends a piece (output_chain.h: a copy of bytes, a shared message or a range of a file) as soon as
 * the peer takes it. Any thread. While the connection's own handler runs, output is held back and
 * leaves together at the end of the run, unless there is nothing that it could leave with
 * (one_piece in input_handler.h). So is output that a handler sends to other connections, but only
 * while more of its own messages wait: with the last of them all leaves at once (burst.h). A range
 * of a file counts as waiting output until it has left, so with a long one the handler's next
 * message has to wait.
 *
 * It costs a copy of the bytes, or a reference to a shared message, and the system call with which
 * they leave, unless they are held back. A connection that has more than the cap waiting is
 * disconnected; the result says so, and need not be looked at. After the end: OUTPUT_BROKEN.
 */
static inline enum output_result channel_enqueue(struct channel_facade *facade, struct piece piece)
{
    return facade->verbs->enqueue(facade, piece);
}

/**
 * Sends what is held back, in the middle of a call: before work that takes its time, so that a
 * client need not wait for answers that are there already, nor others for what this run has sent
 * them (burst.h). It sends as much as the socket takes at once and never waits; the rest, and a
 * range of a file, leaves at the end of the run as always.
 * The handler's own calls only. It costs the system call that the end of the run would make, so
 * flush before something slow, and not after each answer. After the end: OUTPUT_BROKEN.
 */
static inline enum output_result channel_flush(struct channel_facade *facade)
{
    return facade->verbs->flush(facade);
}

/**
 * From the next call on, another handler serves the connection: it gets the messages that follow
 * and the rest of the life cycle, without a `starting` of its own. The old one is not called again.
 * It has to live as long as the connection; in the same struct it does. The handler's own calls
 * only. It costs nothing. In `stopped` it comes too late and does nothing.
 */
static inline void channel_set_handler(struct channel_facade *facade, struct input_handler *handler)
{
    facade->verbs->set_handler(facade, handler);
}

/**
 * Suspends input: from the end of this call of the handler on, nothing is read from the peer and no
 * message is handed over, until channel_resume(). Output still leaves, and timers fire. The peer is
 * not blamed for it: neither the idle nor the request timeout runs unless output waits for the
 * peer. A connection that the peer has reset, or the system has given up, ends at once, and what
 * had arrived is dropped; the peer's end of stream is not looked at before channel_resume(). When
 * the server stops, what has arrived is handed over all the same. Any thread; a change while the
 * handler runs takes effect when that call returns. After the end: nothing.
 */
static inline void channel_suspend(struct channel_facade *facade)
{
    facade->verbs->suspend(facade);
}

/**
 * Ends channel_suspend(). Messages that had been read before are handed over without an event. Any
 * thread. If input is not suspended, and after the end: nothing.
 */
static inline void channel_resume(struct channel_facade *facade)
{
    facade->verbs->resume(facade);
}

/**
 * Handles no more, sends what is queued, then closes: end_of_input and stopping come in the
 * handler's own context, soon. What the peer still sends is read and dropped, because a peer that
 * first sends all may not read before. Any thread. After the end: nothing.
 */
static inline void channel_close(struct channel_facade *facade)
{
    facade->verbs->close(facade);
}

/**
 * As channel_close(), but the peer is to know that this is no orderly end: what is queued arrives,
 * and then the connection is reset. A peer that does not take what is queued has the same time for
 * it as after channel_close(). Any thread. After the end: nothing.
 */
static inline void channel_reset(struct channel_facade *facade)
{
    facade->verbs->reset(facade);
}

/**
 * Ends the output: when what is queued has left, the peer sees the end of the stream, and nothing
 * more may be enqueued. Input goes on; the connection is over when both have ended. Any thread.
 * After the end: nothing.
 */
static inline void channel_finish(struct channel_facade *facade)
{
    facade->verbs->finish(facade);
}

/**
 * Connects to an address, without waiting, and has a handler of the factory's serve that
 * connection, behind the same elements as this one. The handler is made before this returns. Its
 * life begins like any other, with `starting`, when the connection has come about; if it does not,
 * the handler hears `not_connected` and nothing else. After so many milliseconds it is given up; 0:
 * when the system does. (The user's choice is settings.connect_timeout of the server.) It is no
 * client: --idle-timeout and --lifetime do not hold for it before it is closed, no policy of
 * saturation drops or refuses its messages, and --throttle does not slow it down. 0, or an errno:
 * no descriptor, no memory, no way to that address; then there is no handler.
 *
 * The handler's own calls only, before `stopped`, and only where the stage offers it
 * (OFFERS_CONNECTIONS). Costs a few system calls; a connection needs a descriptor.
 */
static inline int channel_connect(struct channel_facade *facade, const struct endpoint *to,
                                  int64_t timeout,
                                  struct input_handler_factory *factory) NO_LOCK_HELD
{
    return facade->verbs->connect(facade, to, timeout, factory);
}

/**
 * How fast output leaves at most; 0: as fast as the peer takes it. What is held back counts
 * against the limits like any other output, and a close waits for it (Roth's write transfer rate).
 * Any thread. It costs some memory, once for a connection, and a timer while output is held back.
 * False: the stage does not offer it (only stage 5 does), the connection has ended, or there is no
 * memory, which ends it.
 */
static inline bool channel_set_write_rate(struct channel_facade *facade, uint64_t bytes_per_second)
{
    return facade->verbs->set_write_rate != NULL &&
           facade->verbs->set_write_rate(facade, bytes_per_second);
}

/**
 * Who is at the other end. Known from `starting` on, and kept until the last reference is given
 * back; so it costs no system call. All zero if the peer was gone before anybody could ask the
 * system. The result is the connection's number, by which the log tells it from others: that of its
 * descriptor, which is the next connection's when this one is closed; a strand's is -1. Any thread.
 */
static inline int channel_peer(struct channel_facade *facade, struct endpoint *endpoint)
{
    return facade->verbs->peer(facade, endpoint);
}

/**
 * Why the connection ends: from `stopping` on, and for as long as there is a reference. END_NONE
 * before it begins to end. Any thread; an atomic read.
 */
static inline enum end_reason channel_end_reason(struct channel_facade *facade)
{
    return facade->verbs->end_reason(facade);
}

/**
 * Takes a reference: the facade and its handler's memory stay until it is given back, and the
 * connection ends when it ends all the same. Until then an accepted connection also has its place
 * among --max-connections: whoever goes on working for it, as a relay's other end does, counts as a
 * part of it. Any thread that may use the facade already. An atomic step; in stages 1 to 3, where
 * nobody else gets to know the facade, nothing.
 */
static inline void channel_retain(struct channel_facade *facade)
{
    facade->verbs->retain(facade);
}

/**
 * Gives a reference back. The caller must not use the facade any more, nor the handler's memory:
 * the last one frees both. Any thread, also after the end. Hold no lock that is in that memory.
 * What the caller has posted before is run or dropped before the memory goes, so a post in it may
 * be followed by the release.
 */
static inline void channel_release(struct channel_facade *facade)
{
    facade->verbs->release(facade);
}

/**
 * Sends a text, as printf(3) formats it: as channel_enqueue(), with its threads, cost and result. A
 * text of more than 1,023 bytes is put together on the heap; without memory for that the connection
 * is closed, and the result is OUTPUT_BROKEN.
 */
__attribute__((format(printf, 2, 3))) enum output_result channel_printf(
    struct channel_facade *facade, const char *format, ...);

enum {
    /** What channel_describe() writes, with its zero. */
    CHANNEL_TEXT_SIZE = ENDPOINT_TEXT_SIZE + 20,
};

/**
 * For a line of the log: `peer=127.0.0.1:4711 fd=9`, which is what channel_peer() knows. Its
 * threads are that call's, and it costs the formatting only.
 */
void channel_describe(struct channel_facade *facade, char text[CHANNEL_TEXT_SIZE]);

/**
 * For the framework: nobody has a reference any more, so the memory goes. From now on each verb
 * says on standard error that it was called too late, and aborts, as long as the memory has no new
 * owner.
 */
void channel_facade_end(struct channel_facade *facade);

#endif
