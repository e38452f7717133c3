/*
 * Posts of a test's: see notes.h.
 */
#include "notes.h"

#include <criterion/criterion.h>
#include <pthread.h>

/* Only the connection's own context touches it: ThreadSanitizer would tell. */
static int order;
static int turns[1 << 16];

struct poster {
    struct note *notes;
    int count;
    pthread_t thread;
};

static struct note *note_of(struct channel_post *post)
{
    return (struct note *)post;
}

static void run(struct channel_post *post, struct channel_facade *facade)
{
    struct note *note = note_of(post);
    recorder_enter(note->recorder);
    recorder_check_alive(note->recorder);
    if (facade != recorder_facade(note->recorder)) {
        atomic_fetch_add(&note->recorder->out_of_order, 1);
    }
    turns[order % (1 << 16)] = (int)(note - note->recorder->notes);
    order++;
    if (note->again > 0) {
        note->again--;
        channel_post(facade, post);
    }
    recorder_leave(note->recorder);
    atomic_fetch_add_explicit(&note->runs, 1, memory_order_relaxed);
}

static void dropped(struct channel_post *post)
{
    struct note *note = note_of(post);
    if (atomic_load(&note->recorder->calls[RECORDER_STOPPED]) != 1) {
        atomic_fetch_add(&note->recorder->out_of_order, 1);
    }
    atomic_fetch_add_explicit(&note->drops, 1, memory_order_relaxed);
}

void note_init(struct note *note, struct recorder *recorder)
{
    *note = (struct note){.post = {.run = run, .dropped = dropped}, .recorder = recorder};
}

void note_post(struct note *note)
{
    channel_post(recorder_facade(note->recorder), &note->post);
}

void note_expect_at(const char *where, struct note *note, int runs, int drops)
{
    cr_assert_eq(atomic_load(&note->runs), runs, "%s: it ran %d times, not %d", where,
                 atomic_load(&note->runs), runs);
    cr_assert_eq(atomic_load(&note->drops), drops, "%s: it was dropped %d times, not %d", where,
                 atomic_load(&note->drops), drops);
}

static void *post_all(void *argument)
{
    struct poster *poster = argument;
    for (int i = 0; i < poster->count; i++) {
        note_post(&poster->notes[i]);
    }
    return NULL;
}

void notes_post_from_threads(struct note *notes, int count, struct recorder *recorder)
{
    struct poster posters[NOTES_THREADS];
    recorder->notes = notes;
    for (int i = 0; i < count * NOTES_THREADS; i++) {
        note_init(&notes[i], recorder);
    }
    for (int i = 0; i < NOTES_THREADS; i++) {
        posters[i] = (struct poster){.notes = notes + (ptrdiff_t)i * count, .count = count};
        cr_assert_eq(pthread_create(&posters[i].thread, NULL, post_all, &posters[i]), 0);
    }
    for (int i = 0; i < NOTES_THREADS; i++) {
        pthread_join(posters[i].thread, NULL);
    }
}

static void *post_again(void *argument)
{
    struct poster *poster = argument;
    int queued = 0;
    for (int i = 0; i < poster->count; i++) {
        queued += channel_post(recorder_facade(poster->notes->recorder), &poster->notes->post);
    }
    poster->count = queued;
    return NULL;
}

int note_post_from_threads(struct note *note, int count)
{
    struct poster posters[NOTES_THREADS];
    int queued = 0;
    for (int i = 0; i < NOTES_THREADS; i++) {
        posters[i] = (struct poster){.notes = note, .count = count};
        cr_assert_eq(pthread_create(&posters[i].thread, NULL, post_again, &posters[i]), 0);
    }
    for (int i = 0; i < NOTES_THREADS; i++) {
        pthread_join(posters[i].thread, NULL);
        queued += posters[i].count;
    }
    return queued;
}

/* After the connection's end, so that `turns` is nobody's any more. */
void notes_expect_all_ran_at(const char *where, struct note *notes, int count)
{
    int next[NOTES_THREADS] = {0};
    for (int i = 0; i < count * NOTES_THREADS; i++) {
        note_expect_at(where, &notes[i], 1, 0);
    }
    cr_assert_eq(order, count * NOTES_THREADS);
    for (int i = 0; i < order; i++) {
        int thread = turns[i] / count;
        cr_assert_eq(turns[i] % count, next[thread], "%s: note %d of thread %d ran as number %d",
                     where, turns[i] % count, thread, next[thread]);
        next[thread]++;
    }
}
