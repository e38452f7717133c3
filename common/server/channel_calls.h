/*
 * Calls of a handler that are no messages: posts, timers, tasks with their results, and holds. The
 * call of an application is what links the part of the connection that does it (connection_posts.c,
 * connection_timers.c, connection_tasks.c, connection_hold.c).
 */
#ifndef COMMON_CHANNEL_CALLS_H
#define COMMON_CHANNEL_CALLS_H

#include "common/events/timer_tree.h"
#include "common/server/channel_facade.h"
#include "common/workers/future_task.h"

#include <assert.h>
#include <stdatomic.h>

struct channel_post;
typedef void channel_post_call(struct channel_post *self, struct channel_facade *facade);

/** A call that is to be made in a connection's own context: see channel_post(). All zero but: */
struct channel_post {
    /** The call. It comes like one of the handler's, and may use the facade like one. */
    channel_post_call *run;
    /**
     * Called once instead if the connection ends first. The facade must not be used any more. NULL:
     * there is nothing to do then.
     */
    void (*dropped)(struct channel_post *self);
    struct channel_facade *facade; /* what it was posted to */
    struct channel_post *next;     /* the connection's while it waits there */
    /* What `run` was, from channel_post() until one of the two is called; NULL: it does not wait.
     */
    _Atomic(channel_post_call *) waits;
};

/** A moment at which a call is to be made in a connection's own context: channel_set_timer(). */
struct channel_timer {
    /** The call. It comes like one of the handler's. All else is zero before it is set first. */
    void (*fired)(struct channel_timer *self, struct channel_facade *facade);
    struct channel_facade *facade; /* where it was set */
    struct tree_timer place;       /* the connection's while it is set */
    int64_t period;                /* ms; 0: it fires once */
};

enum {
    /** More tasks than this do not begin before one is back: no further message is handled. */
    CHANNEL_TASKS_MAX = 8,
};

/** Work that takes its time, and its result: channel_begin(). All zero but the functions. */
struct channel_task {
    /**
     * The work. It comes in another thread, beside the handler's calls, so it touches nothing but
     * what it brings along, and no facade. It may block.
     */
    void (*run)(struct channel_task *self);
    /** The result is in: comes like one of the handler's calls. It may free the task. */
    void (*completed)(struct channel_task *self, struct channel_facade *facade);
    /**
     * Called once instead of completed if the connection ends first: after `stopped`, by any
     * thread. The work may have been done or not. The facade must not be used any more. And if the
     * task was cancelled: then like one of the handler's calls, and the work was not done. NULL:
     * there is nothing to do then.
     */
    void (*dropped)(struct channel_task *self);

    /* The framework's, until completed or dropped is called. */
    struct future_task future;
    struct channel_post result;     /* brings it back to the connection */
    struct channel_facade *facade;  /* of the handler that began it */
    struct channel_facade *channel; /* of the connection */
    struct channel_task *next;      /* of the connection's, the one begun after it */
    uint8_t meanwhile;              /* enum channel_meanwhile */
    bool is_back;                   /* the result has arrived; it may wait for an older one */
    atomic_bool begun;              /* from channel_begin() until completed or dropped is called */
};

/**
 * That a handler waits for something before it handles more: channel_hold(). All zero but the
 * function. It is the caller's memory, mostly a part of its handler, and stays where it is until
 * `stopped`.
 */
struct channel_hold {
    /**
     * It goes on: comes like one of the handler's calls, before the next message. So an answer that
     * is enqueued here, in any stage, comes before those to the messages that have waited. It may
     * hold again. NULL: there is nothing to do then but to go on.
     */
    void (*went_on)(struct channel_hold *self, struct channel_facade *facade);

    /* The framework's. */
    struct channel_post post;  /* brings channel_go_on() to the connection */
    struct channel_hold *next; /* of those that a reactor has yet to hear of (told_list.h) */
    struct connection *connection;
    atomic_bool is_listed; /* it is one of those */
    atomic_bool is_told;   /* from channel_go_on() until the connection hears it */
    bool holds;            /* from channel_hold() until then */
    bool is_early;         /* the connection has heard it, and the handler does not hold yet */
};

/**
 * Has post->run called in the connection's own context: between two calls of its handler, never
 * beside one, after `started` and before `stopping`. So what only the handler touches needs no lock
 * even if another thread, a timer say, has news for it. Posts of one thread run in their order.
 *
 * The post is the caller's memory, and stays where it is until one of its two functions is called,
 * which may free it or post it again. It allocates nothing and cannot fail. A post that waits
 * already is not queued again, there or anywhere else: false. Then its call is still to come, and
 * sees what this thread has written before. So one post can stand for any number of news of one
 * kind. If the connection ends first, post->dropped is called after `stopped`: by the thread that
 * ends the connection, or, if it has ended already, by this one before channel_post() returns. So
 * do not hold a lock here.
 *
 * It costs a short lock, an atomic step and the wakeup that output costs. Posts run even while
 * output is choked or input is suspended. In stages 1 to 3 only the connection's own handler may
 * call this: its post runs when the call that it is in has returned.
 */
bool channel_post(struct channel_facade *facade, struct channel_post *post) NO_LOCK_HELD;

/**
 * Has timer->fired called in the connection's own context that many milliseconds from now, once;
 * later if the connection is running then, never earlier. A timer that is set already is moved.
 * Timers fire even while input is suspended or output waits. The handler's own calls only, with
 * those of posts and timers: another thread posts.
 *
 * The timer is the caller's memory, 56 bytes, and stays where it is while it is set. Setting it
 * needs no other memory and cannot fail. No thread waits for it, and nobody wakes up before it is
 * due. Once `stopping` is called no timer fires: those that are set are forgotten, and setting one
 * does nothing.
 */
void channel_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                       int64_t milliseconds);

/**
 * As channel_set_timer(), but it fires every so many milliseconds, at least 1, from now on. The
 * moments do not drift: if one fires late, the next still comes when it would have come. Those that
 * were missed altogether are left out.
 */
void channel_repeat_timer(struct channel_facade *facade, struct channel_timer *timer,
                          int64_t milliseconds);

/**
 * A timer that is set does not fire any more, unless it is set again; one that is not set is left
 * alone. The handler's own calls only. After the end: nothing, because no timer is set then.
 */
void channel_cancel_timer(struct channel_facade *facade, struct channel_timer *timer);

/**
 * Begins a task: task->run is called in a helper's thread (--helpers), and when it has returned,
 * task->completed in the connection's own context, like a post. In between nobody waits: the thread
 * that serves the connection goes on to others. Results come back in the order of the begins, also
 * when a later task is done sooner. With CHANNEL_WAITS no further message is handled, nor the
 * idle or the request timeout looked at, before the result is in; with CHANNEL_GOES_ON messages go
 * on. Where there are no helpers, in stages 1 to 3 and with --helpers 0, task->run is called before
 * this returns, and the rest is the same. So an application that begins tasks knows no stage.
 *
 * The handler's own calls only. The task is the caller's memory, and stays where it is until
 * `completed` or `dropped` is called, which may begin it again. A task that is under way already is
 * not begun again: false. Nothing is allocated, and nothing else can fail: if there is no helper
 * and none can be started, the calling thread does the work.
 *
 * A client that has ended its stream, or a server that stops, waits for the results, to the drain
 * timeout. If the connection ends sooner, a task that no helper has taken yet never runs, and each
 * is dropped.
 */
bool channel_begin(struct channel_facade *facade, struct channel_task *task,
                   enum channel_meanwhile meanwhile) NO_LOCK_HELD;

/**
 * Holds messages: from the end of this call of the handler on, none is handed over until
 * channel_go_on(). So a handler whose answer has to wait, for a lock, for news or for another
 * client, says so and returns, and no thread waits with it (but stage 1's own). What the client
 * sends meanwhile waits in the input queue; when that is full, no more is read. Output still
 * leaves, and timers, posts and results of tasks come. The client is not blamed: neither the idle
 * nor the request timeout runs; --lifetime does.
 *
 * A connection that the peer resets ends at once, and the handler hears `end_of_input`, `stopping`
 * and `stopped`. If the peer ends its stream, or the server stops, `left` comes at once: by default
 * the connection is closed then, unanswered. Behind more bytes than the input queue holds
 * (--max-line) the end of the stream is noticed by epoll, as long as the socket's receive buffer
 * has room for what is before it, but not by poll (--selector poll, stage 1). Where it is not, it
 * is seen when the handler goes on, or when something is sent to a client that is gone.
 *
 * The handler's own calls only. False if it holds already, or the connection ends: nothing is done.
 * It allocates nothing; in stage 1 the thread that waits takes a descriptor, to be woken by
 * (`descriptors` in application.h). Without one it notices later, after 50 ms at most.
 */
bool channel_hold(struct channel_facade *facade, struct channel_hold *hold);

/**
 * Ends a hold. Any thread, in all stages, whatever locks it holds; and before or after
 * channel_hold(): so a handler can first tell the others where to find it and then hold, and none
 * is lost in between. A hold that was told to go on before it began ends at once. Said twice before
 * the handler hears it, it is said once. So, as with a condition variable, `went_on` looks whether
 * what it has waited for is true, if more than one thread may say it.
 *
 * It costs a short lock, and a wakeup if the connection rests. After the end: nothing. But the hold
 * and the facade have to be there still. In stages 4 and 5 a reference sees to that. In stages 1 to
 * 3 a reference keeps nothing, so there, and best everywhere, the handler is found in a list with a
 * lock, goes out of it in `stopping`, and whoever has found it says this under that lock.
 */
void channel_go_on(struct channel_facade *facade, struct channel_hold *hold);

/**
 * Cancels a task that is under way and that no helper has taken yet: it never runs. When it would
 * have been its turn `dropped` is called instead of `completed`, and until then the task stays
 * where it is. False if it is too late: then its result comes. The handler's own calls only.
 */
bool channel_cancel_task(struct channel_task *task);

/* How the framework makes the calls; what gives back a post or a task is in channel_calls_back.h.
 */

/* Before it fires one that repeats is set again. Moments that are over already are left out. */
static inline void channel_timer_set_next(struct channel_timer *timer, struct timer_tree *timers,
                                          int64_t now)
{
    int64_t missed = timer->period > 0 ? (now - timer->place.moment) / timer->period : 0;
    if (timer->period > 0)
        timer_tree_set(timers, &timer->place, timer->place.moment + (missed + 1) * timer->period);
}

static inline void channel_timer_fire(struct channel_timer *timer) NO_LOCK_HELD
{
    assert(timer->facade != NULL); /* else its owner has written it while it was set */
    timer->fired(timer, timer->facade);
}

static inline void channel_hold_end(struct channel_hold *hold,
                                    struct channel_facade *facade) NO_LOCK_HELD
{
    if (hold->went_on != NULL)
        hold->went_on(hold, facade);
}

static inline void channel_task_run(struct channel_task *task) NO_LOCK_HELD
{
    task->run(task);
}

#endif
