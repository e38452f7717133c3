/*
 * A connection: the handler of the application, bytes in both directions, deadlines, and an end.
 * This is the same in all stages. They differ in which thread runs it, so a connection knows no
 * thread and no selector: a stage waits for what the connection wants, and then one of its threads
 * runs it. A run is Lea's row, "read, process, send":
 *
 *   connection_receive()  if the socket can be read
 *   connection_handle()   calls the application's handler; replies are held back meanwhile
 *   connection_send()     sends these and what waited before, and decides how to go on
 *
 * connection_wants() then says what the next run has to wait for, and connection_deadline() for how
 * long. All that protects a server from its clients is here, once: framing, turns, corking,
 * deadlines, the lingering close, refusals, the orderly stop, and running out of memory.
 *
 * Interface:
 * - Only one thread at a time, the runner, may call these functions. Between two runners there has
 *   to be a lock of the stage, or the start of a thread, so that the second sees what the first has
 *   done. There are exceptions for stages 4 and 5, where others send to a connection while it runs:
 *     requests  atomics (`asked`, `end_reason`). Any thread calls connection_ask() and
 *               connection_end_because().
 *     posts     one atomic, too. Any thread calls connection_post().
 *     output    has a lock if connection_share() gave it one. Then any thread calls
 *               connection_enqueue(), connection_release_output() and
 *               connection_set_write_rate().
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
#include "common/events/selector.h"
#include "common/server/input_handler.h"
#include "common/server/proxy_protocol.h"
#include "common/server/server.h"

/**
 * What a connection wants: SELECT_READ, SELECT_WRITE, both, SELECT_LOSS, SELECT_NOTHING, or one of
 * these.
 */
enum {
    CONNECTION_RUN = 16,  /* to be run without waiting for an event: there is more to do */
    CONNECTION_OVER = 32, /* nothing any more: the handler has heard `stopped` */
};

/** What other parts of the program ask of a connection. Bits. */
enum connection_request {
    ASK_READ = 1,    /* call the handler for input; set unless the application suspends reading */
    ASK_CLOSE = 2,   /* read no more, and close when the output has left */
    ASK_STOP = 4,    /* the server stops: answer what has arrived already, then close */
    ASK_END = 8,     /* end at once, and drop what waits */
    ASK_FINISH = 16, /* end the output when all of it has left; input goes on */
    ASK_RESET = 32,  /* with ASK_CLOSE: when the peer has got all output, reset the connection */
};

/** How far a connection is. */
enum connection_phase {
    CONNECTION_OPEN,      /* messages are read and handled */
    CONNECTION_DRAINING,  /* nothing is read any more, output is still leaving */
    CONNECTION_LINGERING, /* all is sent; waits for the peer's end of stream */
    CONNECTION_RESETTING, /* all is sent; waits until the peer has it, because a reset drops it */
    CONNECTION_ENDED,     /* nothing is left to wait for */

    /* Before all that, and the handler does not know of it yet: */
    CONNECTION_ARRIVING,   /* a proxy has yet to say whose connection it is */
    CONNECTION_CONNECTING, /* we have asked for it, and wait for the answer */
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
    struct channel_facade facade; /* what the handler holds */
    struct input_handler *handler;

    /* Any thread's. */
    atomic_uchar asked;      /* enum connection_request */
    atomic_uchar end_reason; /* enum end_reason */

    /*
     * The runner's; there may be a hundred thousand connections, so these are small. A compiler may
     * read several of them at once, so they are four bytes that no other thread writes.
     */
    uint8_t reads_left;  /* how often it still reads once the server stops */
    bool blocks : 1;     /* connection_send() waits for the peer: stage 1 */
    bool input_over : 1; /* no more is read: the peer has ended, or the server stops */
    bool has_spoken : 1; /* a message of the peer's was handled */
    bool in_grace : 1;   /* the server stops, and the peer may still say its first message */
    bool rests : 1;      /* it waits for neither reading nor writing: see connection_wants() */
    bool hung_up : 1;    /* both have ended the stream: it cannot be lost any more */
    _Alignas(4) uint8_t phase; /* enum connection_phase */
    uint8_t life;              /* enum connection_life: the last call that was made */
    uint8_t late;              /* enum deadline: one has passed, and the handler may say so */
    bool has_received : 1;     /* in this run: its time is counted when the run ends */
    bool end_of_stream : 1;    /* the peer has sent its last byte */
    bool output_ended : 1;     /* and we have sent ours */
    bool outgoing : 1;         /* we have asked for it */
    bool broken : 1;           /* the peer, memory, or the handler's patience is gone */
    bool more_to_handle : 1; /* messages may wait in the input queue, or an answer in the handler */
    bool held_back : 1;      /* output waits for the write rate, and not for the socket */
    bool timer_due : 1;      /* the moment of one of the application's timers has come */
    uint32_t connect_timeout; /* ms; 0: none */
    struct deadlines deadlines;

    /* Not written any more once the handler knows of the connection. */
    union {
        struct arrival *arrival;    /* while it is CONNECTION_ARRIVING; NULL: no memory */
        struct short_endpoint peer; /* from then on */
    };

    /* Any thread's. */
    _Atomic(struct channel_post *) posts; /* the newest one; each knows the one before it */

    /* The runner's. */
    struct input_queue input;
    struct timer_tree timers;   /* the application's */
    struct channel_task *begun; /* the task begun last, which knows the first one; NULL: none */

    /* The runner's; with an output lock, any thread's that holds it. */
    struct mutex *output_lock;
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
 * Begins with a socket that is connecting (socket_connect()), which the connection owns from now
 * on. It calls the handler only when the socket has connected, or has failed to, which it also has
 * after so many milliseconds; 0: when the system says so.
 */
void connection_open_outgoing(struct connection *connection, const struct connection_home *home,
                              int fd, const struct endpoint *to, int64_t timeout,
                              struct input_handler *handler);

/**
 * Lets other threads send to the connection, right after connection_open(): verbs for its facade
 * that make sure that a run follows, and the lock that keeps output in order.
 */
void connection_share(struct connection *connection, const struct channel_facade_verbs *verbs,
                      struct mutex *output_lock);

/**
 * Makes those life-cycle calls up to `goal` that have not been made yet. An accepted connection
 * that ends before its handler has heard of it makes one call instead of them: `unused`.
 */
void connection_live_to(struct connection *connection, enum connection_life goal) NO_LOCK_HELD;

/**
 * Ends the connection in any phase: calls the handler's `stopped`, and drops what waits. Returns
 * the descriptor, which the caller has to close. Other threads may still hold the facade, but no
 * longer reach the socket.
 */
int connection_detach(struct connection *connection) NO_LOCK_HELD;

/* ---- A run --------------------------------------------------------------------------------- */

/** Reads from the socket into the input queue, without waiting if the socket is non-blocking. */
void connection_receive(struct connection *connection);

/**
 * Takes bytes that came from elsewhere, as if they had been read from the socket. No bytes are the
 * end of the stream. False if there is no room for all of them now: none is taken then.
 */
bool connection_give(struct connection *connection, const unsigned char *bytes, size_t length);

/** Calls the handler: its life cycle, and messages as `how` says. */
void connection_handle(struct connection *connection, enum connection_messages how) NO_LOCK_HELD;

/** Sends what the handler has answered and what waited before, and decides how it goes on. */
void connection_send(struct connection *connection) NO_LOCK_HELD;

/**
 * For a stage that looks for messages in one thread and handles them in another: whether there is
 * something for the handler. A message that was found is kept in *found, for the
 * connection_handle_found() that must follow.
 */
bool connection_find(struct connection *connection, struct connection_message *found) NO_LOCK_HELD;

/** As connection_handle(), beginning with what connection_find() has found. */
void connection_handle_found(struct connection *connection, enum connection_messages how,
                             struct connection_message *found) NO_LOCK_HELD;

/**
 * Whether the message that the next run is for goes before those of other connections: what a stage
 * with a priority queue asks when it has received, and before it looks for a worker.
 */
bool connection_is_urgent(struct connection *connection) NO_LOCK_HELD;

/**
 * Whether the next run must not be dropped, nor its message refused: because it does more than
 * handle messages, or because they are no client's requests but come by a connection that we have
 * asked for.
 */
bool connection_must_run(const struct connection *connection);

/* ---- Between runs -------------------------------------------------------------------------- */

/**
 * What it wants now. SELECT_LOSS: neither to read nor to write, because its handler has suspended
 * input or waits for a task, but to be run if the peer has reset the connection. Then it ends at
 * once; if the peer has only ended its stream, that is not looked at before input goes on.
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

/**
 * Asks for a call in one of the next runs, before `stopping`; posts are called in their order.
 * False after `stopped`: then the caller drops the post. What still waits when the connection ends
 * is dropped by the connection. Any thread.
 */
bool connection_post(struct connection *connection, struct channel_post *post);

/** Keeps why the connection ends, unless another reason came first. Any thread. */
void connection_end_because(struct connection *connection, enum end_reason reason);

/* ---- Times --------------------------------------------------------------------------------- */

/** When to call connection_expire(), in ms of clock_ms(); INT64_MAX: never, if nothing happens. */
int64_t connection_deadline(const struct connection *connection, int64_t now);

/** Checks all deadlines. True if the connection wants something else now, mostly to be run. */
bool connection_expire(struct connection *connection, int64_t now);

/**
 * Before a connection_send() that may block: output has the progress timeout to leave. False if
 * none waits, so that it will not.
 */
bool connection_will_block(struct connection *connection);

/* ---- Output -------------------------------------------------------------------------------- */

/** Output, as the facade's verbs want it. Any thread, if the connection is shared. */
enum output_result connection_enqueue(struct connection *connection, struct piece piece);

/** Drains what a burst (burst.h) holds back here. Any thread, if the connection is shared. */
enum output_result connection_release_output(struct connection *connection);

/** Sends what is held back, as far as the socket takes it without waiting. */
enum output_result connection_flush(struct connection *connection);

/** Limits how fast output leaves, in bytes per second; 0: no limit. False without memory. */
bool connection_set_write_rate(struct connection *connection, uint64_t rate);

/** The address at the other end: of the client that a proxy has named, or of the socket's peer. */
void connection_peer(const struct connection *connection, struct endpoint *endpoint);

/** The facade's verbs that are the same whether the connection is shared or not. */
struct input_queue *connection_facade_input(struct channel_facade *facade);
void connection_facade_set_handler(struct channel_facade *facade, struct input_handler *handler);
enum output_result connection_facade_flush(struct channel_facade *facade);
void connection_facade_peer(struct channel_facade *facade, struct endpoint *endpoint);
enum end_reason connection_facade_end_reason(struct channel_facade *facade);
void connection_facade_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                                 int64_t milliseconds);
void connection_facade_cancel_timer(struct channel_facade *facade, struct channel_timer *timer);
void connection_facade_begin(struct channel_facade *facade, struct channel_task *task,
                             enum channel_meanwhile meanwhile) NO_LOCK_HELD;

#endif
