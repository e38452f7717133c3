/*
 * A connection's times: what each may take, and what becomes of a connection that takes longer.
 */
#include "common/base/clock.h"
#include "common/base/trace.h"
#include "common/bytes/output_parts.h"
#include "common/server/connection_parts.h"

enum {
    RESET_LOOK_MS = 20, /* how often to look whether a peer has got all before a reset */
};

/*
 * How long a client may be silent, and how long it may stay, holds for no connection that we have
 * asked for: that is up to the application that needs it. But its peer has to go on with what it
 * has begun, as a client has to. And once the application has closed it, nobody needs it any more,
 * so a peer that does not read the rest keeps it no longer than a client could.
 */
static const struct deadline_limits *limits_of(const struct connection *connection)
{
    const struct server *server = connection_home(connection)->server;
    if ((connection->traits & TRAIT_OUTGOING) == 0)
        return &server->settings.deadlines;
    bool is_closed =
        connection->phase >= CONNECTION_DRAINING && connection->phase <= CONNECTION_RESETTING;
    return is_closed ? &server->settings.deadlines : &server->outgoing;
}

/*
 * Asks the system how much of what was sent the peer has acknowledged by now. If that is a part,
 * the last time at which it had room is when the system last sent it some. To take the look for
 * that moment would give a peer that stopped long ago the idle timeout once more.
 */
static void look_at_peer(struct connection *connection, int64_t now)
{
    struct deadlines *deadlines = &connection->deadlines;
    int fd = connection->output.fd;
    if (deadlines_acknowledged(deadlines, now, socket_unacknowledged(fd)))
        deadlines_moved(deadlines, now - socket_send_age(fd));
}

/* What was acknowledged before the time begins does not count; only a limit is worth the call. */
void connection_output_waits(struct connection *connection, int64_t now, bool waits)
{
    struct deadlines *deadlines = &connection->deadlines;
    if (waits && limits_of(connection)->progress != 0)
        look_at_peer(connection, now);
    connection->marks |= waits ? MARK_CLOCK : 0u;
    deadlines_output(deadlines, now, waits);
}

/* Whether the handler has something to say about it, and the client may still read that. */
static bool may_say(const struct connection *connection, enum deadline passed)
{
    if (connection_is_coming(connection))
        return false; /* the handler does not know of it */
    if (passed == DEADLINE_IDLE)
        return (connection->traits & TRAIT_HEARS_IDLE) != 0 &&
               connection->phase == CONNECTION_OPEN &&
               output_chain_look(&connection->output) == OUTPUT_FLOWING;
    return passed == DEADLINE_REQUEST && (connection->traits & TRAIT_HEARS_LATE) != 0;
}

/* The handler gets the last word if it has one; the connection ends at once if not. */
static void time_out(struct connection *connection, enum deadline passed)
{
    static const enum end_reason reasons[] = {[DEADLINE_IDLE] = END_IDLE,
                                              [DEADLINE_REQUEST] = END_REQUEST,
                                              [DEADLINE_LIFETIME] = END_LIFETIME,
                                              [DEADLINE_PROGRESS] = END_PROGRESS};
    connection_end_because(connection, reasons[passed]);
    connection_count(connection, COUNTER_TIMED_OUT, 1);
    trace_event(TRACE_TIMER, connection->output.fd, passed);
    connection_log_close(connection, deadline_name(passed));
    if (may_say(connection, passed)) {
        connection->late = (uint8_t)passed;
        connection->marks |= MARK_LATE;
        deadlines_message(&connection->deadlines); /* the time of a request is not running now */
    } else {
        connection_ask(connection, ASK_END, 0);
    }
}

void connection_look_at_age(struct connection *connection, int64_t now)
{
    int64_t lifetime = limits_of(connection)->lifetime;
    if (lifetime != 0 && now >= deadlines_born(&connection->deadlines, now) + lifetime &&
        !connection_is(connection, MARK_BROKEN) && !connection_is_asked(connection, ASK_END))
        time_out(connection, DEADLINE_LIFETIME);
    if (connection->phase == CONNECTION_LINGERING)
        connection_expire(connection, now);
}

bool connection_will_block(struct connection *connection)
{
    connection->blocks = output_chain_length(&connection->output) > 0;
    if (connection->blocks && !deadlines_output_waits(&connection->deadlines))
        connection_output_waits(connection, clock_ms(), true);
    return connection->blocks;
}

/* Until when a new connection may still say its first message. */
static int64_t grace_until(const struct connection *connection, int64_t now)
{
    return deadlines_born(&connection->deadlines, now) + SERVER_GRACE_MS;
}

bool connection_is_new(const struct connection *connection)
{
    int64_t now = clock_ms();
    return connection_is(connection, MARK_SILENT) && now < grace_until(connection, now);
}

bool connection_is_quiet(struct connection *connection, int64_t now)
{
    return now >= deadlines_active(&connection->deadlines, now) + SERVER_QUIET_MS &&
           socket_unacknowledged(connection->output.fd) == 0;
}

void connection_end_rest(struct connection *connection)
{
    deadlines_restart_input(&connection->deadlines, clock_ms());
}

/*
 * How long to linger: at a stop a quiet client needs little; one that has sent since may still be
 * busy sending, and gets the full time.
 */
static int64_t linger_ms(const struct connection *connection)
{
    bool is_quiet =
        connection_is_asked(connection, ASK_STOP) && !connection_is(connection, MARK_SENDS);
    return is_quiet ? SERVER_QUIET_MS : SERVER_LINGER_MS;
}

static int64_t linger_until(const struct connection *connection, int64_t now)
{
    return deadlines_active(&connection->deadlines, now) + linger_ms(connection);
}

/* When to look whether it has lingered for long enough; if not yet, once more. */
static int64_t linger_deadline(const struct connection *connection, int64_t now)
{
    int64_t until = linger_until(connection, now);
    return until > now ? until : now + linger_ms(connection);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When the first of the application's timers is due. */
static int64_t application_moment(const struct connection *connection)
{
    return connection->phase == CONNECTION_OPEN ? timer_tree_moment(&connection->timers)
                                                : INT64_MAX;
}

/* Until when it may take to connect; INT64_MAX: as long as the system tries. */
static int64_t connect_until(const struct connection *connection, int64_t now)
{
    return connection_part(connection, PART_CONNECTING)->until(connection, now);
}

/* When the write rate lets go what it holds back. */
static int64_t output_due(const struct connection *connection)
{
    connection_lock_output(connection);
    int64_t due = output_chain_due(&connection->output);
    connection_unlock_output(connection);
    return due;
}

int64_t connection_deadline(struct connection *connection, int64_t now)
{
    connection->marks &= ~(unsigned)MARK_CLOCK;
    if (connection->phase == CONNECTION_OPEN && connection->marks == 0 &&
        connection->timers.first == NULL)
        return deadlines_next(&connection->deadlines, limits_of(connection), now);
    if (connection->phase == CONNECTION_LINGERING)
        return linger_deadline(connection, now);
    bool has_grace = connection_is(connection, MARK_GRACE);
    int64_t grace = has_grace ? grace_until(connection, now) : INT64_MAX;
    if (connection->phase == CONNECTION_CONNECTING)
        return earlier(grace, connect_until(connection, now));
    int64_t next = deadlines_next(&connection->deadlines, limits_of(connection), now);
    if (connection->timers.first != NULL)
        next = earlier(next, application_moment(connection));
    if (has_grace)
        next = earlier(next, grace);
    if (connection->phase == CONNECTION_RESETTING)
        next = earlier(next, now + RESET_LOOK_MS);
    return connection_is(connection, MARK_HELD_BACK) ? earlier(next, output_due(connection)) : next;
}

/*
 * Whether the peer cannot be blamed for having sent nothing: we do not read, because the handler
 * has suspended input or a task of its is under way, and nothing waits for the peer to take it;
 * or the handler holds messages, and owes an answer.
 */
static bool is_our_delay(const struct connection *connection, enum deadline passed)
{
    bool rests = connection_is(connection, MARK_RESTS) &&
                 !connection_is(connection, MARK_INPUT_OVER) &&
                 connection->phase != CONNECTION_RESETTING;
    bool owes = connection_is(connection, MARK_BEGUN | MARK_HELD);
    return (passed == DEADLINE_IDLE && (rests || owes)) || (passed == DEADLINE_REQUEST && rests);
}

/*
 * A peer that reads is neither idle nor in the way, even if the system holds so much for it that we
 * have had nothing to send for a while. And if there is room to write, or we do not read, the delay
 * is our own.
 */
static enum deadline passed_deadline(struct connection *connection, int64_t now)
{
    struct deadlines *deadlines = &connection->deadlines;
    enum deadline passed = deadlines_passed(deadlines, limits_of(connection), now);
    if (passed == DEADLINE_PROGRESS || passed == DEADLINE_IDLE) {
        look_at_peer(connection, now);
        passed = deadlines_passed(deadlines, limits_of(connection), now);
    }
    if (is_our_delay(connection, passed)) {
        deadlines_restart_input(deadlines, now);
        passed = deadlines_passed(deadlines, limits_of(connection), now);
    }
    if (passed == DEADLINE_PROGRESS && socket_is_writable(connection->output.fd)) {
        deadlines_restart_progress(deadlines, now);
        passed = deadlines_passed(deadlines, limits_of(connection), now);
    }
    return passed;
}

/*
 * Whether a connection that lingers has done so for long enough. As long as the peer's system has
 * not got all, the same timeouts hold as for other output.
 */
static bool has_lingered(struct connection *connection, int64_t now)
{
    if (now < linger_until(connection, now))
        return false;
    look_at_peer(connection, now);
    return socket_unacknowledged(connection->output.fd) == 0 ||
           deadlines_passed(&connection->deadlines, limits_of(connection), now) != DEADLINE_NONE;
}

/*
 * Ends a connection whose peer has got all that goes before a reset, or has reset it itself: then
 * the rest is never acknowledged. No event says so.
 */
static bool reset_in_time(struct connection *connection)
{
    bool is_over = connection->phase == CONNECTION_RESETTING;
    if (is_over && socket_unacknowledged(connection->output.fd) > 0)
        socket_is_lost(connection->output.fd, &is_over);
    if (is_over)
        connection_ask(connection, ASK_END, 0);
    return is_over;
}

/* Whether its time to connect is over, or the server's patience. */
static bool expire_connecting(struct connection *connection, int64_t now, bool grace_ends)
{
    bool is_late = now >= connect_until(connection, now);
    connection->late = is_late ? DEADLINE_REQUEST : DEADLINE_NONE;
    connection_mark(connection, MARK_LATE, is_late);
    return is_late || grace_ends;
}

bool connection_expire(struct connection *connection, int64_t now)
{
    connection->marks |= MARK_CLOCK;
    if (connection->phase == CONNECTION_LINGERING) {
        bool is_over = has_lingered(connection, now);
        if (is_over)
            connection_ask(connection, ASK_END, 0);
        return is_over; /* even if the end was asked for before: its time does not come again */
    }
    bool grace_ends = connection_is(connection, MARK_GRACE) && now >= grace_until(connection, now);
    if (grace_ends)
        connection_mark(connection, MARK_GRACE, false);
    if (connection->phase == CONNECTION_CONNECTING)
        return expire_connecting(connection, now, grace_ends);
    bool was_held_back = connection_is(connection, MARK_HELD_BACK);
    connection_count_output(connection, output_chain_look(&connection->output), now);
    enum deadline passed = passed_deadline(connection, now);
    if (passed != DEADLINE_NONE)
        time_out(connection, passed);
    bool timer_due = application_moment(connection) <= now;
    if (timer_due)
        connection_ask(connection, ASK_CALLS, 0);
    return passed != DEADLINE_NONE || timer_due || grace_ends || reset_in_time(connection) ||
           (was_held_back && !connection_is(connection, MARK_HELD_BACK));
}
