/*
 * Tasks of a test's: see errands.h.
 */
#include "errands.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct errand *errand_of(struct channel_task *task)
{
    return (struct errand *)task;
}

static void add(atomic_int *value)
{
    atomic_fetch_add_explicit(value, 1, memory_order_relaxed);
}

static void run(struct channel_task *task)
{
    struct errand *errand = errand_of(task);
    errand->result = errand->number;
    errand->thread = gettid();
    add(&errand->runs);
}

static void completed(struct channel_task *task, struct channel_facade *facade)
{
    struct errand *errand = errand_of(task);
    struct recorder *recorder = errand->recorder;
    char text[32];
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    int length = snprintf(text, sizeof text, "done %d\n", errand->result);
    if (facade != recorder_facade(recorder)) {
        add(&recorder->out_of_order);
    }
    channel_enqueue(facade, piece_bytes(text, (size_t)length));
    recorder_leave(recorder);
    add(&errand->completions);
}

static void dropped(struct channel_task *task)
{
    struct errand *errand = errand_of(task);
    if (atomic_load(&errand->recorder->calls[RECORDER_STOPPED]) != !errand->is_cancelled) {
        add(&errand->recorder->out_of_order);
    }
    add(&errand->drops);
}

void errands_init(struct errand *errands, int count, struct recorder *recorder)
{
    recorder->errands = errands;
    for (int i = 0; i < count; i++) {
        errands[i] =
            (struct errand){.task = {.run = run, .completed = completed, .dropped = dropped},
                            .recorder = recorder,
                            .number = i,
                            .result = -1};
    }
}

void errand_begin(struct recorder *recorder, struct channel_facade *facade,
                  enum channel_meanwhile meanwhile)
{
    struct errand *next = recorder->errands;
    while (atomic_exchange(&next->begun, true)) {
        next++;
    }
    if (!channel_begin(facade, &next->task, meanwhile) ||
        channel_begin(facade, &next->task, meanwhile)) { /* it is under way */
        atomic_fetch_add(&recorder->out_of_order, 1);
    }
}

void errand_cancel(struct recorder *recorder, struct channel_facade *facade, int number)
{
    struct errand *errand = &recorder->errands[number];
    errand->is_cancelled = channel_cancel_task(&errand->task);
    if (channel_cancel_task(&errand->task)) { /* once is enough */
        atomic_fetch_add(&recorder->out_of_order, 1);
    }
    const char *text = errand->is_cancelled ? "cancelled\n" : "too late\n";
    channel_enqueue(facade, piece_bytes(text, strlen(text)));
}

void errand_expect_at(const char *where, struct errand *errand, int runs, int completions,
                      int drops)
{
    cr_assert_eq(atomic_load(&errand->runs), runs, "%s: it was done %d times, not %d", where,
                 atomic_load(&errand->runs), runs);
    cr_assert_eq(atomic_load(&errand->completions), completions,
                 "%s: its result came in %d times, not %d", where,
                 atomic_load(&errand->completions), completions);
    cr_assert_eq(atomic_load(&errand->drops), drops, "%s: it was dropped %d times, not %d", where,
                 atomic_load(&errand->drops), drops);
}
