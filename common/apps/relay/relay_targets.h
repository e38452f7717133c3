/*
 * The servers that a relay connects to, where they are, and how many connections each has.
 *
 * A target that is a name has addresses only once somebody has looked it up, and they may change.
 * Looking a name up blocks for as long as no name server answers, and nothing can interrupt it. So
 * each name has a thread of its own meanwhile, all clients that need the name wait for that one,
 * and none waits for a name of another target. A client that does not want to wait any longer takes
 * itself out; the thread goes on, for those that come later, and ends by itself.
 *
 * Interface: any thread, without a lock.
 */
#ifndef COMMON_RELAY_TARGETS_H
#define COMMON_RELAY_TARGETS_H

#include "common/base/list.h"
#include "common/base/lock.h"
#include "common/base/options.h"
#include "common/server/channel_calls.h"
#include "common/server/channel_facade.h"
#include "common/server/host_port.h"

enum {
    RELAY_TARGETS_MAX = 16,

    /** No target is left that was not tried. */
    RELAY_NO_TARGET = RELAY_TARGETS_MAX,

    /** How long the addresses of a name are not looked up again; ms. */
    RELAY_ADDRESS_FRESH_MS = 30 * 1000,
};

/** A client that waits for a name. All zero but the post. */
struct relay_waiter {
    struct channel_post post; /* made when the name has been looked up, or could not be */

    /* The targets', while it waits: */
    struct list_link link;
    struct channel_facade *channel; /* the client's, with a reference */
};

struct relay_targets;

/** What does not change. */
struct relay_target {
    char name[HOST_PORT_SIZE];     /* HOST:PORT, as the user has typed it */
    bool is_name;                  /* otherwise the address is known and stays */
    struct relay_targets *targets; /* which it is one of */
};

/** What does. */
struct relay_target_state {
    struct host_port_addresses addresses; /* none: they are not known yet */
    int error;                            /* of the last lookup, for gai_strerror(3) */
    int64_t looked_up;                    /* when that was, or has begun; ms of clock_ms() */
    bool is_looked_up;                    /* a thread does it now */
    struct list_link waiters;
    size_t connections; /* those under way, too */
};

struct relay_targets {
    size_t count;
    struct relay_target all[RELAY_TARGETS_MAX];
    struct mutex lock;
    struct condition idle; /* nothing is posted */
    struct relay_target_state states[RELAY_TARGETS_MAX] GUARDED_BY(&lock);
    size_t references GUARDED_BY(&lock); /* the relay's, and one for each thread */
    size_t posting GUARDED_BY(&lock);    /* threads that call clients back */
};

/** For an option whose target is a const char *, which becomes the text, or NULL for "none". */
option_parser relay_targets_parse;

/** Reads the text. NULL if there is none or no memory; the reason is on standard error then. */
struct relay_targets *relay_targets_open(const char *text, const char *program);

/** When no client is left. A name that is still being looked up keeps what its thread needs. */
void relay_targets_close(struct relay_targets *targets);

/**
 * The target with the fewest connections of those whose bit is not set in `tried`, the first one of
 * several: its number, and it has one connection more. RELAY_NO_TARGET: all were tried.
 */
size_t relay_targets_choose(struct relay_targets *targets, uint32_t tried);

/** A connection to that target is over, or did not come about. */
void relay_targets_give_back(struct relay_targets *targets, size_t target);

/**
 * Whether a target's addresses are known, and fresh. If not, the channel's client waits: its
 * waiter's post is made when they have been looked up, or could not be. If old ones are known, one
 * client waits for the new ones, and the others use the old ones meanwhile.
 */
bool relay_targets_find(struct relay_targets *targets, size_t target, struct relay_waiter *waiter,
                        struct channel_facade *channel) NO_LOCK_HELD;

/** Waits no longer. False: it does not wait, or its post is under way already. */
bool relay_targets_stop_waiting(struct relay_targets *targets, struct relay_waiter *waiter);

/**
 * The n-th address of a target, from 0 on, as the last lookup has found it: how many there are from
 * that one on. 0: there is none. Old addresses are better than none.
 */
size_t relay_targets_address(struct relay_targets *targets, size_t target, size_t n,
                             struct endpoint *address);

/** Why the last lookup of its name has failed, for gai_strerror(3); 0: it has not. */
int relay_targets_error(struct relay_targets *targets, size_t target);

#endif
