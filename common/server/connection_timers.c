/*
 * The timers of the application, which fire in the connection's runs. When the first one is due is
 * part of connection_deadline(), like the connection's own times: so there is no thread for them,
 * and nobody wakes up before one is due. From the end on none fires.
 */
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/connection_parts.h"

#include <assert.h>

enum {
    TIMERS_PER_RUN = 64, /* then the messages, and the other connections, get their turn */
};

/* One that sets itself again for at once must not keep the run from its messages. */
static void fire_timers(struct connection *connection) NO_LOCK_HELD
{
    int64_t now = clock_ms();
    struct tree_timer *due;
    int left = TIMERS_PER_RUN;
    while (left-- > 0 && (due = timer_tree_take_due(&connection->timers, now)) != NULL) {
        struct channel_timer *timer = container_of(due, struct channel_timer, place);
        channel_timer_set_next(timer, &connection->timers, now);
        channel_timer_fire(timer);
    }
    if (timer_tree_moment(&connection->timers) <= now)
        connection_ask(connection, ASK_CALLS, 0);
}

static const struct connection_part timers_part = {.call = fire_timers};

/* Once `stopping` was called there is nothing to fire in. */
static void set(struct channel_facade *facade, struct channel_timer *timer, int64_t milliseconds)
{
    facade = facade_behind(facade);
    if (facade->verbs->set_timer != NULL) {
        facade->verbs->set_timer(facade, timer, milliseconds);
        return;
    }
    struct connection *connection = connection_of(facade);
    int64_t now = clock_ms();
    int64_t wait = milliseconds > 0 ? milliseconds : 0;
    assert(connection_is_own_run(connection));
    if (connection->life >= LIFE_STOPPING)
        return;
    assert(timer->fired != NULL);
    connection->marks |= MARK_CLOCK;
    connection_use_part(connection, PART_TIMERS, &timers_part);
    timer_tree_set(&connection->timers, &timer->place,
                   wait < INT64_MAX - now ? now + wait : INT64_MAX - 1);
}

void channel_set_timer(struct channel_facade *facade, struct channel_timer *timer,
                       int64_t milliseconds)
{
    timer->facade = facade;
    timer->period = 0;
    set(facade, timer, milliseconds);
}

void channel_repeat_timer(struct channel_facade *facade, struct channel_timer *timer,
                          int64_t milliseconds)
{
    timer->facade = facade;
    timer->period = milliseconds > 0 ? milliseconds : 1;
    set(facade, timer, timer->period);
}

void channel_cancel_timer(struct channel_facade *facade, struct channel_timer *timer)
{
    facade = facade_behind(facade);
    if (facade->verbs->cancel_timer != NULL) {
        facade->verbs->cancel_timer(facade, timer);
        return;
    }
    struct connection *connection = connection_of(facade);
    assert(connection_is_own_run(connection));
    if (connection->life < LIFE_STOPPING)
        timer_tree_cancel(&connection->timers, &timer->place);
}
