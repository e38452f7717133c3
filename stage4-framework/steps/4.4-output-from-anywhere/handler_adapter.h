/*
 * The handler adapter: what the framework keeps of a connection, wrapped around the application's
 * handler (Hitchens, "Dispatcher Framework Architecture").
 *
 * It is three things at once. To the dispatcher it is what is attached to a key. To a worker it is
 * a task (handler_future_task.h). To the handler it is a channel facade (channel_facade.c). It
 * keeps these threads apart: while a worker runs it, the dispatcher does not touch the connection,
 * and what other threads ask for takes effect between two calls of the handler (Hitchens, "While a
 * Worker Thread Is Running").
 *
 * Interface:
 * - The connection has one runner (connection.h), the thread that owns the fields without a lock:
 *   until it is registered, the thread that registers it; then the worker while the adapter runs,
 *   and the dispatcher's thread while it does not.
 * - A reference keeps the memory, not the connection. The dispatcher holds one as long as the
 *   adapter is registered; applications may hold more through the facade. An accepted connection
 *   gives its place (admission.h) back with the last one.
 * - Order of locks: the state lock, then the output's.
 */
#ifndef HANDLER_ADAPTER_H
#define HANDLER_ADAPTER_H

#include "common/events/selector.h"
#include "common/events/timer_heap.h"
#include "common/server/connection_shared.h"
#include "handler_future_task.h"

struct dispatcher;

struct handler_adapter {
    struct connection connection; /* its facade is the adapter's */
    struct dispatcher *dispatcher;
    atomic_size_t references;
    struct mutex output_lock; /* the connection's, because other handlers may send to it */

    /* Coordination: Hitchens' stateChangeLock. */
    struct mutex state_lock;
    struct handler_adapter *next_changed;     /* the status-change queue's */
    bool running GUARDED_BY(&state_lock);     /* a worker runs it, or soon will */
    bool queued GUARDED_BY(&state_lock);      /* it is in the status-change queue */
    bool dead GUARDED_BY(&state_lock);        /* it will never run again */
    bool again GUARDED_BY(&state_lock);       /* its last run wants another one */
    uint8_t watching GUARDED_BY(&state_lock); /* interest that was last set, or soon will be */

    /* The run. */
    uint8_t ready; /* what the key was ready for when the run was prepared */
    struct handler_future_task run;

    /* The dispatcher's. */
    struct selection_key key;
    struct timer timer; /* fires at the earliest deadline */

    alignas(int64_t) unsigned char memory[]; /* the application's handler */
};

/** What the dispatcher has to do about an adapter that was in the status-change queue. */
enum adapter_status {
    ADAPTER_IS_RUNNING, /* nothing: it will be back */
    ADAPTER_WANTS_RUN,  /* run it, event or not */
    ADAPTER_WANTS_REST, /* wait for events: *interest */
    ADAPTER_IS_DEAD,    /* unregister it */
};

/**
 * An adapter that is not registered yet, with one reference; it owns fd. It counts as running: the
 * thread that registers it is the runner until then. NULL without memory; fd stays the caller's.
 */
struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd,
                                               struct input_handler_factory *factory) NO_LOCK_HELD;

/** Before a run, in the dispatcher's thread. False if it runs already or is dead. */
bool handler_adapter_prepare_to_run(struct handler_adapter *adapter, unsigned ready);

/**
 * The run is over: gives the adapter back to the dispatcher. The runner's last call, because the
 * adapter may be freed when it returns. With RUN_NONE the caller holds the guard, whose wakeup is
 * enough: the dispatcher looks into its queue before it sleeps.
 */
void handler_adapter_done(struct handler_adapter *adapter, enum run_outcome outcome);

/**
 * What to do about an adapter that was taken out of the queue. With ADAPTER_WANTS_REST, *interest
 * is what to wait for. The dispatcher's thread.
 */
enum adapter_status handler_adapter_status(struct handler_adapter *adapter, unsigned *interest);

/**
 * Sets and resets requests to the connection (enum connection_request). While the adapter runs,
 * they take effect before its next message. Any thread.
 */
void handler_adapter_ask(struct handler_adapter *adapter, unsigned set, unsigned reset);

/** Ends the connection at once, for that reason, and drops what is queued. Any thread. */
void handler_adapter_end(struct handler_adapter *adapter, enum end_reason reason);

/**
 * To be called after an enqueue, with its result, unless that is OUTPUT_FLOWING: queues the adapter
 * if the dispatcher has to know of the output. Any thread.
 */
void handler_adapter_output(struct handler_adapter *adapter, enum output_result result);

/**
 * Checks the deadlines, and makes the adapter run if one has passed. Returns the moment of the next
 * check; INT64_MAX: none before the adapter rests again. The dispatcher's thread.
 */
int64_t handler_adapter_expire(struct handler_adapter *adapter, int64_t now);

/** The adapter that a timer belongs to. */
struct handler_adapter *handler_adapter_of_timer(struct timer *timer);

/** Adds the bytes that it holds, of its input only while it is not running. The dispatcher's
 * thread. */
void handler_adapter_count_held(struct handler_adapter *adapter, uint64_t *output, uint64_t *input);

/** Takes a reference. Any thread that has one, or the runner. */
void handler_adapter_retain(struct handler_adapter *adapter);

/** Gives a reference back; the last one frees the adapter and its handler's memory. Any thread. */
void handler_adapter_release(struct handler_adapter *adapter);

/** How others send to every connection in this stage: channel_facade.c. */
extern const struct connection_sharing handler_adapter_sharing;

#endif
