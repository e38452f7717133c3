/*
 * A handler that records how it is called: see recorder.h.
 */
#include "recorder.h"

#include "common/selector.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int turns;

static struct recorder *recorder_of(struct input_handler *handler)
{
    return (struct recorder *)handler;
}

/* Relaxed: the recorder must not put threads in order that the framework does not. */
static void add(atomic_int *value)
{
    atomic_fetch_add_explicit(value, 1, memory_order_relaxed);
}

static void enter(struct recorder *recorder)
{
    if (atomic_fetch_add_explicit(&recorder->inside, 1, memory_order_relaxed) != 0) {
        add(&recorder->overlaps);
    }
}

static void leave(struct recorder *recorder)
{
    atomic_fetch_sub_explicit(&recorder->inside, 1, memory_order_relaxed);
}

static void live(struct recorder *recorder, int life)
{
    enter(recorder);
    if (recorder->life != life - 1) {
        add(&recorder->out_of_order);
    }
    recorder->life = life;
    add(&recorder->calls[life]);
    leave(recorder);
}

static void starting(struct input_handler *self, struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    channel_retain(facade);
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
    enter(recorder);
    if (recorder->life != RECORDER_STARTED) {
        add(&recorder->out_of_order);
    }
    enum framing_result result = line_framing_next(channel_input(facade), 65536, message);
    leave(recorder);
    return result;
}

static bool begins(struct message message, const char *text)
{
    return message.length >= strlen(text) && memcmp(message.data, text, strlen(text)) == 0;
}

static void send_text(struct channel_facade *facade, const char *text)
{
    channel_enqueue(facade, (struct message){(const unsigned char *)text, strlen(text)});
}

static void answer_big(struct channel_facade *facade, size_t length)
{
    char *text = malloc(length + 1);
    if (text) {
        memset(text, 'x', length);
        text[length] = '\n';
        channel_enqueue(facade, (struct message){(unsigned char *)text, length + 1});
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

static bool obey(struct recorder *recorder, struct message message, struct channel_facade *facade)
{
    if (recorder->fails_always || begins(message, "fail")) {
        return false;
    }
    if (begins(message, "close")) {
        send_text(facade, "closing\n");
        channel_close(facade);
    } else if (begins(message, "suspend")) {
        channel_modify_interest(facade, SELECT_NOTHING, SELECT_READ);
    } else if (begins(message, "big ")) {
        answer_big(facade, strtoul((const char *)message.data + 4, NULL, 10));
    } else if (begins(message, "switch")) {
        recorder->other->life = recorder->life;
        channel_set_handler(facade, &recorder->other->handler);
    } else if (begins(message, "wake")) {
        channel_modify_interest(recorder_facade(recorder->other), SELECT_READ, SELECT_NOTHING);
    } else {
        check_number(recorder, message);
        channel_enqueue(facade, message);
    }
    return true;
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    enter(recorder);
    if (recorder->life != RECORDER_STARTED) {
        add(&recorder->out_of_order);
    }
    atomic_store_explicit(&recorder->thread, gettid(), memory_order_relaxed);
    int turn = atomic_fetch_add_explicit(&turns, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&recorder->turn, turn, memory_order_relaxed);
    bool goes_on = obey(recorder, message, facade);
    add(&recorder->messages);
    leave(recorder);
    return goes_on;
}

static void refuse_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    (void)message;
    enter(recorder);
    send_text(facade, "refused\n");
    add(&recorder->refused);
    leave(recorder);
}

static void timed_out(struct input_handler *self, struct channel_facade *facade)
{
    struct recorder *recorder = recorder_of(self);
    enter(recorder);
    if (recorder->life != RECORDER_STARTED) {
        add(&recorder->out_of_order);
    }
    send_text(facade, "too late\n");
    leave(recorder);
}

static const struct input_handler_verbs verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .starting = starting,
    .started = started,
    .end_of_input = end_of_input,
    .stopping = stopping,
    .stopped = stopped,
};

/* Those who do not tell have no verb for it, which makes a difference to the framework. */
static const struct input_handler_verbs verbs_that_tell = {
    .next_message = next_message,
    .handle_input = handle_input,
    .refuse_input = refuse_input,
    .timed_out = timed_out,
    .starting = starting,
    .started = started,
    .end_of_input = end_of_input,
    .stopping = stopping,
    .stopped = stopped,
};

void recorder_init(struct recorder *recorder)
{
    memset(recorder, 0, sizeof *recorder);
    recorder->handler.verbs = &verbs;
}

void recorder_init_telling(struct recorder *recorder)
{
    recorder_init(recorder);
    recorder->handler.verbs = &verbs_that_tell;
}

void recorder_await_at(const char *where, const char *field, atomic_int *value, int least)
{
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (atomic_load_explicit(value, memory_order_relaxed) < least && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
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
        channel_release(facade);
    }
}

enum output_result recorder_send(struct recorder *recorder, const char *text)
{
    struct message message = {(const unsigned char *)text, strlen(text)};
    return channel_enqueue(recorder_facade(recorder), message);
}
