/*
 * Strands (common/server/strand.h) from inside: calls from many threads, one at a time and in
 * order, timers, tasks, connections, and the end.
 */
#include "framework.h"

#include "strands.h"

#include "common/base/clock.h"
#include "common/server/strand.h"
#include "support/aborts.h"
#include "support/deadline.h"
#include "support/mapped.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(stage4_strands, .timeout = 120);

#define STRAND_LEFT "strand: before it is left"

enum { THREADS = 4, LAST = THREADS, EACH = 2000 };

/* A post that tells whose it is. */
struct line {
    struct channel_post post;
    int thread;
    int number;
    int again; /* how often it posts itself once more */
    struct channel_facade *to;
    atomic_int runs;
    atomic_int drops;
};

static struct framework framework;
static struct strands strands;
static struct strand strand;

/* The strand's: plain, so ThreadSanitizer tells if two calls are not in order. */
static int calls;
static int next_of[THREADS + 1];
static int wrong;
static bool is_inside;

/* Anybody's. */
static atomic_int ran;
static atomic_int fired;
static atomic_int life[3]; /* opened, stopping, closed: which call it was, counted from one */
static atomic_int lives;

static void enter(void)
{
    wrong += is_inside;
    is_inside = true;
    calls++;
}

static void leave(void)
{
    is_inside = false;
    atomic_fetch_add(&ran, 1);
}

static void run(struct channel_post *post, struct channel_facade *facade)
{
    struct line *line = container_of(post, struct line, post);
    enter();
    wrong += facade != strand_facade(&strand);
    wrong += line->number != next_of[line->thread];
    next_of[line->thread]++;
    if (line->to != NULL) {
        char text[32];
        int length = snprintf(text, sizeof text, "line %d\n", line->number);
        channel_enqueue(line->to, piece_bytes(text, (size_t)length));
    }
    if (line->again > 0) {
        line->again--;
        line->number++;
        wrong += !channel_post(facade, post);
    }
    leave();
    atomic_fetch_add(&line->runs, 1);
}

static void dropped(struct channel_post *post)
{
    atomic_fetch_add(&container_of(post, struct line, post)->drops, 1);
}

static void line_init(struct line *line, int thread, int number)
{
    *line =
        (struct line){.post = {.run = run, .dropped = dropped}, .thread = thread, .number = number};
}

static void note_life(int which)
{
    atomic_store(&life[which], atomic_fetch_add(&lives, 1) + 1);
}

static void opened(struct strand *self, struct channel_facade *facade)
{
    enter();
    wrong += facade != strand_facade(self) || calls != 1;
    note_life(0);
    is_inside = false;
}

static void stopping(struct strand *self, struct channel_facade *facade)
{
    enter();
    wrong += facade != strand_facade(self);
    note_life(1);
    is_inside = false;
}

static void closed(struct strand *self)
{
    (void)self;
    note_life(2);
}

static const struct strand_verbs verbs = {opened, stopping, closed};

/* Its first calls are made, and no client is there. */
static void begin(const char *ways)
{
    framework_open(&framework, "%s", ways);
    strands_init(&strands, &framework.server);
    cr_assert(strand_open(&strand, &framework.server, &verbs));
    strands_host(&strands, framework_dispatchers(&framework, &(size_t){0}));
    framework_run(&framework);
    strand_host_begin(&strands.host);
}

/* As main does it. What is left of the strand is run at the end. */
static void end(void)
{
    strand_host_stop(&strands.host);
    framework_let_go(&strands.host);
    framework_halt(&framework);
    strand_host_end(&strands.host);
    framework_end(&framework);
    cr_assert_eq(wrong, 0, "%d calls were wrong", wrong);
    cr_assert_eq(atomic_load(&life[0]), 1);
    cr_assert_gt(atomic_load(&life[1]), 1);
    cr_assert_gt(atomic_load(&life[2]), atomic_load(&life[1]));
}

static void await_runs(int least)
{
    recorder_await_at(HERE, "runs", &ran, least);
}

/* ---- A client whose lines are posted ---- */

struct talker {
    struct input_handler handler;
    struct line lines[1000];
    int posted;
    struct line last; /* posted in `stopped` */
    atomic_int ended;
};

static struct talker talker;

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 1000, message);
}

static void started(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    channel_retain(facade);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    struct line *line = &talker.lines[talker.posted];
    line_init(line, 0, talker.posted++);
    line->to = facade;
    cr_expect(channel_post(strand_facade(&strand), &line->post));
    return true;
}

static void stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    atomic_store(&talker.ended, atomic_fetch_add(&lives, 1) + 1);
    line_init(&talker.last, LAST, 0);
    channel_post(strand_facade(&strand), &talker.last.post);
    channel_release(facade);
}

static struct input_handler_verbs talker_verbs = {.next_message = next_message,
                                                  .started = started,
                                                  .handle_input = handle_input,
                                                  .stopped = stopped};

static int connect_talker(void)
{
    talker.handler.verbs = input_handler_complete(&talker_verbs);
    return framework_connect(&framework, &talker.handler);
}

/* ---- Posts ---- */

static void *post_lines(void *argument)
{
    struct line *lines = argument;
    for (int i = 0; i < EACH; i++) {
        channel_post(strand_facade(&strand), &lines[i].post);
    }
    return NULL;
}

/* Beside a client whose runs make the calls, too. */
WaysTest(stage4_strands, many_threads_post)
{
    struct line(*lines)[EACH] = mapped(THREADS * sizeof(*lines));
    enum { ASKED = 500 };
    pthread_t threads[THREADS];
    begin(workers);
    int client = connect_talker();
    for (int t = 1; t < THREADS; t++) {
        for (int i = 0; i < EACH; i++) {
            line_init(&lines[t][i], t, i);
        }
        cr_assert_eq(pthread_create(&threads[t], NULL, post_lines, lines[t]), 0);
    }
    for (int i = 0; i < ASKED; i++) {
        client_send_text(client, "go\n");
    }
    for (int t = 1; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    await_runs((THREADS - 1) * EACH + ASKED);
    for (int i = 0; i < ASKED; i++) {
        char text[32];
        snprintf(text, sizeof text, "line %d\n", i);
        client_expect_text(client, text);
    }
    client_close(client);
    end();
    cr_assert_eq(next_of[0], ASKED);
    cr_assert_eq(next_of[THREADS - 1], EACH);
}

/* In a thread that is in no run: the host is woken, and has it run where handlers run. */
WaysTest(stage4_strands, runs_what_nobody_else_would)
{
    static struct line line;
    begin(workers);
    framework_await_asleep(&framework);
    line_init(&line, 0, 0);
    cr_assert(channel_post(strand_facade(&strand), &line.post));
    await_runs(1);
    end();
    cr_assert_eq(atomic_load(&line.drops), 0);
}

/* Who is inside has made its last call, and has not left yet. */
WaysTest(stage4_strands, a_post_while_it_is_left_is_not_lost)
{
    static struct line lines[2];
    begin(workers);
    framework_await_asleep(&framework);
    test_point_hold(STRAND_LEFT);
    line_init(&lines[0], 0, 0);
    line_init(&lines[1], 0, 1);
    channel_post(strand_facade(&strand), &lines[0].post);
    test_point_await_held(STRAND_LEFT, 1);
    cr_assert_eq(atomic_load(&lines[0].runs), 1);
    channel_post(strand_facade(&strand), &lines[1].post);
    cr_assert_eq(atomic_load(&lines[1].runs), 0, "a second thread has come in");
    test_point_release(STRAND_LEFT);
    await_runs(2);
    end();
}

/* A run that posts makes the call itself: nothing is woken for it. */
WaysTest(stage4_strands, a_run_needs_no_wakeup)
{
    begin(workers);
    int client = connect_talker();
    client_ask(client, "go\n", "line 0\n");
    framework_await_asleep(&framework);
    test_point_hold(RUN_BEGINS);
    client_send_text(client, "go\n");
    test_point_await_held(RUN_BEGINS, 1);
    size_t wakeups = atomic_load(&strands.dispatcher->selector.wakeups_asked);
    test_point_hold(RUN_ENDED);
    test_point_release(RUN_BEGINS);
    test_point_await_held(RUN_ENDED, 1);
    client_expect_text(client, "line 1\n");
    cr_assert_eq(atomic_load(&strands.dispatcher->selector.wakeups_asked), wakeups);
    test_point_release(RUN_ENDED);
    client_close(client);
    end();
}

/* Its answers leave in the order of the calls, and more than a turn of them. */
WaysTest(stage4_strands, more_than_a_turn)
{
    static struct line line;
    begin(workers);
    int client = connect_talker();
    framework_await_asleep(&framework);
    line_init(&line, 1, 0);
    line.again = 10 * STRAND_TURN;
    channel_post(strand_facade(&strand), &line.post);
    client_ask(client, "go\ngo\ngo\n", "line 0\nline 1\nline 2\n");
    await_runs(10 * STRAND_TURN + 4);
    client_close(client);
    end();
    cr_assert_eq(next_of[1], 10 * STRAND_TURN + 1);
}

/* ---- Timers ---- */

struct alarm_clock {
    struct channel_timer timer;
    struct channel_post set; /* sets it */
    int64_t wait;
    int64_t due;
    int turn; /* counted from one; 0: it has not fired */
    bool cancels;
};

static void ring(struct channel_timer *timer, struct channel_facade *facade)
{
    struct alarm_clock *clock = container_of(timer, struct alarm_clock, timer);
    enter();
    wrong += facade != strand_facade(&strand) || clock_ms() < clock->due;
    clock->turn = atomic_fetch_add(&fired, 1) + 1;
    leave();
}

static void set_clock(struct channel_post *post, struct channel_facade *facade)
{
    struct alarm_clock *clock = container_of(post, struct alarm_clock, set);
    enter();
    clock->due = clock_ms() + clock->wait;
    channel_set_timer(facade, &clock->timer, clock->wait);
    if (clock->cancels) {
        channel_cancel_timer(facade, &clock->timer);
    }
    leave();
}

static void clock_set(struct alarm_clock *clock, int64_t wait)
{
    clock->timer.fired = ring;
    clock->set = (struct channel_post){.run = set_clock, .dropped = dropped};
    clock->wait = wait;
    channel_post(strand_facade(&strand), &clock->set);
}

/* One that is set later and comes first is not waited past; one in an hour never fires. */
WaysTest(stage4_strands, timers)
{
    static struct alarm_clock late, soon, never, cancelled;
    begin(workers);
    clock_set(&never, 3600000);
    await_runs(1);
    framework_await_asleep(&framework);
    clock_set(&late, 600); /* on a busy machine, too, the other one is set before it fires */
    cancelled.cancels = true;
    clock_set(&cancelled, 1);
    await_runs(3);
    framework_await_asleep(&framework);
    clock_set(&soon, 20);
    recorder_await_at(HERE, "fired", &fired, 2);
    framework_await_asleep(&framework);
    clock_set(&soon, 0);
    recorder_await_at(HERE, "fired", &fired, 3);
    end();
    cr_assert_eq(late.turn, 2);
    cr_assert_eq(soon.turn, 3);
    cr_assert_eq(never.turn, 0);
    cr_assert_eq(cancelled.turn, 0);
}

#ifndef NDEBUG
static void set_from_outside(void *timer)
{
    channel_set_timer(strand_facade(&strand), timer, 1000);
}

WaysTest(stage4_strands, a_timer_that_is_set_from_outside_is_an_assertion)
{
    static struct channel_timer timer;
    begin(workers);
    framework_await_asleep(&framework);
    expect_abort(set_from_outside, &timer, "is_own_call");
    end();
}
#endif

/* ---- The end ---- */

WaysTest(stage4_strands, lives_longer_than_connections)
{
    begin(workers);
    int client = connect_talker();
    client_ask(client, "go\n", "line 0\n");
    strand_host_stop(&strands.host);
    cr_assert_eq(atomic_load(&life[1]), 2, "it does not hear of the stop");
    client_ask(client, "go\n", "line 1\n");
    framework_let_go(&strands.host);
    framework_halt(&framework);
    cr_assert_eq(atomic_load(&talker.ended), 3);
    cr_assert_eq(atomic_load(&life[2]), 0, "it was closed before the last connection");
    strand_host_end(&strands.host);
    cr_assert_eq(atomic_load(&talker.last.runs), 1, "what waits at the end has to run");
    cr_assert_eq(atomic_load(&life[2]), 4);
    channel_post(strand_facade(&strand), &talker.last.post);
    cr_assert_eq(atomic_load(&talker.last.runs), 1);
    cr_assert_eq(atomic_load(&talker.last.drops), 1, "after its end it takes no posts");
    framework_end(&framework);
    cr_assert_eq(wrong, 0);
    client_close(client);
}

static atomic_int posted;

static void *post_late(void *post)
{
    channel_post(strand_facade(&strand), post);
    atomic_store_explicit(&posted, 1, memory_order_relaxed);
    return NULL;
}

/* Nothing but the post itself orders what that thread has written before what main does. */
WaysTest(stage4_strands, a_post_between_the_last_loop_and_the_end_runs)
{
    static struct line line;
    pthread_t thread;
    begin(workers);
    strand_host_stop(&strands.host);
    framework_let_go(&strands.host);
    framework_halt(&framework);
    line_init(&line, 0, 0);
    cr_assert_eq(pthread_create(&thread, NULL, post_late, &line.post), 0);
    double until = test_deadline();
    while (atomic_load_explicit(&posted, memory_order_relaxed) == 0 && test_now() < until) {
        poll(NULL, 0, 1);
    }
    strand_host_end(&strands.host);
    pthread_join(thread, NULL);
    framework_end(&framework);
    cr_assert_eq(atomic_load(&line.runs), 1);
    cr_assert_eq(wrong, 0);
}

static atomic_int is_long; /* 1: there is a call inside; 0: it may end */

static void run_long(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    (void)facade;
    enter();
    atomic_store(&is_long, 1);
    double until = test_deadline();
    while (atomic_load(&is_long) == 1 && test_now() < until) {
        poll(NULL, 0, 1);
    }
    atomic_store(&is_long, 0);
    leave();
}

/* It is the whole stop's drain timeout, and this one is over. */
WaysTest(stage4_strands, at_the_stop_main_waits_for_those_inside_until_the_drain_timeout_ends)
{
    static struct line line;
    pthread_t thread;
    begin(workers);
    line_init(&line, 0, 0);
    line.post.run = run_long;
    cr_assert_eq(pthread_create(&thread, NULL, post_late, &line.post), 0);
    recorder_await_at(HERE, "long calls", &is_long, 1);
    framework.server.settings.drain_timeout = 0;
    server_drain_end(&framework.server);
    framework.server.settings.drain_timeout = 3600 * 1000;
    strand_host_stop(&strands.host);
    cr_assert_eq(atomic_exchange(&is_long, 0), 1, "it has waited for the call");
    pthread_join(thread, NULL);
    framework_let_go(&strands.host);
    framework_halt(&framework);
    strand_host_end(&strands.host);
    framework_end(&framework);
    cr_assert_eq(wrong, 0);
}

/* Nothing was served: what waits is dropped, and it has neither an opening nor an end. */
Test(stage4_strands, of_a_server_that_does_not_start)
{
    static struct line line;
    framework_open(&framework, "%s", "");
    strands_init(&strands, &framework.server);
    cr_assert(strand_open(&strand, &framework.server, &verbs));
    line_init(&line, 0, 0);
    channel_post(strand_facade(&strand), &line.post);
    strand_host_end(&strands.host);
    cr_assert_eq(atomic_load(&line.runs), 0);
    cr_assert_eq(atomic_load(&line.drops), 1);
    cr_assert_eq(atomic_load(&lives), 0);
    framework_stop(&framework);
}

/* What is posted in `open` comes behind `opened`, and a second strand hears the first one. */
WaysTest(stage4_strands, posts_before_the_beginning)
{
    static struct line line;
    framework_open(&framework, "%s", workers);
    strands_init(&strands, &framework.server);
    cr_assert(strand_open(&strand, &framework.server, &verbs));
    line_init(&line, 0, 0);
    channel_post(strand_facade(&strand), &line.post);
    strands_host(&strands, framework_dispatchers(&framework, &(size_t){0}));
    framework_run(&framework);
    cr_assert_eq(atomic_load(&line.runs), 0);
    strand_host_begin(&strands.host);
    cr_assert_eq(atomic_load(&line.runs), 1);
    end();
}

/* ---- Tasks ---- */

struct chore {
    struct channel_task task;
    int number;
    int result; /* the helper's until it is back */
};

enum { CHORES = 20 };
static struct chore chores[CHORES];
static int back; /* chores, the strand's */
static int dropped_chores;

static void do_chore(struct channel_task *task)
{
    struct chore *chore = container_of(task, struct chore, task);
    chore->result = chore->number + 1;
}

static void chore_is_back(struct channel_task *task, struct channel_facade *facade)
{
    struct chore *chore = container_of(task, struct chore, task);
    enter();
    wrong += facade != strand_facade(&strand) || chore->number != back ||
             chore->result != chore->number + 1;
    back++;
    leave();
}

static void drop_chore(struct channel_task *task)
{
    wrong += container_of(task, struct chore, task)->result != 0;
    dropped_chores++;
}

static void begin_chores(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    enter();
    for (int i = 0; i < CHORES; i++) {
        chores[i] = (struct chore){
            .task = {.run = do_chore, .completed = chore_is_back, .dropped = drop_chore},
            .number = i};
        wrong += !channel_begin(facade, &chores[i].task, CHANNEL_GOES_ON);
        wrong += channel_begin(facade, &chores[i].task, CHANNEL_GOES_ON);
    }
    leave();
}

WaysTest(stage4_strands, tasks_come_back_in_order)
{
    static struct channel_post post = {.run = begin_chores, .dropped = dropped};
    begin(workers);
    channel_post(strand_facade(&strand), &post);
    await_runs(1 + CHORES);
    end();
    cr_assert_eq(back, CHORES);
}

/* A helper is held with one of two; the stop drops what no helper has begun. */
WaysTest(stage4_strands, tasks_at_the_stop)
{
    static struct channel_post post = {.run = begin_chores, .dropped = dropped};
    char options[100];
    snprintf(options, sizeof options, "%s --helpers 1", workers);
    begin(options);
    test_point_hold(HELPER_BEGINS);
    channel_post(strand_facade(&strand), &post);
    await_runs(1);
    test_point_await_held(HELPER_BEGINS, 1);
    executor_shutdown(&framework.helpers, true);
    test_point_release(HELPER_BEGINS);
    end();
    cr_assert_eq(back, 1);
    cr_assert_eq(dropped_chores, CHORES - 1);
}

/* ---- Connections ---- */

static struct input_handler caller;
static atomic_int called;
static atomic_int refused;

static void call_started(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    channel_enqueue(facade, piece_bytes("go\n", 3));
    atomic_fetch_add(&called, 1);
}

static bool call_answered(struct input_handler *self, struct message message,
                          struct channel_facade *facade)
{
    (void)self;
    atomic_fetch_add(&called, message.length == strlen("line 0\n"));
    channel_close(facade);
    return true;
}

static struct input_handler_verbs caller_verbs = {
    .next_message = next_message, .started = call_started, .handle_input = call_answered};

static void call_out(struct channel_post *post, struct channel_facade *facade)
{
    (void)post;
    enter();
    int error =
        channel_connect(facade, &framework.server.listener.endpoint, 0, ONE_HANDLER(&caller));
    atomic_fetch_add(&refused, error != 0);
    leave();
}

/* It opens a connection without a client, to the server itself. */
WaysTest(stage4_strands, connects)
{
    static struct channel_post post = {.run = call_out, .dropped = dropped};
    int fd;
    begin(workers);
    caller.verbs = input_handler_complete(&caller_verbs);
    talker.handler.verbs = input_handler_complete(&talker_verbs);
    channel_post(strand_facade(&strand), &post);
    cr_assert(test_await(framework.server.listener.fd, POLLIN, test_now() + 10));
    cr_assert_eq(
        listener_accept(&framework.server.listener, SOCK_NONBLOCK, &framework.server.log, &fd),
        ACCEPT_CONNECTION);
    cr_assert(framework_register(&framework, fd, &talker.handler));
    recorder_await_at(HERE, "called", &called, 2);
    end();
    cr_assert_eq(atomic_load(&refused), 0);
}
