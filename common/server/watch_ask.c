#include "common/server/watch_ask.h"

void watch_ask(struct server *server)
{
    mutex_lock(&watch_observer_lock);
    if (server->observer != NULL)
        watch_ask_loops((struct watch *)server->observer, false);
    mutex_unlock(&watch_observer_lock);
}

bool watch_tell_gauges(struct server *server, watch_gauge *gauge, void *context)
{
    mutex_lock(&watch_observer_lock);
    struct watch *watch = (struct watch *)server->observer;
    if (watch != NULL)
        watch_tell(watch, gauge, context);
    mutex_unlock(&watch_observer_lock);
    return watch != NULL;
}

static void tell_counters(struct watch *watch, watch_gauge *counter, void *context)
{
    mutex_lock(&watch->lock);
    for (size_t i = 0; i < watch->loop_count; i++)
        for (enum counter c = 0; c < COUNTER_WAKEUPS_ASKED; c++)
            if (c != COUNTER_REJECTED) /* whoever accepts counts those */
                counter(context, watch->loops[i].name, counter_name(c),
                        counters_get(watch->loops[i].counters, c));
    counter(context, "", counter_name(COUNTER_REJECTED),
            counters_get(&watch->server->counters, COUNTER_REJECTED));
    for (struct own_counter *own = watch->server->own_counters; own != NULL; own = own->next)
        counter(context, "", own->name, own_counter_get(own));
    mutex_unlock(&watch->lock);
}

bool watch_tell_counters(struct server *server, watch_gauge *counter, void *context)
{
    mutex_lock(&watch_observer_lock);
    struct watch *watch = (struct watch *)server->observer;
    if (watch != NULL)
        tell_counters(watch, counter, context);
    mutex_unlock(&watch_observer_lock);
    return watch != NULL;
}
