/*
 * What a server has done so far, for --stats and SIGUSR1.
 *
 * Interface: all calls are safe from any thread; the counters are exact, but a line printed while
 * others count is no snapshot of one moment.
 */
#ifndef COMMON_COUNTERS_H
#define COMMON_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
    COUNTER_ACCEPTED,  /* connections that were served */
    COUNTER_REJECTED,  /* connections that were turned away: too many, or no means to serve them */
    COUNTER_CLOSED,    /* connections that were served and have ended */
    COUNTER_TIMED_OUT, /* those of them that a timeout ended */
    COUNTER_MESSAGES,  /* whole messages received */
    COUNTER_TOO_LONG,  /* messages past the length limit */
    COUNTER_BYTES_IN,
    COUNTER_BYTES_OUT,
    COUNTER_WRITES,          /* system calls that offered output, of connections that have ended */
    COUNTER_WAKEUPS_ASKED,   /* calls of selector_wakeup() */
    COUNTER_WAKEUPS_WRITTEN, /* those that cost a system call */
    COUNTER_TASKS_COMPLETED, /* by workers */
    COUNTER_TASKS_ABORTED,   /* not accepted */
    COUNTER_TASKS_BLOCKED,   /* for which the submitter had to wait */
    COUNTER_TASKS_BY_CALLER, /* that the submitter ran itself */
    COUNTER_TASKS_DISCARDED,
    COUNTER_TASKS_LATE,      /* that began later than --max-wait-ms after they were submitted */
    COUNTER_MAX_THREADS,     /* workers at any one time */
    COUNTER_NO_MEMORY,       /* connections that were closed because there was none */
    COUNTER_CONNECTS,        /* connections that we began to open; they end among the closed ones */
    COUNTER_CONNECTS_FAILED, /* those of them that did not come about */
    COUNTERS_OF_CONNECTIONS, /* those above; an application counts for the whole server */
    COUNTER_LINES_PUBLISHED =
        COUNTERS_OF_CONNECTIONS, /* lines of a chat that its broker has confirmed */
    COUNTER_LINES_HEARD,         /* lines that have come from other servers */
    COUNTER_LINES_LOST,          /* lines that the broker has not taken, or has not confirmed */
    COUNTER_LINES_MISSED,        /* lines of other servers that have not come */
    COUNTERS,
};

struct counters {
    atomic_uint_least64_t values[COUNTERS];
};

static inline void counters_add(struct counters *counters, enum counter counter, uint64_t count)
{
    atomic_fetch_add_explicit(&counters->values[counter], count, memory_order_relaxed);
}

static inline void counters_set(struct counters *counters, enum counter counter, uint64_t value)
{
    atomic_store_explicit(&counters->values[counter], value, memory_order_relaxed);
}

static inline uint64_t counters_get(const struct counters *counters, enum counter counter)
{
    return atomic_load_explicit(&counters->values[counter], memory_order_relaxed);
}

/** Connections that are open now. */
static inline uint64_t counters_open(const struct counters *counters)
{
    uint64_t closed = counters_get(counters, COUNTER_CLOSED); /* first: it was opened before */
    return counters_get(counters, COUNTER_ACCEPTED) + counters_get(counters, COUNTER_CONNECTS) -
           closed;
}

/** A number that an application counts, printed behind the server's. All zero but its name. */
struct own_counter {
    const char *name; /* letters, digits and _ */
    atomic_uint_least64_t value;
    struct own_counter *next; /* the server's */
};

static inline void own_counter_add(struct own_counter *counter, uint64_t count)
{
    atomic_fetch_add_explicit(&counter->value, count, memory_order_relaxed);
}

static inline uint64_t own_counter_get(const struct own_counter *counter)
{
    return atomic_load_explicit(&counter->value, memory_order_relaxed);
}

/** `accepted`. */
const char *counter_name(enum counter counter);

/**
 * Writes `<program>: stats name=value name=value ...` to standard error, in one piece. What not
 * every stage has is left out while it is zero.
 */
void counters_print(const struct counters *counters, const char *program);

/** The same with an application's behind it, also those that are zero. */
void counters_print_with(const struct counters *counters, const struct own_counter *own,
                         const char *program);

#endif
