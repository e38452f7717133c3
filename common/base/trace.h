/*
 * What the threads do, as a record to look at afterwards (`--trace FILE`; docs/trace.md).
 *
 * Each thread writes its events into a ring of its own: the last TRACE_RING_EVENTS are kept. So
 * recording takes no lock and no memory, and threads do not wait for each other to be watched. When
 * the server has ended, all rings are written in the order of time, as the trace events that
 * Perfetto and chrome://tracing read (JSON).
 *
 * An event says what happened, to which connection, and one number. A descriptor number is used
 * again and again, so a connection is its number and a serial number that trace_accepted() gives.
 *
 * Interface:
 * - trace_open() comes before the first other thread, trace_close() after the last one has recorded
 *   its last event.
 * - A thread has a ring from trace_thread() on, which thread_set_name() calls; without one, what it
 *   does is not recorded.
 * - A kind whose name begins what another one ends (TRACE_SELECT, TRACE_SELECTED) comes in such
 *   pairs, properly nested in each thread.
 * - Where something is handed to another thread, the event is recorded before it can be seen there;
 *   where it is taken, afterwards. So no trace shows an effect before its cause.
 * - No event of a connection is recorded after its TRACE_CLOSE, which comes before close(2).
 */
#ifndef COMMON_TRACE_H
#define COMMON_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** What happens. Behind each: what its number means. */
enum trace_kind {
    TRACE_SELECT,           /* begins to select: the selector */
    TRACE_SELECTED,         /* ends that: how many keys are ready */
    TRACE_WAKEUP,           /* writes a wakeup: the selector */
    TRACE_WAKEUP_COALESCED, /* a wakeup that need not be written: the selector */
    TRACE_REGISTER,         /* a descriptor is registered: the interest */
    TRACE_INTEREST,         /* its interest changes: the interest */
    TRACE_BARRIER,          /* begins to wait at the selector guard's barrier */
    TRACE_BARRIER_PASSED,   /* ends that */
    TRACE_GUARD,            /* begins to hold the guard */
    TRACE_GUARD_RELEASED,   /* ends that */
    TRACE_CHANGE_QUEUED,    /* a status change is put into its queue */
    TRACE_CHANGE_APPLIED,   /* the dispatcher has taken it: what it comes to */
    TRACE_TASK_QUEUED,      /* a task is given to the executor: the task */
    TRACE_TASK_DROPPED,     /* and is not run after all: the task */
    TRACE_TASK,             /* begins to run it: the task */
    TRACE_TASK_FINISHED,    /* ends that; its connection may be gone, and is not named */
    TRACE_RUN,              /* begins to run a connection's handler */
    TRACE_RUN_DONE,         /* ends that */
    TRACE_BLOCKED_READ,     /* begins a read that may block */
    TRACE_BLOCKED_READ_DONE,
    TRACE_BLOCKED_WRITE, /* begins a write that may block */
    TRACE_BLOCKED_WRITE_DONE,
    TRACE_RECEIVE, /* bytes were received: how many; 0: end of stream */
    TRACE_SEND,    /* bytes were sent: how many */
    TRACE_ACCEPT,  /* a connection begins: it was accepted, or we begin to connect */
    TRACE_CLOSE,   /* a connection ends */
    TRACE_TIMER,   /* one of its deadlines has passed: enum deadline */
    TRACE_KINDS
};

enum {
    /** For an event that belongs to no connection. */
    TRACE_NO_CONNECTION = -1,

    /** Events that a thread keeps: a megabyte, of which only what is used is real. */
    TRACE_RING_EVENTS = 1 << 15,

    /** Threads that are recorded. Those that come later are counted and nothing else. */
    TRACE_MAX_THREADS = 4096,
};

/** Whether a trace is being recorded. */
extern atomic_bool trace_is_on;

/**
 * Begins a trace, to be written to the file; `%p` in its name stands for the process number. The
 * calling thread is called "main". NULL: there will be none. 0; or -1 with errno if the file cannot
 * be written or there is no memory, and nothing is recorded then.
 */
int trace_open(const char *file);

/** Ends the trace and writes it. 0, or -1 with errno: the file is not complete. */
int trace_close(const char *program);

/** Records the calling thread from now on, under that name. Does nothing while there is no trace.
 */
void trace_thread(const char *name);

/** The part of trace_event() that is not inline. */
void trace_record(enum trace_kind kind, int fd, int64_t value);

/** The part of trace_accepted() that is not inline. */
void trace_begin_connection(int fd);

/**
 * Records an event. `value` is what its kind says; for a task or a selector, its address, which
 * tells it from others. While there is no trace, that is one test.
 */
static inline void trace_event(enum trace_kind kind, int fd, int64_t value)
{
    if (atomic_load_explicit(&trace_is_on, memory_order_relaxed))
        trace_record(kind, fd, value);
}

/** A connection begins: its descriptor number means this one from now on. */
static inline void trace_accepted(int fd)
{
    if (atomic_load_explicit(&trace_is_on, memory_order_relaxed))
        trace_begin_connection(fd);
}

#endif
