/*
 * The servers that a relay connects to, and how many connections each has.
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
};

struct relay_target {
    char name[HOST_PORT_SIZE]; /* HOST:PORT, as the user has typed it */
    struct endpoint address;
};

struct relay_targets {
    struct relay_target all[RELAY_TARGETS_MAX]; /* does not change once they are open */
    size_t count;
    struct mutex lock;
    size_t connections[RELAY_TARGETS_MAX] GUARDED_BY(&lock); /* those under way, too */
};

/** For an option whose target is a const char *, which becomes the text, or NULL for "none". */
option_parser relay_targets_parse;

/**
 * Reads the text and looks the names up, which may take its time. False if there is none, or a name
 * is not found; it is on standard error then, and nothing is held.
 */
bool relay_targets_open(struct relay_targets *targets, const char *text, const char *program);

void relay_targets_close(struct relay_targets *targets);

/**
 * The target with the fewest connections of those whose bit is not set in `tried`, the first one of
 * several: its number, and it has one connection more. RELAY_NO_TARGET: all were tried.
 */
size_t relay_targets_choose(struct relay_targets *targets, uint32_t tried);

/** A connection to that target is over, or did not come about. */
void relay_targets_give_back(struct relay_targets *targets, size_t target);

#endif
