/*
 * What main has seen of a thread that it looks at once a second (watch.h).
 *
 * Interface: whoever looks owns it; the thread itself never touches it.
 */
#ifndef COMMON_WATCHED_H
#define COMMON_WATCHED_H

#include <stdbool.h>
#include <stdint.h>

/** All zero: nothing was seen yet. */
struct watched_place {
    uint64_t turn; /* which call of a handler it was */
    int fd;        /* for which connection */
    bool told;     /* the log says that it takes long */
    int64_t since; /* ns of the monotonic clock: when the call began, or was seen first */
    char peer[64]; /* if told: whose connection */
};

#endif
