/*
 * The handler adapter: what the framework keeps of a connection, wrapped around the application's
 * handler (Hitchens, "Dispatcher Framework Architecture").
 *
 * It is three things at once. To the dispatcher it is what is attached to a key. To a worker it is
 * a task: drain the output, fill the input, hand out messages. To the handler it is a channel
 * facade. Between these it keeps two threads apart: while a worker runs it, the dispatcher waits
 * for nothing from the connection, and what others want to change meanwhile is kept until the run
 * is over (Hitchens, "While a Worker Thread Is Running").
 *
 * Interface:
 * - It owns its socket, its key and its queues, from handler_adapter_create() on.
 * - Whose thread a field is, the groups in the struct say. "Runner" is the worker while the adapter
 *   runs, and the dispatcher's thread while it does not.
 * - A reference keeps the memory. The dispatcher holds one as long as the adapter is registered;
 *   applications may hold more through the facade.
 */
#ifndef HANDLER_ADAPTER_H
#define HANDLER_ADAPTER_H

#include "common/deadlines.h"
#include "common/input_handler.h"
#include "common/output_queue.h"
#include "common/selector.h"
#include "handler_future_task.h"

#include <stdatomic.h>

struct dispatcher;

/** How far the connection is, as the framework sees it. */
enum adapter_phase {
    ADAPTER_OPEN,      /* messages are read and handled */
    ADAPTER_DRAINING,  /* nothing is read any more, output is still leaving */
    ADAPTER_LINGERING, /* all is sent; waits for the peer's end of stream */
    ADAPTER_OVER,      /* nothing is left to wait for */
};

/** The life-cycle calls, in their order. */
enum adapter_life {
    LIFE_NONE,
    LIFE_STARTING,
    LIFE_STARTED,
    LIFE_END_OF_INPUT,
    LIFE_STOPPING,
    LIFE_STOPPED,
};

/** What others want of the connection. Bits. */
enum adapter_wish {
    WISH_READ = 1,  /* the application wants to hear of input */
    WISH_CLOSE = 2, /* close when the output has left */
    WISH_STOP = 4, /* likewise, but first answer what has arrived already: the server is stopping */
    WISH_END = 8,  /* end it at once */
    WISH_LATE = 16, /* its message is late: the handler says so, and then it is closed */
};

struct handler_adapter {
    struct channel_facade facade; /* first: what applications hold */
    struct dispatcher *dispatcher;
    atomic_size_t references;
    atomic_uint wishes; /* enum adapter_wish; changed under the state lock */

    /* The runner's. */
    struct input_handler *handler;
    struct handler_future_task run;
    struct input_queue input;
    struct deadlines deadlines;
    uint8_t phase;      /* enum adapter_phase */
    uint8_t life;       /* enum adapter_life: the last call that was made */
    uint8_t ready;      /* what the key was ready for when the run was prepared */
    bool end_of_stream; /* the peer has sent its last byte */
    uint8_t last_reads; /* how often it will still be read once the server is stopping */
    bool messages_left; /* whole messages may still be in the input queue, or part of an answer in
                           the handler */
    bool urgent;        /* goes first in a priority queue */

    /* Any thread's: it has a lock of its own. */
    struct output_queue output;

    /* Coordination: Hitchens' stateChangeLock. */
    struct mutex state_lock;
    bool running GUARDED_BY(&state_lock);     /* a worker has it, or soon will */
    bool queued GUARDED_BY(&state_lock);      /* it is in the status-change queue */
    bool dead GUARDED_BY(&state_lock);        /* it will never run again */
    uint8_t watching GUARDED_BY(&state_lock); /* interest that was last set, or soon will be */
    struct handler_adapter *next_changed;     /* the status-change queue's */

    /* The dispatcher's. */
    struct selection_key key;
    struct handler_adapter *previous;
    struct handler_adapter *next;
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
struct handler_adapter *handler_adapter_create(struct dispatcher *dispatcher, int fd, bool urgent,
                                               struct input_handler *handler);

/** Makes the life-cycle calls up to and including `goal` that have not been made. The runner. */
void handler_adapter_live_to(struct handler_adapter *adapter, enum adapter_life goal);

/** Before a run, in the dispatcher's thread. False if it runs already or is dead. */
bool handler_adapter_prepare_to_run(struct handler_adapter *adapter, unsigned ready);

/** Whether the run that was prepared must take place, whatever the executor's policy says. */
bool handler_adapter_must_run(const struct handler_adapter *adapter);

/** The run itself: the runner's. 0, or the error that ends the connection. */
int handler_adapter_call(struct handler_adapter *adapter);

/**
 * The run cannot take place, because the executor is saturated: gives one message up, with an
 * answer that says so or without, and is done. The thread that submits.
 */
void handler_adapter_refuse(struct handler_adapter *adapter, bool answer);

/**
 * The run is over: gives the adapter back to the dispatcher. The runner's last call; the adapter
 * may be gone when it returns.
 */
void handler_adapter_done(struct handler_adapter *adapter, int error);

/** What a status change comes to. The dispatcher's thread. */
enum adapter_status handler_adapter_status(struct handler_adapter *adapter, unsigned *interest);

/** Adds a wish. Any thread. */
void handler_adapter_wish(struct handler_adapter *adapter, enum adapter_wish wish);

/**
 * Looks at the deadlines and wishes for the end if one has passed. The moment to look again;
 * INT64_MAX: none. The dispatcher's thread.
 */
int64_t handler_adapter_expire(struct handler_adapter *adapter, int64_t now);

/**
 * Takes the socket away from an adapter whose handler has heard `stopped`: the descriptor, which is
 * the caller's again. Whoever still holds the facade cannot reach it any more.
 */
int handler_adapter_detach(struct handler_adapter *adapter);

/** Gives a reference back; the last one frees it. Any thread. */
void handler_adapter_release(struct handler_adapter *adapter);

#endif
