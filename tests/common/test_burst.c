/*
 * Bursts: what one run sends to other connections, and when it leaves.
 */

#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/connection.h"
#include "common/server/connection_feed.h"
#include "common/server/connection_shared.h"
#include "common/server/run.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(burst, .timeout = 120);

enum { LISTENERS = 100 };

/* A connection of a user who says lines, or hears them. */
struct user {
    struct connection connection; /* its facade counts references */
    struct input_handler handler;
    struct mutex lock;
    int ends[2];
    int references;
    enum output_result released; /* what the stage was told last */
};

static struct server server;
static struct user speaker;
static struct user listeners[LISTENERS];
static int said;       /* lines */
static int64_t paused; /* how long the speaker's handler takes over a line; ms */
static void (*meanwhile)(void);

static struct user *user_of(struct channel_facade *facade)
{
    return container_of(facade, struct user, connection.facade);
}

static enum output_result enqueue(struct channel_facade *facade, struct piece piece)
{
    return connection_enqueue(&user_of(facade)->connection, piece);
}

static void retain(struct channel_facade *facade)
{
    user_of(facade)->references++;
}

static void release(struct channel_facade *facade)
{
    user_of(facade)->references--;
}

static const struct channel_facade_verbs facade_verbs = {
    .input = connection_facade_input,
    .enqueue = enqueue,
    .retain = retain,
    .release = release,
};

static void lock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_lock(&container_of(connection, struct user, connection)->lock);
}

static void unlock_output(const struct connection *connection) NO_THREAD_SAFETY_ANALYSIS
{
    mutex_unlock(&container_of(connection, struct user, connection)->lock);
}

static void released(struct connection *connection, enum output_result result)
{
    container_of(connection, struct user, connection)->released = result;
}

static const struct connection_sharing sharing = {&facade_verbs, lock_output, unlock_output,
                                                  released, burst_flush_old};

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 1000, message);
}

/* A line goes to all listeners; one that begins with a slash to nobody. */
static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)facade;
    for (int64_t end = clock_ms() + paused; clock_ms() < end;) {
    }
    for (int i = 0; i < LISTENERS && message.data[0] != '/'; i++) {
        channel_enqueue(&listeners[i].connection.facade, piece_copy(message));
    }
    said++;
    if (paused == 0) {
        run_own->burst.since = clock_ms() + 3600000; /* it is not old because the machine is slow */
    }
    if (meanwhile != NULL) {
        meanwhile();
    }
    return true;
}

static struct input_handler_verbs handler_verbs = {
    .next_message = next_message,
    .handle_input = handle_input,
};

static void user_open(struct user *user)
{
    memset(user, 0, sizeof *user);
    pair_open(user->ends);
    mutex_init(&user->lock);
    user->handler.verbs = input_handler_complete(&handler_verbs);
    connection_open(&user->connection, &server.home, user->ends[0], &user->handler);
    connection_advance(&user->connection, LIFE_STARTED);
}

static void user_close(struct user *user)
{
    cr_assert_eq(user->references, 0);
    connection_detach(&user->connection);
    mutex_destroy(&user->lock);
    pair_close(user->ends);
}

static void begin(void)
{
    memset(&server, 0, sizeof server);
    server.settings.max_line = 1000;
    server.home = (struct connection_home){
        .server = &server,
        .counters = &server.counters,
        .output = {
            .buffers = &server.buffers, .low_mark = 1 << 14, .high_mark = 1 << 16, .cap = 1 << 20}};
    connection_share(&server.home, &sharing);
    buffer_factory_init(&server.buffers, LISTENERS);
    said = 0;
    paused = 0;
    meanwhile = NULL;
    user_open(&speaker);
    for (int i = 0; i < LISTENERS; i++) {
        user_open(&listeners[i]);
    }
}

static void end(void)
{
    user_close(&speaker);
    for (int i = 0; i < LISTENERS; i++) {
        user_close(&listeners[i]);
    }
    cr_expect_eq(buffer_factory_out(&server.buffers), 0);
    buffer_factory_destroy(&server.buffers);
}

static void take_turn(const char *lines)
{
    struct run run;
    cr_assert(connection_feed(&speaker.connection, (const unsigned char *)lines, strlen(lines)));
    run_begin(&run, &speaker.connection);
    connection_handle(&speaker.connection, &run, HANDLE_MESSAGES);
    connection_send(&speaker.connection, &run);
    run_end(&run);
    cr_assert_null(run_own);
}

static uint32_t calls(int listener)
{
    return output_chain_new_calls(&listeners[listener].connection.output);
}

static void expect(int listener, const char *text)
{
    char got[1000] = "";
    size_t length = take_now(listeners[listener].ends[1], got, sizeof got - 1);
    cr_assert_eq(length, strlen(text), "`%s`, not `%s`", got, text);
    cr_assert_eq(memcmp(got, text, length), 0, "`%s`, not `%s`", got, text);
}

static void expect_everywhere(const char *text, uint32_t writes)
{
    for (int i = 0; i < LISTENERS; i++) {
        uint32_t made = calls(i);
        expect(i, text);
        cr_assert_eq(made, writes, "listener %d: %u calls", i, made);
    }
}

Test(burst, lines_that_came_together_leave_together, .init = begin, .fini = end)
{
    take_turn("one\ntwo\nthree\n");
    cr_assert_eq(said, 3);
    expect_everywhere("one\ntwo\nthree\n", 1);
}

/* Whoever hears it first, hears it while the handler still talks to the others. */
static void the_first_has_it(void)
{
    expect(0, "alone\n");
}

Test(burst, a_single_line_leaves_at_once, .init = begin, .fini = end)
{
    meanwhile = the_first_has_it;
    take_turn("alone\n");
    cr_assert_eq(said, 1);
    cr_assert_eq(calls(0), 1);
}

static void nobody_has_any(void)
{
    if (said == 1) {
        expect_everywhere("", 0);
    }
}

Test(burst, what_is_held_back_leaves_with_the_run, .init = begin, .fini = end)
{
    meanwhile = nobody_has_any;
    take_turn("one\n/not said\n");
    expect_everywhere("one\n", 1);
    take_turn("two\nhalf a li"); /* nobody knows whether that will be a line */
    expect_everywhere("two\n", 1);
    take_turn("ne\n");
    expect_everywhere("half a line\n", 1);
}

static void others_come_between(void)
{
    if (said == 1) {
        struct run *own = run_enter(NULL); /* as another thread, in no run */
        channel_enqueue(&listeners[7].connection.facade, piece_bytes("urgent\n", 7));
        run_enter(own);
        expect(7, "one\nurgent\n");
    }
}

/* What somebody else says is not held back, and takes along what is. */
Test(burst, another_ones_line_does_not_wait_for_it, .init = begin, .fini = end)
{
    meanwhile = others_come_between;
    take_turn("one\ntwo\n");
    expect(7, "two\n");
    cr_assert_eq(calls(7), 2);
    expect(8, "one\ntwo\n");
    cr_assert_eq(calls(8), 1);
}

/* The first one's peer has ended its stream, and it is its turn while a line is held back for it.
 */
static void the_first_ends(void)
{
    if (said == 1) {
        struct connection *first = &listeners[0].connection;
        struct run *own = run_enter(NULL); /* as another thread */
        struct run run;
        shutdown(listeners[0].ends[1], SHUT_WR);
        run_begin(&run, first);
        cr_assert(connection_receive(first));
        connection_handle(first, &run, HANDLE_MESSAGES);
        connection_send(first, &run);
        run_end(&run);
        run_enter(own);
        cr_assert_eq(connection_wants(first), CONNECTION_OVER);
        expect(0, "one\n");
        cr_assert_eq(channel_enqueue(&first->facade, piece_bytes("late\n", 5)), OUTPUT_BROKEN);
    }
}

/* What was accepted leaves before the end, and what comes after it is not accepted. */
Test(burst, whoever_ends_has_what_was_held_back, .init = begin, .fini = end)
{
    meanwhile = the_first_ends;
    take_turn("one\ntwo\n");
    expect(0, "");
    expect(1, "one\ntwo\n");
}

static struct run other_run;

static void another_run_begins(void)
{
    if (said == 1) {
        run_begin(&other_run, NULL);
        other_run.burst.more = true;
        channel_enqueue(&listeners[7].connection.facade, piece_bytes("of another\n", 11));
        run_enter(other_run.outer);
        expect(7, "");
    }
}

/* Each burst releases all that it holds back, also where another one has held back before it. */
Test(burst, the_run_that_ends_first_waits_for_no_other, .init = begin, .fini = end)
{
    meanwhile = another_run_begins;
    take_turn("one\n/\n");
    expect(7, "one\nof another\n");
    cr_assert_eq(listeners[7].references, 1);
    burst_flush(&other_run.burst);
    cr_assert_eq(calls(7), 1);
    other_run.outer = run_enter(&other_run);
    channel_enqueue(&listeners[7].connection.facade, piece_bytes("more\n", 5));
    expect(7, "");
    run_end(&other_run);
    expect(7, "more\n");
}

/* A handler that takes its time over each line does not keep the others from the first ones. */
Test(burst, an_old_one_leaves_before_the_next_message, .init = begin, .fini = end)
{
    paused = BURST_MS;
    take_turn("one\ntwo\nthree\n/\n");
    for (int i = 0; i < LISTENERS; i++) {
        uint32_t made = calls(i);
        cr_assert_geq(made, 2, "listener %d: %u calls", i, made);
        expect(i, "one\ntwo\nthree\n");
    }
}

/* What others are held back for later makes it no younger. */
Test(burst, is_as_old_as_the_first_that_it_holds_back, .init = begin, .fini = end)
{
    struct run run;
    run_begin(&run, &speaker.connection);
    run.burst.more = true;
    channel_enqueue(&listeners[0].connection.facade, piece_bytes("one\n", 4));
    run.burst.since -= BURST_MS;
    channel_enqueue(&listeners[1].connection.facade, piece_bytes("two\n", 4));
    expect(0, "");
    burst_flush_old(&run.burst);
    expect(0, "one\n");
    expect(1, "two\n");
    run_end(&run);
}

static void flush(void)
{
    if (said == 1) {
        connection_shared_flush(&speaker.connection.facade);
        expect(0, "one\n");
        expect(LISTENERS - 1, "one\n");
    }
}

/* A handler that is going to wait sends first what it has for others, too. */
Test(burst, leaves_with_a_flush, .init = begin, .fini = end)
{
    meanwhile = flush;
    take_turn("one\ntwo\nthree\n");
    expect(0, "two\nthree\n");
    cr_assert_eq(calls(0), 2);
}

/* One that reads nothing gets what its socket takes, and the stage is told that it waits. */
Test(burst, the_stage_is_told_what_came_of_it, .init = begin, .fini = end)
{
    fill_up(listeners[3].ends[0]);
    take_turn("one\n/\n");
    cr_assert_eq(listeners[2].released, OUTPUT_FLOWING);
    cr_assert_eq(listeners[3].released, OUTPUT_WAITING);
}

static void others_say_too_much(void)
{
    static char much[1 << 15];
    struct connection *listener = &listeners[7].connection;
    enum output_result result = OUTPUT_FLOWING;
    if (said > 1) {
        return;
    }
    struct run *own = run_enter(NULL); /* as another thread, in no run */
    output_chain_cork(&listener->output);
    while (output_chain_length(&listener->output) <= 1 << 20) {
        result = channel_enqueue(&listener->facade, piece_bytes(much, sizeof much));
        bool is_much = output_chain_length(&listener->output) > 1 << 16;
        cr_assert_eq(result, is_much ? OUTPUT_CHOKED : OUTPUT_FLOWING);
    }
    result = channel_enqueue(&listener->facade, piece_bytes(much, sizeof much));
    cr_assert_eq(result, OUTPUT_REFUSED);
    run_enter(own);
}

/* To one whose own run began while output was held back for it: the sender hears what came of it.
 */
Test(burst, what_a_run_refuses_is_not_said_to_be_sent, .init = begin, .fini = end)
{
    meanwhile = others_say_too_much;
    take_turn("one\n/\n");
    cr_assert_eq(listeners[7].released, OUTPUT_CHOKED);
}

/* After so much work for others the run ends, and the next one goes on. */
Test(burst, work_for_others_ends_the_run, .init = begin, .fini = end)
{
    char lines[2 * 64 + 1] = "";
    for (int i = 0; i < 64; i++) {
        strcat(lines, "x\n");
    }
    struct run run;
    cr_assert(connection_feed(&speaker.connection, (unsigned char *)lines, strlen(lines)));
    run_begin(&run, &speaker.connection);
    run.burst.work = BURST_WORK - 3 * LISTENERS + 1;
    connection_handle(&speaker.connection, &run, HANDLE_MESSAGES);
    cr_assert_eq(said, 3, "%d lines", said);
    run_end(&run);
    connection_send(&speaker.connection, &run);
    cr_assert_eq(connection_wants(&speaker.connection), CONNECTION_RUN);
    expect_everywhere("x\nx\nx\n", 1);
    take_turn("");
    cr_assert_eq(said, 64);
}

/* A long line is written at once, and costs so much more that fewer of them end the run. */
Test(burst, a_call_costs_more_than_what_is_held_back, .init = begin, .fini = end)
{
    struct run run;
    static unsigned char block[OUTPUT_BATCH];
    run_begin(&run, &speaker.connection);
    run.burst.more = true;
    channel_enqueue(&listeners[0].connection.facade, piece_bytes("x", 1));
    cr_assert_eq(run.burst.work, 1);
    channel_enqueue(&listeners[1].connection.facade, piece_bytes(block, sizeof block));
    cr_assert_eq(run.burst.work, 2 + BURST_WORK_OF_CALL);
    run_end(&run);
    cr_assert_eq(take_now(listeners[1].ends[1], block, sizeof block), sizeof block);
}
