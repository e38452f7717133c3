/*
 * How fast bytes may leave, for a connection whose rate is limited.
 *
 * Each byte costs time: a second divided by the rate. `paid_until` is the moment at which all that
 * has left will be paid; once it is past, what has been saved since is the allowance. No more is
 * saved than a burst's worth, so that a silence does not buy a flood. (A token bucket that needs no
 * tick; networks call it the generic cell rate algorithm.)
 *
 * Interface:
 * - One thread at a time, without a lock.
 * - Times are nanoseconds of a clock that the caller reads, and all arithmetic is in 64 bits.
 */
#ifndef COMMON_PACE_H
#define COMMON_PACE_H

#include <stddef.h>
#include <stdint.h>

struct pace {
    uint64_t rate; /* bytes per second; 0: as fast as it goes */
    int64_t paid_until;
};

enum {
    /** Longer than this is not saved for, nor waited for without need; ms. */
    PACE_BURST_MS = 50,
    PACE_QUANTUM_MS = 10,
};

/** 10 GB/s: a higher rate is no limit on any machine, and the arithmetic does not overflow. */
#define PACE_MAX_RATE UINT64_C(10000000000)

/** Sets the rate. Nothing is saved yet. */
void pace_set(struct pace *pace, uint64_t rate, int64_t now);

/** How many bytes may leave now. SIZE_MAX if there is no rate. */
size_t pace_allowance(const struct pace *pace, int64_t now);

/** So many have left. */
void pace_spend(struct pace *pace, size_t bytes, int64_t now);

/** When it is worth while to send again, if `waiting` bytes wait; not later than now: at once. */
int64_t pace_due(const struct pace *pace, size_t waiting);

#endif
