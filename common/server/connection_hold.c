/*
 * Holds: a handler waits for something other than its peer, and no message is handed over before it
 * goes on. The core knows two marks of it: MARK_HELD keeps messages in the input queue, and the
 * bytes behind them are still read, as far as there is room, because only so does the peer's end of
 * stream show; MARK_LEFT says that the handler has heard of that.
 *
 * To go on is a post, so it comes in the connection's own context, and is not lost whichever of the
 * two comes first: the call of a hold that has not begun yet is kept in the hold.
 *
 * A task that holds messages (CHANNEL_WAITS) has a mark of its own, MARK_WAITS, beside this one. It
 * is a promise: its result comes back, so an end of the stream waits for it. A hold promises
 * nothing, so its handler hears that the peer may be gone.
 */
#include "common/base/container_of.h"
#include "common/base/test_point.h"
#include "common/server/channel_calls.h"
#include "common/server/connection_parts.h"

#include <assert.h>

/* ---- In the connection's own context ------------------------------------------------------- */

/* The handler is told to go on. What is said from now on is said anew. */
static void hear(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct channel_hold *hold = container_of(post, struct channel_hold, post);
    struct connection *connection = connection_of(facade_behind(facade));
    atomic_exchange(&hold->is_told, false);
    hold->is_early = !hold->holds;
    if (hold->is_early)
        return;
    hold->holds = false;
    connection->marks &= ~(unsigned)(MARK_HELD | MARK_LEFT);
    connection_end_rest(connection);
    channel_hold_end(hold, facade);
}

/* No more messages come. A client that is behind a full queue has to be asked for. */
static bool has_left(const struct connection *connection)
{
    return connection_is_asked(connection, ASK_STOP) ||
           connection_is(connection, MARK_INPUT_OVER) ||
           (connection_is(connection, MARK_RESTS) && socket_has_ended(connection->output.fd));
}

static void tell_that_it_left(struct connection *connection) NO_LOCK_HELD
{
    if (connection_is(connection, MARK_BROKEN | MARK_LEFT) || !has_left(connection))
        return;
    connection->marks |= MARK_LEFT;
    connection_end_because(connection, connection_is_asked(connection, ASK_STOP) ? END_SERVER
                                                                                 : END_PEER_CLOSED);
    input_handler_left(connection->handler, &connection->facade);
}

static const struct connection_part hold_part = {.call = tell_that_it_left};

bool channel_hold(struct channel_facade *facade, struct channel_hold *hold)
{
    struct connection *connection = connection_of(facade_behind(facade));
    assert(connection_is_own_run(connection));
    if (connection_is(connection, MARK_HELD) || connection->life >= LIFE_STOPPING)
        return false;
    TEST_POINT("connection: before it holds");
    connection_use_part(connection, PART_HOLD, &hold_part);
    connection->marks |= MARK_HELD;
    hold->holds = true;
    if (hold->is_early)
        channel_go_on(facade, hold);
    return true;
}

/* ---- In any thread ------------------------------------------------------------------------- */

/*
 * The compiler is not asked whether a lock is held: a post does not allow one, because it may call
 * the application's `dropped`; this one's is ours, and does nothing.
 */
void channel_go_on(struct channel_facade *facade,
                   struct channel_hold *hold) NO_THREAD_SAFETY_ANALYSIS
{
    struct connection *connection = connection_of(facade_behind(facade));
    const struct connection_home *home = connection_home(connection);
    if (atomic_exchange(&hold->is_told, true))
        return;
    hold->post.run = hear; /* and nothing is said after the end */
    channel_post(facade, &hold->post);
    TEST_POINT("connection: before the wakeup of a hold");
    if (home->wake != NULL)
        home->wake(connection, hold);
}
