/*
 * A handler that records how it is called, and checks it: each life-cycle call once and in its
 * order, and no two calls at a time.
 *
 * It serves lines, and does what they say:
 *
 *   fail            handle_input returns false
 *   lose            ends its connection at once, as if it were lost
 *   close           answers "closing" and closes
 *   suspend         wants to hear of no more input
 *   big N           answers with N bytes and a line end
 *   switch          gives the connection to the handler `other`
 *   urgent          is urgent, and answered with itself
 *   wake            has the connection of `other` hear of input again
 *   tell TEXT       sends TEXT to the connection of `other`, as a line
 *   later N         suspends its input, and answers "later" and resumes N milliseconds later
 *   never           has a timer of a minute, which is not going to fire
 *   cancel          sets a timer that is due at once, and cancels it
 *   pause           begins the next of `errands`, and no message is handled before it is back
 *   errand          begins the next one, and messages go on
 *   give up N       cancels the Nth of them
 *   anything else   is answered with itself; with a number in it, numbers have to go up by one
 *
 * Rules:
 * - It outlives its connection, so that the test can look at it afterwards, and holds a reference
 *   to its facade from `starting` on. recorder_expect_whole_life() gives it back, and
 *   framework_end() calls that for each recorder that framework_register() got.
 * - Its plain fields are the runner's alone: ThreadSanitizer would tell if two runs were not in
 *   order. The test looks at the atomic ones.
 */
#ifndef TESTS_INSIDE_RECORDER_H
#define TESTS_INSIDE_RECORDER_H

#include "common/server/channel_calls.h"
#include "common/server/input_handler.h"
#include "support/server_process.h"

#include <stdatomic.h>
#include <stdbool.h>

/** The life-cycle calls, in their order: as the stages number them in enum adapter_life. */
enum recorder_life {
    RECORDER_STARTING = 1,
    RECORDER_STARTED,
    RECORDER_END_OF_INPUT,
    RECORDER_STOPPING,
    RECORDER_STOPPED,
};

struct note;
struct errand;

struct recorder {
    struct input_handler handler; /* first */
    struct note *notes;           /* notes.h */
    struct errand *errands;       /* errands.h */
    struct recorder *other;       /* for `switch` and `wake` */
    bool close_in_starting;
    bool fails_always; /* whatever the message is */
    bool is_replaced;  /* by `switch`: `other` hears the rest of its life */

    /* The runner's. */
    int life; /* the last life-cycle call */
    int number;
    struct channel_timer timer;
    struct channel_timer cancelled; /* must not fire */
    int64_t due;                    /* the timer must not fire before */

    /* Anybody's. */
    struct channel_facade *_Atomic facade;
    atomic_int calls[RECORDER_STOPPED + 1];
    atomic_int messages;
    atomic_int refused;
    atomic_int inside;       /* calls under way */
    atomic_int overlaps;     /* calls that began in another one */
    atomic_int out_of_order; /* calls that came too early, too late, or twice */
    atomic_int thread;       /* the system's number for the thread that handled the last message */
    atomic_int turn;         /* the last message's place among those of all recorders */
};

/** A factory of one handler, which the test has already. */
struct one_handler {
    struct input_handler_factory factory; /* first */
    struct input_handler *handler;
};
struct input_handler *one_handler_create(struct input_handler_factory *factory, void *memory);
#define ONE_HANDLER(one)                                                                           \
    (&(struct one_handler){.factory.create = one_handler_create, .handler = (one)}.factory)

/** Ends a connection at once: the suite's, for `lose`. */
void recorder_lose(struct channel_facade *facade);

void recorder_init(struct recorder *recorder);

/** One that says "too late" when its message is. */
void recorder_init_telling(struct recorder *recorder);

/** Waits until one of the recorder's atomic numbers is at least so much; asserts that it gets so.
 */
#define recorder_await(recorder, field, least)                                                     \
    recorder_await_at(HERE, #field, &(recorder)->field, least)
void recorder_await_at(const char *where, const char *field, atomic_int *value, int least);

/** Waits for `stopped`, asserts that nothing was called wrongly, and gives the facade back. */
#define recorder_expect_whole_life(recorder) recorder_expect_whole_life_at(HERE, recorder)
void recorder_expect_whole_life_at(const char *where, struct recorder *recorder);

/** Remembers the handler, if it is a recorder. Any thread. */
void recorders_add(struct input_handler *handler);

/** Those that were remembered had a whole life each, or one that another recorder has taken over.
 * Forgets them. */
void recorders_expect_whole_lives(void);

/** Asserts that nothing was called wrongly so far. */
#define recorder_expect_order(recorder) recorder_expect_order_at(HERE, recorder)
void recorder_expect_order_at(const char *where, struct recorder *recorder);

/** Round each call in the handler's context: no two of them may overlap. */
void recorder_enter(struct recorder *recorder);
void recorder_leave(struct recorder *recorder);

/** In such a call: the connection has started, and its end has not begun. */
void recorder_check_alive(struct recorder *recorder);

/** How many facades recorders hold at the moment. */
size_t recorder_references(void);

/** The facade, from `starting` on. */
static inline struct channel_facade *recorder_facade(struct recorder *recorder)
{
    return atomic_load(&recorder->facade);
}

/** Sends a text from outside the handler, as any thread may. */
enum output_result recorder_send(struct recorder *recorder, const char *text);

#endif
