/*
 * Posts of a test's (channel_post()), which record how they are called; and threads that post many.
 *
 * A note's run counts as a call of the recorder's: never beside another one, and only in the middle
 * of its life. Its drop must come after the end. Notes outlive the connection.
 */
#ifndef TESTS_INSIDE_NOTES_H
#define TESTS_INSIDE_NOTES_H

#include "common/server/channel_calls.h"
#include "recorder.h"

struct note {
    struct channel_post post; /* first */
    struct recorder *recorder;
    int again; /* how often it posts itself once more */
    atomic_int runs;
    atomic_int drops;
};

void note_init(struct note *note, struct recorder *recorder);

/** Posts it to the recorder's connection. Any thread. */
void note_post(struct note *note);

/** Asserts that it was run so often and dropped so often. */
#define note_expect(note, runs, drops) note_expect_at(HERE, note, runs, drops)
void note_expect_at(const char *where, struct note *note, int runs, int drops);

/** Posts `count` notes from each of four threads, and waits until these have ended. */
void notes_post_from_threads(struct note *notes, int count, struct recorder *recorder);

/** Posts one note from each of four threads `count` times; how often it was queued. */
int note_post_from_threads(struct note *note, int count);

/** Asserts that each of them ran once, and those of one thread in their order. */
#define notes_expect_all_ran(notes, count) notes_expect_all_ran_at(HERE, notes, count)
void notes_expect_all_ran_at(const char *where, struct note *notes, int count);

enum { NOTES_THREADS = 4 };

#endif
