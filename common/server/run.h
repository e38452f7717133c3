/*
 * A run: one thread has its turn with one connection (connection.h).
 *
 * What belongs to that turn, and to no connection, is here, and is passed down: its clock, and what
 * it sends to others and holds back (burst.h). A run in which handlers send to their own clients
 * only begins as all zero: stages 1 to 3.
 *
 * In stages 4 and 5 a handler sends to other connections, too. That call comes without the run: a
 * facade knows whose it is, and not who calls. So there a thread names its run, in one variable.
 *
 * Interface:
 * - A run is one thread's, from run_begin() to run_end().
 * - Runs of one thread may lie within each other.
 * - Outside of them, as in a thread of the application's, there is none.
 */
#ifndef COMMON_RUN_H
#define COMMON_RUN_H

#include "common/base/lock.h"
#include "common/server/burst.h"

struct connection;
struct connection_message;
struct run;

/** A call that a run makes before its output leaves: the turn of a strand (strand.h). */
struct run_call {
    void (*make)(struct run_call *self, struct run *run);
    struct run_call *next;
};

struct run {
    int64_t now;                      /* when connection_send() began; ms of clock_ms() */
    struct burst burst;               /* what it holds back for others */
    bool corks;                       /* it has corked: connection_send() has to uncork */
    uint64_t sent;                    /* bytes that left at once, where others send, too; else 0 */
    struct connection_message *found; /* by connection_find(), to be handled first; NULL: none */
    const struct connection *connection; /* whose turn it is; NULL: that of none, or not begun */
    struct run_call *calls;              /* to be made */
    struct run *outer;                   /* the thread's run in which this one lies; NULL: none */
};

/** Begins a run of that connection (NULL: of a strand), which is the calling thread's until
 * run_end(). */
void run_begin(struct run *run, const struct connection *connection);

/** Has it make a call, which is in no run's list yet. */
static inline void run_add_call(struct run *run, struct run_call *call)
{
    call->next = run->calls;
    run->calls = call;
}

/** Makes the calls, and those that they add. Behind the handler's, and before connection_send(). */
static inline void run_make_calls(struct run *run) NO_LOCK_HELD
{
    while (run->calls != NULL) {
        struct run_call *call = run->calls;
        run->calls = call->next;
        call->make(call, run);
    }
}

/**
 * It is over: makes the calls that are left, and what is still held back leaves. The run that it
 * lies in is the thread's again.
 */
void run_end(struct run *run) NO_LOCK_HELD;

/**
 * The calling thread's run; NULL: it has none. Only run_enter() writes it. A variable and no
 * function, because each line asks for it, at times only in an assert.
 */
extern _Thread_local struct run *run_own;

/** Makes this the calling thread's run, or NULL: none; returns which one was. */
struct run *run_enter(struct run *run);

#endif
