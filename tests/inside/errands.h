/*
 * Tasks of a recorder's (channel_begin()), which record what becomes of them. A client has it begin
 * the next one with `pause` or `errand`, and is told "done N" when the result of the Nth is in. It
 * has it cancel one with `give up N`.
 *
 * An errand's result counts as a call of the recorder's: never beside another one, and only in the
 * middle of its life. Its drop must come after the end. Errands outlive the connection.
 */
#ifndef TESTS_INSIDE_ERRANDS_H
#define TESTS_INSIDE_ERRANDS_H

#include "common/server/channel_calls.h"
#include "recorder.h"

struct errand {
    struct channel_task task; /* first */
    struct recorder *recorder;
    int number;
    int result;        /* the helper's until the result is in: ThreadSanitizer would tell */
    pid_t thread;      /* the system's number for the thread that did it */
    atomic_bool begun; /* it is the next one's turn */
    bool is_cancelled; /* its drop comes before the end */
    atomic_int runs;
    atomic_int completions;
    atomic_int drops;
};

/** Gives a recorder so many errands. */
void errands_init(struct errand *errands, int count, struct recorder *recorder);

/** Begins the next of them: the recorder's own calls only. */
void errand_begin(struct recorder *recorder, struct channel_facade *facade,
                  enum channel_meanwhile meanwhile);

/** Cancels one of them, and tells the client "cancelled" or "too late": own calls only. */
void errand_cancel(struct recorder *recorder, struct channel_facade *facade, int number);

/** Asserts how often it was done, its result came in, and it was dropped. */
#define errand_expect(errand, runs, completions, drops)                                            \
    errand_expect_at(HERE, errand, runs, completions, drops)
void errand_expect_at(const char *where, struct errand *errand, int runs, int completions,
                      int drops);

#endif
