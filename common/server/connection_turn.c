/*
 * What a run does with a connection's input: bytes become messages, and the handler is called for
 * these, a turn's worth.
 */
#include "common/base/trace.h"
#include "common/server/connection_parts.h"

enum {
    MESSAGES_PER_TURN = 64, /* then the other connections get their turn */
};

/* The marks that an ordinary run may have: nothing but messages is to be looked for. */
static const unsigned MARKS_OF_MESSAGES =
    MARK_RECEIVED | MARK_SILENT | MARK_MORE | MARK_PART | MARK_CLOCK;

/* ---- Messages ------------------------------------------------------------------------------ */

bool connection_has_input(const struct connection *connection)
{
    return !input_queue_is_empty(&connection->input) ||
           ((connection->traits & TRAIT_HOLDS_INPUT) != 0 &&
            input_handler_holds_input(connection->handler));
}

bool connection_takes_message(const struct connection *connection)
{
    unsigned asked = atomic_load(&connection->asked);
    return (asked & (ASK_CLOSE | ASK_END)) == 0 &&
           (asked & (ASK_SUSPEND | ASK_STOP)) != ASK_SUSPEND &&
           !connection_is(connection, MARK_BROKEN | MARK_WAITS | MARK_HELD) &&
           output_allows_input(connection, output_chain_look(&connection->output));
}

/* What is queued still leaves, and what has been read is dropped: as channel_close(). */
static void close_because(struct connection *connection, enum end_reason reason)
{
    connection_end_because(connection, reason);
    connection_ask(connection, ASK_CLOSE, 0);
}

/* Holds the answers back until connection_send(). */
static void cork(struct connection *connection, struct run *run)
{
    run->corks = true;
    output_chain_cork(&connection->output);
}

/*
 * Answers of a turn leave together. A single answer of one piece to a message that came alone is
 * sent at once, uncopied: so the cork that prepare() has set is lifted.
 */
static void hand_over(struct connection *connection, struct run *run, enum connection_messages how,
                      struct message message, bool first) NO_LOCK_HELD
{
    const struct connection_home *home = connection_home(connection);
    struct channel_facade *facade = &connection->facade;
    bool more = connection_has_input(connection);
    if (!first || more || (connection->traits & TRAIT_ONE_PIECE) == 0)
        cork(connection, run);
    else if (run->corks)
        output_chain_lift_cork(&connection->output);
    run->burst.more = more;
    if (run->burst.count > 0)
        home->sharing->flush_old(&run->burst);
    counters_add(home->counters, COUNTER_MESSAGES, 1);
    connection->marks &= ~(unsigned)(MARK_SILENT | MARK_GRACE);
    deadlines_message(&connection->deadlines);
    if (how == HANDLE_MESSAGES && !input_handler_handle_input(connection->handler, message, facade))
        close_because(connection, END_CLOSED);
    else if (how == REFUSE_MESSAGE)
        input_handler_refuse_input(connection->handler, message, facade);
}

/* No further message can be found, now or later. */
static void end_messages(struct connection *connection, enum end_reason reason)
{
    if (reason == END_TOO_LONG)
        connection_count(connection, COUNTER_TOO_LONG, 1);
    connection_log_close(connection, end_reason_text(reason));
    close_because(connection, reason);
}

/* What another thread has found before this run. */
static enum framing_result take_found(struct connection_message *found, struct message *message)
{
    *message = (struct message){found->data, found->length};
    found->found = false;
    return (enum framing_result)found->result;
}

/*
 * Hands over the next message. Returns what remains: MARK_MORE if another message may follow,
 * MARK_PART if only a part of one is there, 0 if nothing is. Mostly that can be told without asking
 * the handler: a client sends one message and waits for the answer.
 */
static unsigned hand_over_next(struct connection *connection, struct run *run,
                               enum connection_messages how, bool first) NO_LOCK_HELD
{
    struct message message;
    enum framing_result result;
    if (run->found != NULL && run->found->found)
        result = take_found(run->found, &message);
    else
        result = input_handler_next_message(connection->handler, &connection->facade, &message);
    switch (result) {
    case FRAMING_MESSAGE:
        hand_over(connection, run, how, message, first);
        if (input_queue_retire(&connection->input) &&
            (connection->traits & (TRAIT_CONTINUES | TRAIT_HOLDS_INPUT)) == 0)
            return 0;
        return MARK_MORE;
    case FRAMING_TOO_LONG: end_messages(connection, END_TOO_LONG); break;
    case FRAMING_REFUSED: end_messages(connection, END_REFUSED); break;
    case FRAMING_NO_MEMORY: connection_out_of_memory(connection); break;
    case FRAMING_INCOMPLETE:
        if (input_queue_is_full(&connection->input)) /* no room for the rest: it can never come */
            end_messages(connection, END_TOO_LONG);
        break;
    }
    return connection_has_input(connection) ? MARK_PART : 0;
}

/* ---- A turn -------------------------------------------------------------------------------- */

/* What is posted from now on asks again. */
static void call_posts(struct connection *connection) NO_LOCK_HELD
{
    if (connection_is(connection, MARK_BROKEN) || atomic_load(&connection->posts) == NULL)
        return;
    connection_ask(connection, 0, ASK_CALLS);
    connection_part(connection, PART_POSTS)->call(connection);
}

/*
 * The calls that are no messages: the timers that are due, `drained`, what was posted, and `left`.
 * A timer that is set is looked at in each run, because the run may have come for an event.
 */
static void make_calls(struct connection *connection) NO_LOCK_HELD
{
    connection_ask(connection, 0, ASK_CALLS);
    if (connection->timers.first != NULL)
        connection_part(connection, PART_TIMERS)->call(connection);
    if (!connection_is(connection, MARK_BROKEN) && output_chain_take_drained(&connection->output))
        input_handler_drained(connection->handler, &connection->facade);
    call_posts(connection);
    if (connection_is(connection, MARK_HELD))
        connection_part(connection, PART_HOLD)->call(connection);
}

/* Puts out the next piece of a long answer; false if none goes on. */
static bool continue_output(struct connection *connection, struct run *run) NO_LOCK_HELD
{
    cork(connection, run);
    return input_handler_continue_output(connection->handler, &connection->facade);
}

/*
 * What remains if no message was looked for: there may be one. If that is because the client does
 * not read, the time of half a message runs on. A hold or a task is our delay, so there it begins
 * anew.
 */
static unsigned unseen(const struct connection *connection)
{
    bool is_choked = !output_allows_input(connection, output_chain_look(&connection->output));
    bool keeps = is_choked && !connection_is(connection, MARK_WAITS | MARK_HELD);
    return MARK_MORE | (keeps ? connection->marks & MARK_PART : 0);
}

/*
 * Messages, up to a limit. A long answer goes on before the next message. What remains may be
 * bytes, or such an answer. Of an ordinary run we know that it takes the first message.
 */
static void take_turn(struct connection *connection, struct run *run, enum connection_messages how,
                      bool ordinary) NO_LOCK_HELD
{
    int turns = how == HANDLE_MESSAGES ? MESSAGES_PER_TURN : 1;
    bool takes = ordinary || connection_takes_message(connection);
    unsigned remains = takes ? MARK_MORE : unseen(connection);
    for (bool first = true; takes; first = false) {
        if ((connection->traits & TRAIT_CONTINUES) == 0 || !continue_output(connection, run))
            remains = hand_over_next(connection, run, how, first);
        if (how == HANDLE_MESSAGES && connection_is_asked(connection, ASK_CALLS))
            call_posts(connection);
        takes = remains == MARK_MORE && --turns > 0 && run->burst.work < BURST_WORK &&
                connection_takes_message(connection);
    }
    if ((remains & MARK_MORE) != 0 && (connection->traits & TRAIT_CONTINUES) == 0 &&
        !connection_has_input(connection))
        remains = 0;
    connection->marks = (connection->marks & ~(unsigned)(MARK_MORE | MARK_PART)) | remains;
}

/* A deadline has passed: the handler says so, and gets no further message. */
static void say_late(struct connection *connection) NO_LOCK_HELD
{
    if (connection->late == DEADLINE_IDLE)
        input_handler_idle(connection->handler, &connection->facade);
    else
        input_handler_timed_out(connection->handler, &connection->facade);
    connection_ask(connection, ASK_CLOSE, 0);
}

/* ---- A run --------------------------------------------------------------------------------- */

/* It has rested: whether it was lost meanwhile. Nothing is read for that. */
static void look_for_loss(struct connection *connection)
{
    bool over;
    if (socket_is_lost(connection->output.fd, &over))
        connection_fail(connection, END_PEER_LOST);
    if (over)
        connection->marks |= MARK_HUNG_UP;
}

/* An outgoing one serves another connection, which stops; it goes on until that has ended. */
static bool outlives_stop(const struct connection *connection)
{
    const unsigned both = TRAIT_OUTGOING | TRAIT_DUPLEX;
    return (connection->traits & both) == both && connection->phase == CONNECTION_OPEN;
}

/* A new client may still say its first message. */
static void look_whether_it_comes(struct connection *connection, unsigned asked) NO_LOCK_HELD
{
    const struct connection_part *way = connection_part(connection, connection->phase);
    connection_mark(connection, MARK_GRACE,
                    (asked & ASK_STOP) != 0 && connection_is_new(connection));
    way->come(connection, asked);
}

/* What goes before messages, if there is anything. False: there are no messages for the handler. */
static bool prepare(struct connection *connection, struct run *run,
                    enum connection_messages how) NO_LOCK_HELD
{
    unsigned asked = atomic_load(&connection->asked);
    if (connection_is(connection, MARK_RESTS))
        look_for_loss(connection);
    if (connection_is_coming(connection))
        look_whether_it_comes(connection, asked);
    if ((asked & ASK_STOP) != 0 && outlives_stop(connection)) {
        connection_ask(connection, 0, ASK_STOP);
        connection_mark(connection, MARK_GRACE, false);
        asked &= ~(unsigned)ASK_STOP;
    }
    if (connection->phase != CONNECTION_OPEN || connection_is(connection, MARK_BROKEN) ||
        (asked & ASK_END) != 0)
        return false;
    cork(connection, run);
    connection_advance(connection, LIFE_STARTED);
    if (how == HANDLE_MESSAGES) /* one is refused in a thread that must not wait */
        make_calls(connection);
    if (connection_is(connection, MARK_LATE))
        say_late(connection);
    else if (connection_is_stopping(connection, asked))
        connection_read_the_rest(connection);
    return true;
}

/*
 * After the last message, and its result: the handler may say goodbye, and then only output is
 * left. A client that has taken too long waits for no result. With `duplex` the handler keeps its
 * half of the connection open when the peer has ended the other one.
 */
static void end_input(struct connection *connection, unsigned asked) NO_LOCK_HELD
{
    if ((connection->marks & (MARK_BEGUN | MARK_LATE)) == MARK_BEGUN)
        return;
    if ((asked & ASK_CLOSE) == 0 &&
        (connection->marks & (MARK_INPUT_OVER | MARK_MORE | MARK_HELD)) != MARK_INPUT_OVER)
        return;
    if ((connection->traits & TRAIT_DUPLEX) != 0 && (asked & (ASK_CLOSE | ASK_FINISH)) == 0) {
        connection_advance(connection, LIFE_END_OF_INPUT);
        return;
    }
    connection_advance(connection, LIFE_STOPPING);
    input_queue_clear(&connection->input);
    connection->marks &= ~(unsigned)(MARK_MORE | MARK_PART);
    connection->marks |= MARK_CLOCK;
    connection->phase = CONNECTION_DRAINING;
}

bool connection_is_ordinary(const struct connection *connection)
{
    return (connection->marks & ~MARKS_OF_MESSAGES) == 0 && connection->phase == CONNECTION_OPEN &&
           atomic_load(&connection->asked) == 0 && connection->timers.first == NULL &&
           output_chain_is_calm(&connection->output);
}

void connection_handle(struct connection *connection, struct run *run, enum connection_messages how)
{
    bool ordinary = connection_is_ordinary(connection);
    trace_event(TRACE_RUN, connection->output.fd, 0);
    if (!ordinary && !prepare(connection, run, how))
        return;
    if (connection->life == LIFE_STARTED)
        take_turn(connection, run, how, ordinary);
    unsigned asked = atomic_load(&connection->asked);
    if ((asked != 0 || connection_is(connection, MARK_INPUT_OVER)) &&
        !connection_is(connection, MARK_BROKEN))
        end_input(connection, asked);
}
