/*
 * How the framework calls a handler: in which order, in which threads, and what may block.
 *
 * The calls of one connection come in this order, in which * is any number of times, ? is once or
 * not at all, and | is one or the other:
 *
 *   life     unused | not_connected | starting started turn* end
 *   turn     is_urgent? timer* drained? call* left? ( last | message* )
 *   message  continue_output? ( next_message ( handle_input | refuse_input )? )? call*
 *   call     the `run` of a post | the `completed` of a task | the `went_on` of a hold
 *   timer    the `fired` of a timer
 *   last     timed_out | idle                             no message comes after it
 *   end      end_of_input half* stopping stopped late*
 *   half     timer* drained? call* last?                  turns in between, with `duplex` only
 *   late     the `dropped` of a post or a task that came too late
 *
 * So each life-cycle call comes exactly once, even if the connection ends before there was a
 * message, and continue_output comes before handle_input, even before the very first one; where one
 * thread finds a message and another one handles it (stage 3), next_message comes first. `unused`
 * comes instead of all others if the connection ends before anybody knows whose it is
 * (--proxy-protocol); `not_connected` does if channel_connect() could not connect.
 *
 * Interface:
 * - The calls for one connection never overlap, and each sees what those before it did; but they
 *   may come in different threads. starting comes in the thread that accepts, before any other one
 *   knows of the connection; but where handlers run in stage 1, behind a proxy and for
 *   channel_connect(). The others come where handlers run: in the connection's thread (stage 1), in
 *   the reactor (2), in the reactor or a worker (3), in a worker (4, 5), or in the dispatcher (5
 *   without workers). All come in the thread that accepts if the connection cannot be registered.
 * - What may block: handle_input, the calls of posts and timers, completed, drained, timed_out and
 *   idle may, as far as the other clients of the stage can wait; a task's `run` may, in a helper.
 *   is_urgent, next_message, continue_output, refuse_input, left, `dropped` and the life cycle must
 *   not, because these may come in the reactor's or the dispatcher's thread, which serves all
 *   connections: if the workers are saturated, stages 3 to 5 refuse a message there. Every call
 *   comes in that thread in stage 2, without workers, and if none can be started; under caller-runs
 *   any may.
 * - Output is held back during a turn and leaves at its end by one system call, even if another
 *   connection's handler has enqueued it (but see one_piece). So a handler that blocks also delays
 *   the answers that it has enqueued before, and what other clients have sent to this one. Call
 *   channel_flush() before something slow, or begin a task (channel_begin()) instead of blocking.
 * - No lock is held during a call; `make lint` proves it. The framework calls an application
 *   through the functions of this header and of channel_calls.h, and the compiler
 *   refuses them to a caller that holds a lock.
 */
#ifndef COMMON_INPUT_HANDLER_CALLS_H
#define COMMON_INPUT_HANDLER_CALLS_H

#include "common/server/input_handler.h"

#include <assert.h>

/**
 * What the framework has to know of a handler before it calls it: which of its verbs and flags make
 * a difference even when they are not called. Bits, found once, when its table is completed.
 */
enum handler_trait {
    TRAIT_ONE_PIECE = 1,     /* it answers with one piece at most */
    TRAIT_CONTINUES = 2,     /* its answers can be longer than one call */
    TRAIT_HOLDS_INPUT = 4,   /* bytes may wait in it that are not in the input queue any more */
    TRAIT_HEARS_DRAINED = 8, /* it waits for output that was choked */
    TRAIT_DUPLEX = 16,       /* its two directions are independent of each other */
    TRAIT_HEARS_LATE = 32,   /* it has a word for a client whose message is late */
    TRAIT_HEARS_IDLE = 64,   /* and for one that was idle for too long */

    /* A connection does not keep these; a member of a strand's group must have both. */
    TRAIT_HEARS_LEFT = 256,
    TRAIT_HEARS_STOPPING = 512,
};

/** For who begins to call a handler. */
static inline unsigned input_handler_traits(const struct input_handler *handler)
    NO_THREAD_SAFETY_ANALYSIS
{
    assert(handler->verbs->stopped != NULL); /* else nobody has called input_handler_complete() */
    return handler->verbs->traits;
}

static inline struct input_handler *input_handler_create(
    struct input_handler_factory *factory, void *memory) NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return factory->create(factory, memory);
}

static inline enum framing_result input_handler_next_message(
    struct input_handler *handler, struct channel_facade *facade,
    struct message *message) NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return handler->verbs->next_message(handler, facade, message);
}

static inline bool input_handler_handle_input(struct input_handler *handler, struct message message,
                                              struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return handler->verbs->handle_input(handler, message, facade);
}

static inline void input_handler_refuse_input(struct input_handler *handler, struct message message,
                                              struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->refuse_input(handler, message, facade);
}

static inline bool input_handler_is_urgent(struct input_handler *handler,
                                           struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return handler->verbs->is_urgent(handler, facade);
}

static inline bool input_handler_continue_output(struct input_handler *handler,
                                                 struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return handler->verbs->continue_output(handler, facade);
}

static inline void input_handler_drained(struct input_handler *handler,
                                         struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->drained(handler, facade);
}

/** Whether bytes wait that are not in the channel's input any more. */
static inline bool input_handler_holds_input(const struct input_handler *handler)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    return handler->verbs->holds_input(handler);
}

static inline void input_handler_timed_out(struct input_handler *handler,
                                           struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->timed_out(handler, facade);
}

static inline void input_handler_idle(struct input_handler *handler, struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->idle(handler, facade);
}

static inline void input_handler_left(struct input_handler *handler, struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->left(handler, facade);
}

static inline void input_handler_unused(struct input_handler *handler)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->unused(handler);
}

static inline void input_handler_not_connected(struct input_handler *handler,
                                               int error) NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->not_connected(handler, error);
}

static inline void input_handler_starting(struct input_handler *handler,
                                          struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->starting(handler, facade);
}

static inline void input_handler_started(struct input_handler *handler,
                                         struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->started(handler, facade);
}

static inline void input_handler_end_of_input(struct input_handler *handler,
                                              struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->end_of_input(handler, facade);
}

static inline void input_handler_stopping(struct input_handler *handler,
                                          struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->stopping(handler, facade);
}

static inline void input_handler_stopped(struct input_handler *handler,
                                         struct channel_facade *facade)
    NO_LOCK_HELD NO_THREAD_SAFETY_ANALYSIS
{
    handler->verbs->stopped(handler, facade);
}

#endif
