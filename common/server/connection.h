/*
 * A connection: the handler of the application, bytes in both directions, deadlines, and an end.
 * This is the same in all stages. They differ in which thread runs it, so a connection knows no
 * thread and no selector: a stage waits for what the connection wants, and then one of its threads
 * runs it. A run is Lea's row, "read, process, send":
 *
 *   connection_receive()  if the socket can be read
 *   connection_handle()   calls the application's handler; replies are held back meanwhile, but one
 *                         to a message that came alone leaves in that call (`one_piece`)
 *   connection_send()     sends these and what waited before, and decides how to go on
 *
 * connection_wants() then says what the next run has to wait for, and connection_deadline() for how
 * long. All that protects a server from its clients is here, once: framing, turns, corking,
 * deadlines, the lingering close, refusals, the orderly stop, and running out of memory.
 *
 * This is the core, which every program has: connection.c (its life), connection_input.c
 * (bytes), connection_turn.c (messages), connection_output.c, connection_times.c and
 * connection_facade.c. What not every program needs is a part in a file of its own, which the
 * linker takes only if somebody calls it:
 *
 *   connection_find.c      one thread looks for messages, another one handles them: stages 3 to 5
 *   connection_shared.c    others send to it as well: stages 4, 5
 *   connection_held.c      how much output it holds: the gauges of stages 4, 5
 *   connection_rate.c      how fast its output leaves at most: C.32, stage 5
 *   connection_posts.c, connection_timers.c, connection_tasks.c, connection_hold.c
 *                          an application that uses them
 *   connection_outgoing.c  a connection that we have asked for: stages 4, 5
 *   connection_header.c    a connection that comes through a proxy: --proxy-protocol
 *   connection_feed.c      input that no socket has read: tests, and the proactor
 *
 * What a stage calls of them is in connection_find.h, connection_shared.h, connection_header.h and
 * connection_feed.h, and what an application calls in channel_calls.h.
 *
 * A part touches the core in three places: functions that the core calls when a connection uses the
 * part (struct connection_part), bits in `marks`, and ASK_CALLS in `asked`, which wants a run.
 *
 * Interface:
 * - Only one thread at a time, the runner, may call these functions. Between two runners there has
 *   to be a lock of the stage, or the start of a thread, so that the second sees what the first has
 *   done. There are exceptions for stages 4 and 5, where others send to a connection while it runs:
 *     requests  atomics (`asked`, `end_reason`). Any thread calls connection_ask() and
 *               connection_end_because().
 *     posts     one atomic, too. Any thread calls connection_post().
 *     output    has a lock if its home shares it (struct connection_sharing). Then any thread calls
 *               connection_enqueue(), connection_release_output() and
 *               connection_set_write_rate() (connection_shared.h).
 *     its state an atomic in the output chain, so that "is it choked?" needs no lock.
 *   A thread that asks, posts or enqueues makes sure that a run, or a call of connection_wants(),
 *   follows.
 * - No lock is held while the handler is called.
 * - With a non-blocking socket no call blocks, unless the application's handler does. With a
 *   blocking socket connection_receive() and connection_send() block: that is stage 1.
 */
#ifndef COMMON_CONNECTION_H
#define COMMON_CONNECTION_H

#include "common/base/container_of.h"
#include "common/events/selection.h"
#include "common/events/timer_tree.h"
#include "common/server/input_handler_calls.h"
#include "common/server/run.h"
#include "common/server/server.h"

/**
 * What a connection wants: SELECT_READ, SELECT_WRITE, both, SELECT_LOSS with or without SELECT_END,
 * SELECT_NOTHING, or one of these.
 */
enum {
    CONNECTION_RUN = 32,  /* to be run without waiting for an event: there is more to do */
    CONNECTION_OVER = 64, /* nothing any more: the handler has heard `stopped` */
};

/** What is asked of a connection, by any thread. Bits; mostly nothing is asked. */
enum connection_request {
    ASK_SUSPEND = 1, /* do not call the handler for input, and read none */
    ASK_CLOSE = 2,   /* read no more, and close when the output has left */
    ASK_STOP = 4,    /* the server stops: answer what has arrived already, then close */
    ASK_END = 8,     /* end at once: what the socket does not take then is dropped */
    ASK_FINISH = 16, /* end the output when all of it has left; input goes on */
    ASK_RESET = 32,  /* with ASK_CLOSE: when the peer has got all output, reset the connection */
    ASK_CALLS = 64,  /* make calls that are no messages: a post waits, or a timer is due */
};

/**
 * What is not as it is for most lines. Bits, the runner's. An ordinary line finds few of them set
 * (MARKS_OF_MESSAGES), and none between runs, and nothing asked, so one test is enough for it.
 */
enum connection_mark {
    MARK_NEW = 1 << 0,      /* the handler has not heard `started` */
    MARK_SILENT = 1 << 1,   /* no message of the peer's was handled yet */
    MARK_MORE = 1 << 2,     /* messages may wait in the input queue, or an answer in the handler */
    MARK_PART = 1 << 3,     /* the beginning of a message waits for its end */
    MARK_RECEIVED = 1 << 4, /* in this run: its time is counted when the run ends */
    MARK_INPUT_OVER = 1 << 5, /* no more is read: the peer has ended, or the server stops */
    MARK_PEER_ENDED = 1 << 6, /* the peer has sent its last byte */
    MARK_FINISHED = 1 << 7,   /* and we have sent ours */
    MARK_HUNG_UP = 1 << 8,    /* both have ended the stream: it cannot be lost any more */
    MARK_BROKEN = 1 << 9,     /* the peer, memory, or the handler's patience is gone */
    MARK_LATE = 1 << 10,      /* a deadline has passed (`late`), and the handler may say so */
    MARK_GRACE = 1 << 11,     /* the server stops, and the peer may still say its first message */
    MARK_RESTS = 1 << 12,     /* it waits for neither reading nor writing: connection_wants() */
    MARK_HELD_BACK = 1 << 13, /* output waits for the write rate, and not for the socket */
    MARK_BEGUN = 1 << 14,     /* tasks are under way, and input does not end before they are back */
    MARK_WAITS = 1 << 15,     /* no message may be handled before one of them is back */
    MARK_HELD = 1 << 16,      /* no message before the handler goes on: channel_hold() */
    MARK_LEFT = 1 << 17,  /* it has heard meanwhile that the peer has ended, or the server stops */
    MARK_SENDS = 1 << 18, /* the peer has sent something that nobody wanted any more */
    MARK_CLOCK = 1 << 19, /* a clock has begun or run out since connection_deadline() was asked */
};

/** A trait beside those of its handler (enum handler_trait). */
enum {
    TRAIT_OUTGOING = 128, /* we have asked for the connection: connection_outgoing.c */
};

/** How far a connection is. */
enum connection_phase {
    /* The handler does not know of it yet: */
    CONNECTION_CONNECTING, /* we have asked for it, and wait for the answer */
    CONNECTION_ARRIVING,   /* a proxy has yet to say whose connection it is */

    CONNECTION_OPEN,      /* messages are read and handled */
    CONNECTION_DRAINING,  /* output is still leaving; what comes is dropped */
    CONNECTION_LINGERING, /* all is sent; waits for the peer's end of stream */
    CONNECTION_RESETTING, /* all is sent; waits until the peer has it, because a reset drops it */
    CONNECTION_ENDED,     /* nothing is left to wait for */
};

/** The life-cycle calls of a handler, in their order. */
enum connection_life {
    LIFE_NONE,
    LIFE_STARTING,
    LIFE_STARTED,
    LIFE_END_OF_INPUT,
    LIFE_STOPPING,
    LIFE_STOPPED,
};

/** What a run does with messages. */
enum connection_messages {
    HANDLE_MESSAGES, /* calls the handler for them, a turn's worth */
    REFUSE_MESSAGE,  /* no worker takes the next one; the handler may say so (refuse_input) */
    DROP_MESSAGE,    /* drops the next one without an answer */
};

/** A message that was found and waits for a thread that handles it. Starts as all zero. */
struct connection_message {
    const unsigned char *data;
    uint32_t length; /* at most the input queue's limit */
    uint8_t result;  /* enum framing_result */
    bool found;
};

struct arrival; /* of a connection that comes through a proxy: connection_header.c */
struct connection {
    /* Of parts; all zero while it uses none. The runner's, but for the posts. */
    _Atomic(struct channel_post *) posts; /* the newest one; each knows the one before it */
    struct timer_tree timers;             /* the application's */
    union {
        struct channel_task *begun; /* the task begun last, which knows the first one; NULL: none */
        struct arrival *arrival;    /* while it is CONNECTION_ARRIVING; NULL: no memory */
        uint32_t connect_timeout;   /* while it is CONNECTION_CONNECTING; ms, 0: none */
    };

    /*
     * What the handler holds. It does not come first, because there the allocator writes when the
     * memory goes, and a facade that is used too late can say so mostly (channel_facade_end()).
     */
    struct channel_facade facade;
    struct input_handler *handler;

    /* Any thread's. */
    atomic_uchar asked;      /* enum connection_request */
    atomic_uchar end_reason; /* enum end_reason */

    /*
     * The runner's; there may be a hundred thousand connections, so these are small. A compiler may
     * change one by reading and writing the four bytes around it, so they stand in words that no
     * other thread writes.
     */
    _Alignas(4) uint32_t marks; /* enum connection_mark */
    uint8_t traits;             /* enum handler_trait, and TRAIT_OUTGOING */
    uint8_t phase;              /* enum connection_phase */
    uint8_t life;               /* enum connection_life: the last call that was made */
    uint8_t late;               /* enum deadline: the one that has passed, with MARK_LATE */
    uint8_t reads_left;         /* how often it still reads once the server stops */
    bool blocks;                /* connection_send() may wait for the peer: stage 1 */
    struct deadlines deadlines;
    struct short_endpoint peer; /* not written any more once the handler knows of it */
    struct input_queue input;

    /* The runner's; where it is shared, any thread's that holds the output lock. */
    struct output_chain output; /* its fd is the connection's, its settings are those of its home */
};

/* ---- Beginning and end --------------------------------------------------------------------- */

/**
 * Begins with a new socket, which the connection owns from now on, and a handler, which it does not
 * call yet. If the server expects a proxy's header (--proxy-protocol), it calls the handler only
 * after that has arrived.
 */
void connection_open(struct connection *connection, const struct connection_home *home, int fd,
                     struct input_handler *handler);

/**
 * Makes those life-cycle calls up to `goal` that have not been made yet. An accepted connection
 * that ends before its handler has heard of it makes one call instead of them: `unused`.
 */
void connection_advance(struct connection *connection, enum connection_life goal) NO_LOCK_HELD;

/**
 * Ends the connection in any phase: calls the handler's `stopped`, and drops what waits. Returns
 * the descriptor, which the caller has to close. Other threads may still hold the facade, but no
 * longer reach the socket.
 */
int connection_detach(struct connection *connection) NO_LOCK_HELD;

/* ---- A run --------------------------------------------------------------------------------- */

/**
 * Reads from the socket into the input queue, without waiting if the socket is non-blocking. False
 * if nothing has come: no byte, no end of the stream, and no error.
 */
bool connection_receive(struct connection *connection);

/** Calls the handler: its life cycle, and messages as `how` says. */
void connection_handle(struct connection *connection, struct run *run,
                       enum connection_messages how) NO_LOCK_HELD;

/** Sends what the handler has answered and what waited before, and decides how it goes on. */
void connection_send(struct connection *connection, struct run *run) NO_LOCK_HELD;

/* ---- Between runs -------------------------------------------------------------------------- */

/**
 * What it wants now. SELECT_LOSS: to be run only if the peer resets the connection, which then ends
 * at once, because its handler has suspended input or waits for a task. With SELECT_END: also when
 * the peer ends its stream, because its handler holds messages, and no more of them have room.
 */
unsigned connection_wants(struct connection *connection);

/** Its home: the settings of its output are a part of that. */
static inline const struct connection_home *connection_home(const struct connection *connection)
{
    return container_of(connection->output.settings, const struct connection_home, output);
}

static inline struct server *connection_server(const struct connection *connection)
{
    return connection_home(connection)->server;
}

/** Counts for whoever looks after the connection. Any thread. */
static inline void connection_count(const struct connection *connection, enum counter counter,
                                    uint64_t count)
{
    counters_add(connection_home(connection)->counters, counter, count);
}

/** Whether it is over. Once it is, that does not change. */
static inline bool connection_is_over(const struct connection *connection)
{
    return connection->phase == CONNECTION_ENDED;
}

/** Whether one of these is asked. Any thread. */
static inline bool connection_is_asked(const struct connection *connection, unsigned requests)
{
    return (atomic_load(&connection->asked) & requests) != 0;
}

/** Sets and resets requests. True if that has changed any. Any thread. */
bool connection_ask(struct connection *connection, unsigned set, unsigned reset);

/** Keeps why the connection ends, unless another reason came first. Any thread. */
void connection_end_because(struct connection *connection, enum end_reason reason);

/* ---- Times --------------------------------------------------------------------------------- */

/**
 * When to call connection_expire(), in ms of clock_ms(); INT64_MAX: never, if nothing happens. Ask
 * once and keep the answer: of a lingering connection each call counts from now.
 * After a run that leaves no mark it is not before the one that was told last, because a clock that
 * begins, or has run out, leaves MARK_CLOCK until this is called.
 */
int64_t connection_deadline(struct connection *connection, int64_t now);

/** Checks all deadlines. True if the connection wants something else now, mostly to be run. */
bool connection_expire(struct connection *connection, int64_t now);

/**
 * Before a connection_send() that may block: output has the progress timeout to leave. False if
 * none waits, so that it will not.
 */
bool connection_will_block(struct connection *connection);

/* ---- The facade's verbs that are the same in all stages: connection_facade.c ----------------- */

struct input_queue *connection_facade_input(struct channel_facade *facade);
void connection_facade_set_handler(struct channel_facade *facade, struct input_handler *handler);
int connection_facade_peer(struct channel_facade *facade, struct endpoint *endpoint);
enum end_reason connection_facade_end_reason(struct channel_facade *facade);

/* ---- Posts: connection_posts.c --------------------------------------------------------------- */

/**
 * Asks for a call in one of the next runs, before `stopping`; posts are called in their order.
 * False after `stopped`: then the caller drops the post. What still waits when the connection ends
 * is dropped by the connection. Any thread.
 */
bool connection_post(struct connection *connection, struct channel_post *post);

#endif
