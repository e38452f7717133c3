/*
 * What the files of the connection (connection*.c) tell each other. Nobody else includes this. All
 * of it is the runner's, where nothing else is said.
 */
#ifndef COMMON_CONNECTION_PARTS_H
#define COMMON_CONNECTION_PARTS_H

#include "common/server/connection.h"

/* ---- Parts ----------------------------------------------------------------------------------- */

/** The parts of which the core calls functions. The first two are the phases of their names. */
enum {
    PART_CONNECTING = CONNECTION_CONNECTING,
    PART_ARRIVING = CONNECTION_ARRIVING,
    PART_TIMERS,
    PART_HOLD,
    PART_TASKS,
    PART_POSTS,
};
static_assert((int)PART_POSTS < (int)SERVER_PARTS, "the server has a place for each of them");

/** What the core calls of a part; NULL: there is nothing to do. */
struct connection_part {
    /* While a connection is coming, which the handler does not know of yet: */
    void (*receive)(struct connection *connection);
    size_t (*give)(struct connection *connection, const unsigned char *bytes, size_t length);
    void (*come)(struct connection *connection, unsigned asked);        /* in each run */
    int64_t (*until)(const struct connection *connection, int64_t now); /* NULL: see deadlines */
    void (*forget)(struct connection *connection); /* it is not going to come */
    unsigned wants;

    /* While the handler is called: */
    void (*call)(struct connection *connection); /* makes the calls that are due */
    void (*end)(struct connection *connection);  /* after `stopped` */
};

/** The part, if this program has it and has used it; NULL: nothing of it is to be done. */
static inline const struct connection_part *connection_part(const struct connection *connection,
                                                            unsigned part)
{
    return atomic_load_explicit(&connection_server(connection)->parts[part], memory_order_relaxed);
}

/** A part tells its server that it is used. Any thread. */
static inline void connection_use_part(const struct connection *connection, unsigned part,
                                       const struct connection_part *functions)
{
    if (connection_part(connection, part) != functions)
        atomic_store_explicit(&connection_server(connection)->parts[part], functions,
                              memory_order_relaxed);
}

extern const struct connection_part connection_posts_part;

/* ---- What is known of it ----------------------------------------------------------------------
 */

static inline struct connection *connection_of(struct channel_facade *facade)
{
    return container_of(facade, struct connection, facade);
}

/** The facade behind all elements. They do not see posts, timers, tasks and holds. */
static inline struct channel_facade *facade_behind(struct channel_facade *facade)
{
    while (facade->verbs->outer != NULL)
        facade = facade->verbs->outer(facade);
    return facade;
}

static inline bool connection_is(const struct connection *connection, unsigned marks)
{
    return (connection->marks & marks) != 0;
}

static inline void connection_mark(struct connection *connection, unsigned marks, bool on)
{
    connection->marks = on ? connection->marks | marks : connection->marks & ~marks;
}

/**
 * Whether the calling thread may make a call that only the connection's own handler may: it has a
 * run, and that, or one around it, is the connection's. For asserts: an author's mistake is found
 * where it is made. Without a run there is nothing to tell it by in stages 1 to 3; nor in stages 4
 * and 5 while the connection begins or ends, or while its dispatcher looks for messages, which all
 * may be outside of a run.
 */
static inline bool connection_is_own_call(const struct connection *connection)
{
    const struct run *own = run_own;
    const struct run *run = own;
    while (run != NULL && run->connection != connection)
        run = run->outer;
    return own == NULL || run != NULL;
}

/** The same, for calls that handlers make only where they handle something: in a run. */
static inline bool connection_is_own_run(const struct connection *connection)
{
    bool has_runs = connection_home(connection)->sharing != NULL;
    return connection_is_own_call(connection) &&
           (!has_runs || run_own != NULL || connection->life != LIFE_STARTED);
}

/** Whether the handler does not know of the connection yet. */
static inline bool connection_is_coming(const struct connection *connection)
{
    return connection->phase < CONNECTION_OPEN;
}

/** Whether it still has to read what had arrived when the server was told to stop. */
static inline bool connection_is_stopping(const struct connection *connection, unsigned asked)
{
    return (asked & ASK_STOP) != 0 && !connection_is(connection, MARK_INPUT_OVER);
}

/**
 * Whether output lets input be read and handled: with `duplex` always, else neither above the high
 * mark (OUTPUT_CHOKED) nor once it is lost.
 */
static inline bool output_allows_input(const struct connection *connection,
                                       enum output_result output)
{
    return output < OUTPUT_CHOKED || (connection->traits & TRAIT_DUPLEX) != 0;
}

/**
 * Whether a call is to be made that is no message, and of which no event tells: a post or a timer;
 * output has drained and the handler waits for that; or the handler, which holds messages, has to
 * hear that no more of them come.
 */
static inline bool connection_has_calls(const struct connection *connection, unsigned asked)
{
    return (asked & ASK_CALLS) != 0 ||
           ((connection->traits & TRAIT_HEARS_DRAINED) != 0 &&
            output_chain_has_drained(&connection->output)) ||
           ((connection->marks & (MARK_HELD | MARK_LEFT)) == MARK_HELD &&
            ((asked & ASK_STOP) != 0 || connection_is(connection, MARK_INPUT_OVER)));
}

/** The facade's verbs of a connection that is not shared: connection_facade.c. */
extern const struct channel_facade_verbs connection_facade_verbs;

/* ---- connection.c ------------------------------------------------------------------------------
 */

/** Begins, however it comes about. */
void connection_begin(struct connection *connection, const struct connection_home *home, int fd,
                      struct input_handler *handler);

/** Another handler serves it, or the first one: what that is like is asked once. */
void connection_set_handler(struct connection *connection, struct input_handler *handler);

/** It comes no further: what has come of a proxy's header is dropped, too. */
void connection_forget_coming(struct connection *connection);

/** The peer is lost. That is why the connection ends, even if the peer has ended its half before.
 */
void connection_lose(struct connection *connection);

/** It goes on no more, for that reason. */
void connection_fail(struct connection *connection, enum end_reason reason);

/** Tells the log that it is closed, whose it is, and why. */
void connection_log_close(const struct connection *connection, const char *why);

/** No memory is left for what the connection needs: it ends, and the log says so. */
void connection_out_of_memory(struct connection *connection);

/* ---- connection_input.c ------------------------------------------------------------------------
 */

/** Bytes have come, or none: the end of the stream. */
void connection_received(struct connection *connection, size_t received);

/** The server is stopping: reads what has arrived already, and nothing that comes later. */
void connection_read_the_rest(struct connection *connection);

/** Whether what comes is read and dropped: once it drains, until the peer has ended its stream. */
bool connection_drops_input(const struct connection *connection);

/** What came was dropped, or nothing more comes: the peer has ended its stream, or is lost. */
void connection_dropped(struct connection *connection, enum socket_dropped dropped);

/* ---- connection_turn.c -------------------------------------------------------------------------
 */

/** Whether bytes wait that are in no message yet: in its queue, or in that of an element. */
bool connection_has_input(const struct connection *connection) NO_LOCK_HELD;

/** Whether a run would be for messages, and for nothing else, as it mostly is. */
bool connection_is_ordinary(const struct connection *connection);

/** Whether the handler is to get one more message in this run. */
bool connection_takes_message(const struct connection *connection);

/* ---- connection_output.c -----------------------------------------------------------------------
 */

/** Between runs others' output may have come and gone: counts it, and how long it is held back. */
void connection_count_output(struct connection *connection, enum output_result output, int64_t now);

/** Whether input is still read though nothing can be sent any more. */
bool connection_reads_on(const struct connection *connection, unsigned asked);

static inline void connection_lock_output(const struct connection *connection)
{
    const struct connection_sharing *sharing = connection_home(connection)->sharing;
    if (sharing != NULL)
        sharing->lock_output(connection);
}

static inline void connection_unlock_output(const struct connection *connection)
{
    const struct connection_sharing *sharing = connection_home(connection)->sharing;
    if (sharing != NULL)
        sharing->unlock_output(connection);
}

/* ---- connection_times.c ------------------------------------------------------------------------
 */

/**
 * Whether the server stops so soon after the accept that the peer has had no time to say anything.
 */
bool connection_is_new(const struct connection *connection);

/** It has rested, and reads again: the peer's time to send begins now. */
void connection_end_rest(struct connection *connection);

/** Whether all that was sent has arrived, and the peer has sent nothing for a moment. */
bool connection_is_quiet(struct connection *connection, int64_t now);

/**
 * A connection that never rests is never looked at between runs, so each run looks at its age and
 * at that of its linger, unless it ends anyway.
 */
void connection_look_at_age(struct connection *connection, int64_t now);

/** Output begins to wait, or none waits any more: the time that it has to leave begins, or ends. */
void connection_output_waits(struct connection *connection, int64_t now, bool waits);

#endif
