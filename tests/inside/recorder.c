/*
 * A handler that records how it is called: see recorder.h.
 */
#include "recorder.h"

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/run.h"
#include "errands.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int turns;

/* Facades that recorders hold. */
static atomic_size_t references;

static struct recorder *recorder_of(struct input_handler *handler)
{
    return (struct recorder *)handler;
}

/* Relaxed: the recorder must not put threads in order that the framework does not. */
static void add(atomic_int *value)
{
    atomic_fetch_add_explicit(value, 1, memory_order_relaxed);
}

void recorder_enter(struct recorder *recorder)
{
    if (atomic_fetch_add_explicit(&recorder->inside, 1, memory_order_relaxed) != 0) {
        add(&recorder->overlaps);
    }
}

void recorder_leave(struct recorder *recorder)
{
    atomic_fetch_sub_explicit(&recorder->inside, 1, memory_order_relaxed);
}

void recorder_check_alive(struct recorder *recorder)
{
    if (recorder->life != RECORDER_STARTED) {
        add(&recorder->out_of_order);
    }
}

static void live(struct recorder *recorder, int life)
{
    recorder_enter(recorder);
    if (recorder->life != life - 1) {
        add(&recorder->out_of_order);
    }
    recorder->life = life;
    add(&recorder->calls[life]);
    recorder_leave(recorder);
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    channel_retain(facade);
    atomic_fetch_add_explicit(&references, 1, memory_order_relaxed);
    atomic_store(&recorder->facade, facade);
    live(recorder, RECORDER_STARTING);
    if (recorder->close_in_starting) {
        channel_close(facade);
    }
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    live(recorder_of(self), RECORDER_STARTED);
}

static void end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    live(recorder_of(self), RECORDER_END_OF_INPUT);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    live(recorder_of(self), RECORDER_STOPPING);
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    live(recorder_of(self), RECORDER_STOPPED);
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct recorder *recorder = recorder_of(self);
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    enum framing_result result = line_framing_next(channel_input(facade), 65536, message);
    recorder_leave(recorder);
    return result;
}

static bool is_urgent(struct input_handler *self, struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    bool urgent = line_framing_begins_with(channel_input(facade), "urgent");
    recorder_leave(recorder);
    return urgent;
}

static bool begins(struct message message, const char *text)
{
    return message.length >= strlen(text) && memcmp(message.data, text, strlen(text)) == 0;
}

static void send_text(struct channel_facade *facade, const char *text)
{
    channel_enqueue(facade, piece_bytes(text, strlen(text)));
}

static void answer_big(struct channel_facade *facade, size_t length)
{
    char *text = malloc(length + 1);
    if (text) {
        memset(text, 'x', length);
        text[length] = '\n';
        channel_enqueue(facade, piece_bytes(text, length + 1));
    }
    free(text);
}

static void check_number(struct recorder *recorder, struct message message)
{
    if (message.data[0] >= '0' && message.data[0] <= '9' &&
        atoi((const char *)message.data) != recorder->number++) {
        add(&recorder->out_of_order);
    }
}

static void answer_later(struct channel_timer *timer, struct channel_facade *facade)
{
    struct recorder *recorder = container_of(timer, struct recorder, timer);
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    if (clock_ms() < recorder->due) {
        add(&recorder->out_of_order);
    }
    send_text(facade, "later\n");
    channel_resume(facade);
    recorder_leave(recorder);
}

static void set_timer(struct recorder *recorder, struct channel_facade *facade, int milliseconds)
{
    recorder->timer.fired = answer_later;
    recorder->due = clock_ms() + milliseconds;
    channel_set_timer(facade, &recorder->timer, milliseconds);
}

static void answer_cancelled(struct channel_timer *timer, struct channel_facade *facade)
{
    (void)timer;
    send_text(facade, "not cancelled\n");
}

static void set_and_cancel(struct recorder *recorder, struct channel_facade *facade)
{
    recorder->cancelled.fired = answer_cancelled;
    channel_set_timer(facade, &recorder->cancelled, 0);
    channel_cancel_timer(facade, &recorder->cancelled);
}

static bool obey(struct recorder *recorder, struct message message, struct channel_facade *facade)
{
    if (recorder->fails_always || begins(message, "fail")) {
        return false;
    }
    if (begins(message, "lose")) {
        recorder_lose(facade);
    } else if (begins(message, "close")) {
        send_text(facade, "closing\n");
        channel_close(facade);
    } else if (begins(message, "suspend")) {
        channel_suspend(facade);
    } else if (begins(message, "later ")) {
        channel_suspend(facade);
        set_timer(recorder, facade, atoi((const char *)message.data + 6));
    } else if (begins(message, "never")) {
        set_timer(recorder, facade, 60000);
    } else if (begins(message, "cancel")) {
        set_and_cancel(recorder, facade);
    } else if (begins(message, "big ")) {
        answer_big(facade, strtoul((const char *)message.data + 4, NULL, 10));
    } else if (begins(message, "switch")) {
        recorder->is_replaced = true;
        recorder->other->life = recorder->life;
        channel_set_handler(facade, &recorder->other->handler);
    } else if (begins(message, "pause")) {
        errand_begin(recorder, facade, CHANNEL_WAITS);
    } else if (begins(message, "errand")) {
        errand_begin(recorder, facade, CHANNEL_GOES_ON);
    } else if (begins(message, "give up ")) {
        errand_cancel(recorder, facade, atoi((const char *)message.data + 8));
    } else if (begins(message, "wake")) {
        channel_resume(recorder_facade(recorder->other));
    } else if (begins(message, "tell ")) {
        channel_enqueue(recorder_facade(recorder->other),
                        piece_bytes(message.data + 5, message.length - 5));
        run_own->burst.since = clock_ms() + 3600000; /* it is not old because the machine is slow */
    } else {
        check_number(recorder, message);
        channel_enqueue(facade, piece_copy(message));
    }
    return true;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    atomic_store_explicit(&recorder->thread, gettid(), memory_order_relaxed);
    int turn = atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&recorder->turn, turn, memory_order_relaxed);
    bool goes_on = obey(recorder, message, facade);
    add(&recorder->messages);
    recorder_leave(recorder);
    return goes_on;
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    (void)message;
    recorder_enter(recorder);
    send_text(facade, "refused\n");
    add(&recorder->refused);
    recorder_leave(recorder);
}

static void say_last(struct input_handler *self, struct channel_facade *facade, const char *text)
{
    struct recorder *recorder = recorder_of(self);
    recorder_enter(recorder);
    recorder_check_alive(recorder);
    send_text(facade, text);
    recorder_leave(recorder);
}

static void timed_out(struct input_handler *self, struct channel_facade *facade)
{
    say_last(self, facade, "too late\n");
}

static void idle(struct input_handler *self, struct channel_facade *facade)
{
    say_last(self, facade, "too quiet\n");
}

static struct input_handler_verbs verbs = {
    .next_message = next_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .starting = starting,
    .started = started,
    .end_of_input = end_of_input,
    .stopping = stopping,
    .stopped = stopped,
};

/* Those who do not tell have no verb for it, which makes a difference to the framework. */
static struct input_handler_verbs verbs_that_tell = {
    .next_message = next_message,
    .is_urgent = is_urgent,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .timed_out = timed_out,
    .idle = idle,
    .starting = starting,
    .started = started,
    .end_of_input = end_of_input,
    .stopping = stopping,
    .stopped = stopped,
};

struct input_handler *one_handler_create(struct input_handler_factory *factory, void *memory)
{
    (void)memory;
    return ((struct one_handler *)factory)->handler;
}

void recorder_init(struct recorder *recorder)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->handler.verbs = input_handler_complete(&verbs);
}

void recorder_init_telling(struct recorder *recorder)
{
    recorder_init(recorder);
    recorder->handler.verbs = input_handler_complete(&verbs_that_tell);
}

void recorder_await_at(const char *where, const char *field, atomic_int *value, int least)
{
    WAIT_FOR(atomic_load_explicit(value, memory_order_relaxed) >= least);
    cr_assert_geq(atomic_load(value), least, "%s: waited %d ms for %s to be %d; it is %d", where,
                  test_deadline_ms(), field, least, atomic_load(value));
}

void recorder_expect_order_at(const char *where, struct recorder *recorder)
{
    cr_assert_eq(atomic_load(&recorder->overlaps), 0, "%s: %d calls of one handler overlapped",
                 where, atomic_load(&recorder->overlaps));
    cr_assert_eq(atomic_load(&recorder->out_of_order), 0,
                 "%s: %d calls came too early, too late or twice; starting %d, started %d, "
                 "end_of_input %d, stopping %d, stopped %d",
                 where, atomic_load(&recorder->out_of_order), recorder->calls[RECORDER_STARTING],
                 recorder->calls[RECORDER_STARTED], recorder->calls[RECORDER_END_OF_INPUT],
                 recorder->calls[RECORDER_STOPPING], recorder->calls[RECORDER_STOPPED]);
}

void recorder_expect_whole_life_at(const char *where, struct recorder *recorder)
{
    recorder_await_at(where, "stopped", &recorder->calls[RECORDER_STOPPED], 1);
    recorder_expect_order_at(where, recorder);
    for (int life = RECORDER_STARTING; life <= RECORDER_STOPPED; life++) {
        cr_assert_eq(atomic_load(&recorder->calls[life]), 1, "%s: life-cycle call %d came %d times",
                     where, life, atomic_load(&recorder->calls[life]));
    }
    struct channel_facade *facade = atomic_exchange(&recorder->facade, NULL);
    if (facade) {
        atomic_fetch_sub_explicit(&references, 1, memory_order_relaxed);
        channel_release(facade);
    }
}

enum { REMEMBERED_MAX = 2048 };
static struct recorder *remembered[REMEMBERED_MAX];
static atomic_size_t remembered_count;

void recorders_add(struct input_handler *handler)
{
    if (handler->verbs->starting == starting) {
        size_t place = atomic_fetch_add(&remembered_count, 1);
        cr_assert_lt(place, REMEMBERED_MAX);
        remembered[place] = recorder_of(handler);
    }
}

void recorders_expect_whole_lives(void)
{
    size_t count = atomic_exchange(&remembered_count, 0);
    for (size_t i = 0; i < count; i++) {
        if (remembered[i]->is_replaced) {
            recorder_expect_order(remembered[i]);
        } else {
            recorder_expect_whole_life(remembered[i]);
        }
    }
}

size_t recorder_references(void)
{
    return atomic_load_explicit(&references, memory_order_relaxed);
}

enum output_result recorder_send(struct recorder *recorder, const char *text)
{
    struct message message = {(const unsigned char *)text, strlen(text)};
    return channel_enqueue(recorder_facade(recorder), piece_copy(message));
}
