/*
 * Handlers that another thread has told to go on (channel_go_on()), where one thread runs them all:
 * the reactors of stages 2 and 3. Stage 1's threads, and the adapters of stages 4 and 5, can be
 * woken one by one.
 *
 * Interface: any thread puts in, without a lock; the reactor alone takes out, all at once. Before
 * it frees a connection, it takes that one's holds out.
 */
#ifndef COMMON_TOLD_LIST_H
#define COMMON_TOLD_LIST_H

#include "common/server/channel_calls.h"

/** All zero at the start. */
struct told_list {
    _Atomic(struct channel_hold *) newest;
};

static inline void told_list_push(struct told_list *list, struct channel_hold *hold)
{
    hold->next = atomic_load(&list->newest);
    while (!atomic_compare_exchange_weak(&list->newest, &hold->next, hold))
        ;
}

/** Puts in the hold of a connection, unless it is there already. Any thread. */
static inline void told_list_put(struct told_list *list, struct connection *connection,
                                 struct channel_hold *hold)
{
    if (atomic_exchange(&hold->is_listed, true))
        return;
    hold->connection = connection;
    told_list_push(list, hold);
}

/** Takes all; NULL: there is none. */
static inline struct channel_hold *told_list_take(struct told_list *list)
{
    return atomic_exchange(&list->newest, NULL);
}

/**
 * Whose hold that is, which can be put in again from now on; *next is the one after it. The caller
 * looks at the connection after that, so what comes with the next channel_go_on() is not missed.
 */
static inline struct connection *told_list_connection(struct channel_hold *hold,
                                                      struct channel_hold **next)
{
    struct connection *connection = hold->connection;
    *next = hold->next;
    atomic_exchange(&hold->is_listed, false);
    return connection;
}

/** A connection that is to be freed is in the list no more. Nobody tells it to go on any more. */
static inline void told_list_forget(struct told_list *list, const struct connection *connection)
{
    struct channel_hold *hold = told_list_take(list);
    while (hold != NULL) {
        struct channel_hold *next = hold->next;
        if (hold->connection != connection)
            told_list_push(list, hold);
        hold = next;
    }
}

#endif
