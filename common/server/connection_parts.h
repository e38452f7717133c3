/*
 * What the files of the connection (connection*.c) tell each other. Nobody else includes this. All
 * of it is the runner's.
 */
#ifndef COMMON_CONNECTION_PARTS_H
#define COMMON_CONNECTION_PARTS_H

#include "common/server/connection.h"

/** The facade's verbs of a connection that is not shared: connection_facade.c. */
extern const struct channel_facade_verbs connection_facade_verbs;

/** The connection is a proxy's: its first bytes are a header, whose time begins. */
void connection_expect_header(struct connection *connection);

/** Drops what has come of a header if the rest is not going to: the connection ends. */
void connection_forget_header(struct connection *connection);

/** Reads what has come of the header, and not a byte of what follows it. */
void connection_read_header(struct connection *connection);

/**
 * The same with bytes that came from elsewhere, none being the end of the stream; how many of them
 * belong to the header.
 */
size_t connection_give_header(struct connection *connection, const unsigned char *bytes,
                              size_t length);

/** Whether it still has to read what had arrived when the server was told to stop. */
static inline bool connection_is_stopping(const struct connection *connection, unsigned asked)
{
    return (asked & ASK_STOP) != 0 && !connection->input_over;
}

/** The server is stopping: reads what has arrived already, and nothing that comes later. */
void connection_read_the_rest(struct connection *connection);

/**
 * Whether the server stops so soon after the accept that the peer has had no time to say anything.
 * It has until connection_grace_until().
 */
bool connection_is_new(const struct connection *connection);

/** Until when a new connection may still say its first message; ms of clock_ms(). */
int64_t connection_grace_until(const struct connection *connection, int64_t now);

/** Whether what comes is read and dropped: while it lingers, and before it is reset. */
bool connection_drops_input(const struct connection *connection);

/** Nothing more comes that could be dropped: the peer has ended its stream, or is lost. */
void connection_end_dropping(struct connection *connection);

/** It has rested: whether it was lost meanwhile. Nothing is read for that. */
void connection_look_for_loss(struct connection *connection);

/** It has rested, and reads again: the peer's time to send begins now. */
void connection_end_rest(struct connection *connection);

/** Whether all that was sent has arrived, and the peer has sent nothing for a moment. */
bool connection_is_quiet(struct connection *connection, int64_t now);

/** Whether bytes wait that are in no message yet: in its queue, or in that of an element. */
static inline bool connection_has_input(const struct connection *connection) NO_LOCK_HELD
{
    return !input_queue_is_empty(&connection->input) ||
           input_handler_holds_input(connection->handler);
}

/** Whether output leaves input its freedom: output that is choked or lost mostly does not. */
static inline bool connection_is_free(const struct connection *connection,
                                      enum output_result output)
{
    return output < OUTPUT_CHOKED || input_handler_is_duplex(connection->handler);
}

/**
 * Whether a call was posted, a timer is due, or output has drained and the handler waits for that.
 * No event tells of it.
 */
static inline bool connection_has_calls(const struct connection *connection)
{
    return connection->timer_due || atomic_load(&connection->posts) != NULL ||
           (output_chain_has_drained(&connection->output) &&
            input_handler_hears_drained(connection->handler));
}

/** Makes the calls that are no messages: timers that are due, `drained`, and posts. */
void connection_make_calls(struct connection *connection) NO_LOCK_HELD;

/** Has a turn's messages handled, or one refused or dropped. */
void connection_take_turn(struct connection *connection, enum connection_messages how,
                          struct connection_message *found) NO_LOCK_HELD;

/** Whether the handler does not know of the connection yet. */
static inline bool connection_is_coming(const struct connection *connection)
{
    return connection->phase > CONNECTION_ENDED;
}

/**
 * While it connects: looks whether it has, or will not. Then it is open, or the handler has heard
 * that it never will be.
 */
void connection_finish_connecting(struct connection *connection, unsigned asked) NO_LOCK_HELD;

/** Until when it may take to connect; INT64_MAX: as long as the system tries. */
int64_t connection_connect_until(const struct connection *connection, int64_t now);

/** Whose it is as far as that is known: its proxy's, before the header has come. */
void connection_peer_so_far(const struct connection *connection, struct endpoint *endpoint);

/** Tells the log that it is closed, whose it is, and why. */
void connection_log_close(const struct connection *connection, const char *why);

/** No memory is left for what the connection needs: it ends, and the log says so. */
void connection_out_of_memory(struct connection *connection);

/** Sends what was held back and what waited, and counts it. */
enum output_result connection_send_output(struct connection *connection, int64_t now);

/** Between runs others' output may have come and gone: counts it, and how long it is held back. */
void connection_count_output(struct connection *connection, enum output_result output, int64_t now);

/** Drops what waits. Nobody reaches the socket any more through the output. */
void connection_close_output(struct connection *connection);

/** When the rate lets go what it holds back; 0: it holds nothing back. */
int64_t connection_output_due(const struct connection *connection);

/** Makes those that wait now; what they post comes later. */
void connection_run_posts(struct connection *connection) NO_LOCK_HELD;

/** Begins a task of the handler's, and has its result posted. */
void connection_begin(struct connection *connection, struct channel_task *task,
                      enum channel_meanwhile meanwhile) NO_LOCK_HELD;

/** Whether the tasks that are under way let no message be handled. */
bool connection_tasks_hold_messages(const struct connection *connection);

/** Whether no message may be handled before a task is back. Nearly always there is no task. */
static inline bool connection_waits_for_task(const struct connection *connection)
{
    return connection->begun != NULL && connection_tasks_hold_messages(connection);
}

/** After `stopped`: the tasks that are under way are not to come back. */
void connection_give_up_tasks(struct connection *connection) NO_LOCK_HELD;

/** After `stopped`: takes no more, and drops those that wait. */
void connection_close_posts(struct connection *connection) NO_LOCK_HELD;

/** Fires the application's timers that are due. */
void connection_fire_timers(struct connection *connection) NO_LOCK_HELD;

/** The peer is lost. That is why the connection ends, even if the peer has ended its half before.
 */
void connection_lose(struct connection *connection);

/** It goes on no more, for that reason. */
void connection_fail(struct connection *connection, enum end_reason reason);

/** Once `stopping` was called: none fires any more. */
void connection_forget_timers(struct connection *connection);

/**
 * A connection that never rests is never looked at between runs, so each run looks at its age and
 * at that of its linger, unless it ends anyway.
 */
void connection_look_at_age(struct connection *connection, int64_t now);

/** Output begins to wait, or none waits any more: the time that it has to leave begins, or ends. */
void connection_output_waits(struct connection *connection, int64_t now, bool waits);

#endif
