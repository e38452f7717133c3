/*
 * What a client sees under each saturation policy and with each kind of queue (case 35). The one
 * worker is held with a message until the test lets it go on, so that the pool is saturated for
 * exactly as long as the test wants.
 */
#include "support/deadline.h"
#include "white_box.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <poll.h>
#include <string.h>

TestSuite(stage3_policies, .timeout = 120);

enum { QUIET_MS = 60 };

static const char busy_line[] = "ERR server busy\n";

static struct white_box box;

/** Kinds of queue that can be full. */
static const char *const kinds[] = {"direct", "bounded:1", "bounded:2"};

/** Parameters are indices, because pointers do not survive the way into the test's process. */
static struct criterion_test_params each_kind(void)
{
    static int indices[] = {0, 1, 2};
    return cr_make_param_array(int, indices, sizeof indices / sizeof *indices);
}

enum { WAITING_MAX = 2 };

/** A server that cannot take one message more, and its clients. */
struct saturation {
    int busy;                 /**< its message has the worker */
    int waiting[WAITING_MAX]; /**< theirs fill the queue */
    int waiting_count;
    int client;      /**< has sent nothing yet */
    uint64_t before; /**< bytes that the server has received */
};

static void await_received(struct saturation *all, size_t bytes)
{
    all->before += bytes;
    white_box_await(&box, COUNTER_BYTES_IN, all->before);
}

/** Sends without waiting for a reply, and waits until the reactor has dealt with it. */
static void send_to_reactor(struct saturation *all, int client, const char *text)
{
    client_send_text(client, text);
    await_received(all, strlen(text));
    white_box_await_asleep(&box);
}

static struct saturation saturate(const char *policy, int kind, const char *options)
{
    struct saturation all = {.waiting_count = kind};
    white_box_start(&box, "--workers 1 --saturation %s --queue %s %s", policy, kinds[kind],
                    options);
    all.client = white_box_connect(&box);
    all.busy = white_box_connect(&box);
    white_box_hold_worker(&box, all.busy, "busy\n");
    all.before = strlen("busy\n");
    for (int i = 0; i < all.waiting_count; i++) {
        all.waiting[i] = white_box_connect(&box);
        send_to_reactor(&all, all.waiting[i], "waiting\n");
    }
    cr_assert_eq(executor_stats(&box.executor).waiting, (size_t)all.waiting_count);
    return all;
}

/** The worker goes on, and those who wait get their replies, from the given one on. */
static void relax(struct saturation *all, int from)
{
    test_point_release(WORKER_BEGINS);
    client_expect_text(all->busy, "busy\n");
    for (int i = from; i < all->waiting_count; i++) {
        client_expect_text(all->waiting[i], "waiting\n");
    }
}

static struct executor_stats stats(void)
{
    return executor_stats(&box.executor);
}

/** Echoes when the worker has nothing to do: until then the pool is still saturated. */
static void echo_when_idle(int client)
{
    WAIT_FOR(stats().idle != 0);
    client_echo(client, "still connected\n");
}

/** Every connection is still good, and nothing was left in it; nothing more was refused. */
static void close_all(struct saturation *all)
{
    struct executor_stats before = stats();
    echo_when_idle(all->client);
    echo_when_idle(all->busy);
    for (int i = 0; i < all->waiting_count; i++) {
        echo_when_idle(all->waiting[i]);
        client_close(all->waiting[i]);
    }
    client_close(all->client);
    client_close(all->busy);
    struct executor_stats after = stats();
    cr_assert(after.aborted == before.aborted && after.discarded == before.discarded &&
              after.run_by_caller == before.run_by_caller && after.blocked == before.blocked);
    white_box_stop(&box);
}

/** A test of a server that is saturated, with each kind of queue that can be: `all` has its
 * clients, who are still served behind the body. */
#define KindTest(suite, name, policy)                                                              \
    static void suite##_##name##_of(struct saturation *all);                                       \
    ParameterizedTestParameters(suite, name)                                                       \
    {                                                                                              \
        return each_kind();                                                                        \
    }                                                                                              \
    ParameterizedTest(int *kind, suite, name)                                                      \
    {                                                                                              \
        struct saturation all = saturate(policy, *kind, "");                                       \
        suite##_##name##_of(&all);                                                                 \
        close_all(&all);                                                                           \
    }                                                                                              \
    static void suite##_##name##_of(struct saturation *all)

/* ---- abort: a busy line for that message, and the connection stays ---- */

KindTest(stage3_policies, case_35_abort_answers_that_the_server_is_busy, "abort")
{
    client_ask(all->client, "too much\n", busy_line);
    client_ask(all->client, "too much again\n", busy_line);
    cr_assert_eq(stats().aborted, 2);
    relax(all, 0);
}

/* Each message of a pipeline gets its own answer, in its place; half of one gets none. */
Test(stage3_policies, case_35_abort_answers_each_message_of_a_pipeline)
{
    struct saturation all = saturate("abort", 1, "");
    client_send_text(all.client, "one\r\ntwo\nthree\nfo");
    for (int i = 0; i < 3; i++) {
        client_expect_text(all.client, busy_line);
    }
    client_expect_silence(all.client, QUIET_MS);
    cr_assert_eq(stats().aborted, 3);
    relax(&all, 0);
    client_send_text(all.client, "ur\n"); /* there is room in the queue */
    client_expect_text(all.client, "four\n");
    close_all(&all);
}

/* The client has sent its last: it gets its busy line, and then the end. */
Test(stage3_policies, case_35_abort_after_a_half_close)
{
    struct saturation all = saturate("abort", 1, "");
    client_send_text(all.client, "too much\n");
    client_half_close(all.client);
    client_expect_text(all.client, busy_line);
    client_expect_end(all.client);
    client_close(all.client);
    all.client = white_box_connect(&box);
    relax(&all, 0);
    close_all(&all);
}

/* ---- discard: no reply to that message, and the connection stays ---- */

KindTest(stage3_policies, case_35_discard_answers_nothing, "discard")
{
    send_to_reactor(all, all->client, "lost\n");
    send_to_reactor(all, all->client, "lost too\nand this\n");
    client_expect_silence(all->client, QUIET_MS);
    cr_assert_eq(stats().discarded, 3);
    relax(all, 0);
}

Test(stage3_policies, case_35_discard_after_a_half_close)
{
    struct saturation all = saturate("discard", 1, "");
    client_send_text(all.client, "lost\n");
    client_half_close(all.client);
    client_expect_end(all.client);
    client_close(all.client);
    all.client = white_box_connect(&box);
    relax(&all, 0);
    close_all(&all);
}

/* ---- discard-oldest: no reply to what has waited longest ---- */

KindTest(stage3_policies, case_35_discard_oldest_answers_the_newest, "discard-oldest")
{
    send_to_reactor(all, all->client, "newest\n");
    cr_assert_eq(stats().discarded, 1);
    client_expect_silence(all->client, QUIET_MS);
    relax(all, 1);
    if (all->waiting_count > 0) { /* else it was itself the oldest */
        client_expect_text(all->client, "newest\n");
    }
}

/* What was given up may be the first of several: the others of that connection are answered. */
Test(stage3_policies, case_35_discard_oldest_gives_up_one_message_only)
{
    struct saturation all = saturate("discard-oldest", 1, "");
    send_to_reactor(&all, all.client, "newest\n"); /* in the place of "waiting" */
    client_send_text(all.waiting[0], "next\n");    /* in the place of "newest" */
    await_received(&all, strlen("next\n"));
    white_box_await_asleep(&box);
    cr_assert_eq(stats().discarded, 2);
    relax(&all, 1);
    client_expect_text(all.waiting[0], "next\n");
    close_all(&all);
}

/* ---- caller-runs: answered, by the reactor ---- */

ParameterizedTestParameters(stage3_policies, case_35_caller_runs_answers_in_the_reactor)
{
    return each_kind();
}

ParameterizedTest(int *kind, stage3_policies, case_35_caller_runs_answers_in_the_reactor)
{
    test_point_count(REACTOR_SELECTS);
    struct saturation all = saturate("caller-runs", *kind, "");
    client_echo(all.client, "in between\n");
    client_echo(all.client, "and again\n");
    cr_assert_eq(test_point_visitor(WORKER_BEGINS), test_point_visitor(REACTOR_SELECTS),
                 "not the reactor's thread ran it");
    cr_assert_eq(stats().run_by_caller, 2);
    relax(&all, 0);
    close_all(&all);
}

/* ---- block: answered, and everybody waits ---- */

KindTest(stage3_policies, case_35_block_has_everybody_wait, "block")
{
    int bystander = white_box_connect(&box);
    client_send_text(all->client, "patient\n");
    WAIT_FOR(stats().blocked != 0);
    cr_assert_eq(stats().blocked, 1);
    client_send_text(bystander, "held up\n");
    client_expect_silence(bystander, QUIET_MS);
    client_expect_silence(all->client, 1);
    cr_assert_eq(white_box_counter(&box, COUNTER_BYTES_IN), all->before + strlen("patient\n"));
    relax(all, 0);
    client_expect_text(all->client, "patient\n");
    client_expect_text(bystander, "held up\n");
    client_close(bystander);
}

/* ---- queues that are never full ---- */

ParameterizedTestParameters(stage3_policies, case_35_unbounded_queues_never_ask_the_policy)
{
    static int indices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    return cr_make_param_array(int, indices, sizeof indices / sizeof *indices);
}

ParameterizedTest(int *index, stage3_policies, case_35_unbounded_queues_never_ask_the_policy)
{
    enum { CLIENTS = 20 };
    static const char *const policies[] = {"abort", "block", "caller-runs", "discard",
                                           "discard-oldest"};
    static const char *const endless[] = {"unbounded", "priority"};
    int clients[CLIENTS];
    white_box_start(&box, "--workers 1 --max-workers 3 --saturation %s --queue %s",
                    policies[*index / 2], endless[*index % 2]);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = white_box_connect(&box);
    }
    white_box_hold_worker(&box, clients[0], "patience\n");
    for (int i = 1; i < CLIENTS; i++) {
        client_send_text(clients[i], "patience\n");
    }
    white_box_await(&box, COUNTER_BYTES_IN, CLIENTS * strlen("patience\n"));
    test_point_release(WORKER_BEGINS);
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "patience\n");
        client_close(clients[i]);
    }
    struct executor_stats all = stats();
    cr_assert(all.aborted + all.blocked + all.run_by_caller + all.discarded == 0);
    cr_assert_eq(all.max_threads, 1, "an unbounded queue starts no threads above --workers");
    white_box_stop(&box);
}

/* ---- the books ---- */

/* Whatever became of it, a message that was received counts as one. */
Test(stage3_policies, messages_that_nobody_processes_are_counted_too)
{
    static const char *const policies[] = {"abort", "discard"};
    for (int i = 0; i < 2; i++) {
        struct saturation all = saturate(policies[i], 1, "");
        send_to_reactor(&all, all.client, "one\ntwo\nthree\n");
        cr_assert_eq(stats().aborted + stats().discarded, 3);
        for (int busy = 0; i == 0 && busy < 3; busy++) {
            client_expect_text(all.client, busy_line);
        }
        relax(&all, 0);
        close_all(&all); /* three more */
        cr_assert_eq(white_box_counter(&box, COUNTER_MESSAGES), 8, "%s", policies[i]);
    }
}

/*
 * A request that came in two parts and was then refused or given up is over. The time that it may
 * take to arrive does not run on.
 */
ParameterizedTestParameters(stage3_policies, a_request_given_up_has_no_deadline)
{
    return each_kind();
}

ParameterizedTest(int *index, stage3_policies, a_request_given_up_has_no_deadline)
{
    static const char *const policies[] = {"abort", "discard", "discard-oldest"};
    struct saturation all = saturate(policies[*index], 0, "--request-timeout 0.4");
    send_to_reactor(&all, all.client, "in tw");
    send_to_reactor(&all, all.client, "o parts\n");
    if (*index == 0) {
        client_expect_text(all.client, busy_line);
    }
    client_expect_silence(all.client, 900);
    cr_assert_eq(white_box_counter(&box, COUNTER_TIMED_OUT), 0);
    relax(&all, 0);
    close_all(&all);
}

/* ---- priority ---- */

/** Whether the client's reply has come. */
static bool is_answered(int client)
{
    struct pollfd watched = {.fd = client, .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

/**
 * Lets the worker process one message after the other, and writes down whose reply came each time:
 * the index of the client.
 */
static void step_through(const int *clients, int count, int order[])
{
    bool answered[64] = {false};
    for (int step = 0; step < count; step++) {
        if (step < count - 1) {
            test_point_hold(WORKER_BEGINS);
        }
        test_point_release(WORKER_BEGINS);
        if (step < count - 1) {
            test_point_await_held(WORKER_BEGINS, 1); /* with the next message */
        } else {
            white_box_await(&box, COUNTER_MESSAGES, (uint64_t)count);
        }
        order[step] = -1;
        for (int i = 0; i < count; i++) {
            if (!answered[i] && is_answered(clients[i])) {
                cr_assert_eq(order[step], -1, "two messages were processed at once");
                answered[i] = true;
                order[step] = i;
            }
        }
    }
}

/* Urgent messages first, in order; but every eighth turn is one of the others', in order. */
Test(stage3_policies, priority_favours_the_urgent_and_starves_nobody)
{
    enum { OTHERS = 10, URGENT = 16, CLIENTS = 1 + OTHERS + URGENT };
    static const char turns[] = ".uuuuuuu.uuuuuuu.uu........";
    int clients[CLIENTS];
    int order[CLIENTS];
    white_box_start(&box, "--workers 1 --queue priority");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = white_box_connect(&box);
    }
    white_box_hold_worker(&box, clients[0], "line 0\n");
    for (int i = 1; i < CLIENTS; i++) {
        client_send_text(clients[i], i > OTHERS ? "urgent\n" : "line 0\n");
        white_box_await(&box, COUNTER_BYTES_IN, (uint64_t)(i + 1) * 7);
    }
    white_box_await_asleep(&box);
    step_through(clients, CLIENTS, order);

    char seen[CLIENTS + 1] = "";
    int next_urgent = 1 + OTHERS;
    int next_other = 0;
    for (int i = 0; i < CLIENTS; i++) {
        bool urgent = order[i] > OTHERS;
        int *next = urgent ? &next_urgent : &next_other;
        cr_assert_eq(order[i], *next, "turn %d: client %d came before client %d", i, order[i],
                     *next);
        (*next)++;
        seen[i] = urgent ? 'u' : '.';
    }
    cr_assert_str_eq(seen, turns);
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], i > OTHERS ? "urgent\n" : "line 0\n");
        client_close(clients[i]);
    }
    white_box_stop(&box);
}

/* Other queues do not ask whether a message is urgent. */
Test(stage3_policies, priority_is_the_queue_s_business)
{
    enum { CLIENTS = 9 };
    int clients[CLIENTS];
    int order[CLIENTS];
    white_box_start(&box, "--workers 1 --queue unbounded");
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = white_box_connect(&box);
    }
    white_box_hold_worker(&box, clients[0], "line 0\n");
    for (int i = 1; i < CLIENTS; i++) {
        client_send_text(clients[i], i < 5 ? "line 0\n" : "urgent\n");
        white_box_await(&box, COUNTER_BYTES_IN, (uint64_t)(i + 1) * 7);
    }
    white_box_await_asleep(&box);
    step_through(clients, CLIENTS, order);
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_eq(order[i], i);
        client_expect_text(clients[i], i < 5 ? "line 0\n" : "urgent\n");
        client_close(clients[i]);
    }
    white_box_stop(&box);
}
