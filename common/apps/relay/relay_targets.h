/*
 * The servers that a relay connects to, where they are, and how many connections each has.
 *
 * A target that is a name has an address only once somebody has looked it up, and the address may
 * change. Looking it up takes its time, so that is left to the caller, who has a helper do it.
 *
 * Interface: once they are open, any thread.
 */
#ifndef COMMON_RELAY_TARGETS_H
#define COMMON_RELAY_TARGETS_H

#include "common/base/lock.h"
#include "common/base/options.h"
#include "common/server/host_port.h"

enum {
    RELAY_TARGETS_MAX = 16,

    /** No target is left that was not tried. */
    RELAY_NO_TARGET = RELAY_TARGETS_MAX,

    /** How long the address of a name is not looked up again; ms. */
    RELAY_ADDRESS_FRESH_MS = 30 * 1000,
};

struct relay_target {
    char name[HOST_PORT_SIZE]; /* HOST:PORT, as the user has typed it */
    bool is_name;              /* otherwise the address is known and stays */
};

struct relay_address {
    struct endpoint endpoint;
    bool is_known;
    int64_t looked_up; /* when, or when somebody has begun to; ms of clock_ms() */
};

struct relay_targets {
    struct relay_target all[RELAY_TARGETS_MAX]; /* does not change once they are open */
    size_t count;
    struct mutex lock;
    struct relay_address addresses[RELAY_TARGETS_MAX] GUARDED_BY(&lock);
    size_t connections[RELAY_TARGETS_MAX] GUARDED_BY(&lock); /* those under way, too */
};

/** For an option whose target is a const char *, which becomes the text, or NULL for "none". */
option_parser relay_targets_parse;

/** Reads the text. False if there is none; it is on standard error then, and nothing is held. */
bool relay_targets_open(struct relay_targets *targets, const char *text, const char *program);

void relay_targets_close(struct relay_targets *targets);

/**
 * The target with the fewest connections of those whose bit is not set in `tried`, the first one of
 * several: its number, and it has one connection more. RELAY_NO_TARGET: all were tried.
 */
size_t relay_targets_choose(struct relay_targets *targets, uint32_t tried);

/**
 * Where a target is. False: the caller has to look its name up and say what was found. If an old
 * address is known, one caller is asked to, and the others get the old one meanwhile.
 */
bool relay_targets_address(struct relay_targets *targets, size_t target, struct endpoint *address);

/** A name was looked up, and this was found. */
void relay_targets_found(struct relay_targets *targets, size_t target,
                         const struct endpoint *address);

/** It was not found. True: the old address is the one to try. */
bool relay_targets_not_found(struct relay_targets *targets, size_t target,
                             struct endpoint *address);

/** A connection to that target is over, or did not come about. */
void relay_targets_give_back(struct relay_targets *targets, size_t target);

#endif
