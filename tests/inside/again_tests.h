/*
 * A connection that always has more to do, in a reactor of the test's own: stages 2 and 3 run the
 * same tests. Its input is a byte that nobody ever takes, so there is always another message.
 *
 * Whoever includes this has `again_open()` and what is declared below.
 */
#ifndef TESTS_AGAIN_TESTS_H
#define TESTS_AGAIN_TESTS_H

#include "common/apps/application.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "handler.h"
#include "reactor.h"
#include "support/client.h"
#include "support/deadline.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

/** Opens a reactor that nobody runs, in which no worker takes anything; its applications are this.
 */
static struct reactor *again_open(struct input_handler_factory *factory);

/** Closes it. */
/* What the reactor does at the end of a round, if anything. */
static void again_end_round(struct reactor *reactor);

static void again_close(void);

/** Has a server run in a thread of its own, with that idle timeout; in stage 3 with workers. */
static struct server *again_start(struct input_handler_factory *factory, const char *idle_timeout);

/** Has it stop. */
static void again_stop(void);

static enum framing_result always_a_message(struct input_handler *self,
                                            struct channel_facade *facade, struct message *message)
{
    static const unsigned char byte[] = "x";
    (void)self;
    if (input_queue_is_empty(channel_input(facade)))
        return FRAMING_INCOMPLETE;
    *message = (struct message){byte, 1};
    return FRAMING_MESSAGE;
}

static bool take_nothing(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
    return true;
}

static void refuse_nothing(struct input_handler *self, struct message message,
                           struct channel_facade *facade)
{
    (void)self;
    (void)message;
    (void)facade;
}

static struct input_handler_verbs endless_verbs = {
    .next_message = always_a_message,
    .handle_input = take_nothing,
    .refuse_input = refuse_nothing,
};

static struct input_handler endless;

static struct input_handler *create_endless(struct input_handler_factory *factory, void *memory)
{
    (void)factory;
    (void)memory;
    endless.verbs = input_handler_complete(&endless_verbs);
    return &endless;
}

static struct input_handler_factory endless_factory = {.create = create_endless};

/* How often the reactor's list has it; more than a few times: the list is spoilt. */
static int times_in(const struct turns *list, const struct selection_key *key)
{
    int times = 0, steps = 0;
    for (const struct selection_key *i = list->first; i != NULL && steps < 10; steps++) {
        times += i == key;
        i = i->attachment;
    }
    cr_assert_lt(steps, 10, "the list does not end");
    return times;
}

/* A handler in the reactor's list: it has read the byte, and had a turn. */
static struct handler *going_on(struct reactor *reactor, int *peer)
{
    int ends[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    cr_assert_eq(write(ends[1], "x", 1), 1);
    admission_enter(&reactor->admission);
    cr_assert(handler_create(reactor, ends[0]));
    cr_assert_eq(selector_select(&reactor->selector, 0), 1);
    struct selection_key *key = selector_selected(&reactor->selector, 0);
    const struct runnable *runnable = key->attachment;
    runnable->run(key);
    again_end_round(reactor);
    struct handler *handler = container_of(key, struct handler, key);
    cr_assert_eq(times_in(&reactor->again, &handler->key), 1, "it does not go on");
    *peer = ends[1];
    return handler;
}

/* Its place is in the list, and its interest in no event keeps the selector from sleeping. */
static void waits_for_no_event(void)
{
    int peer;
    struct reactor *reactor = again_open(&endless_factory);
    struct handler *handler = going_on(reactor, &peer);
    cr_assert_eq(handler->key.interest, SELECT_NOTHING);
    handler_take_turns(&reactor->again);
    again_end_round(reactor);
    cr_assert_eq(times_in(&reactor->again, &handler->key), 1, "its turn was its last one");
    handler_close(handler);
    close(peer);
    again_close();
}

/* It has deadlines as any other, and a timer that was too early is set again. */
static void has_a_timer(void)
{
    int peer;
    struct reactor *reactor = again_open(&endless_factory);
    struct handler *handler = going_on(reactor, &peer);
    timer_heap_set(&reactor->timers, &handler->timer, reactor->now);
    handler_expire(handler);
    handler_take_turns(&reactor->again);
    again_end_round(reactor);
    cr_assert_eq(handler->timer.moment, connection_deadline(&handler->connection, reactor->now),
                 "its timer is not set again");
    handler_close(handler);
    close(peer);
    again_close();
}

static void timer_too_early(void)
{
    int peer;
    struct reactor *reactor = again_open(&endless_factory);
    struct handler *handler = going_on(reactor, &peer);
    handler_expire(handler);
    again_end_round(reactor);
    cr_assert_eq(times_in(&reactor->again, &handler->key), 1, "it is not there once");
    handler_close(handler);
    close(peer);
    again_close();
}

/* The connection ends while it is in the list. */
static void timer_that_ends_it(void)
{
    int peer;
    struct reactor *reactor = again_open(&endless_factory);
    struct handler *handler = going_on(reactor, &peer);
    uint64_t before = counters_get(&reactor->server->counters, COUNTER_TIMED_OUT);
    for (int i = 0; i < 4 && !admission_is_empty(&reactor->admission); i++) {
        reactor->now = handler->timer.moment; /* it is set anew if the client was read since */
        handler_expire(handler);              /* says so, waits until the client has gone, ends */
        handler_take_turns(&reactor->again);
        again_end_round(reactor);
    }
    cr_assert_eq(counters_get(&reactor->server->counters, COUNTER_TIMED_OUT), before + 1);
    cr_assert_null(reactor->again.first, "a handler that is gone has another turn");
    close(peer);
    again_close();
}

static void told_while_in_the_list(void)
{
    int peer;
    static struct channel_hold hold;
    struct reactor *reactor = again_open(&endless_factory);
    struct handler *handler = going_on(reactor, &peer);
    handler_wake(&handler->connection, &hold);
    handler_take_told(reactor);
    cr_assert_eq(times_in(&reactor->again, &handler->key), 1, "it is not there once");
    handler_close(handler);
    close(peer);
    again_close();
}

/* A client that keeps its server busy for ever is seen to in between. */
static void deadline_of_a_busy_one(void)
{
    struct server *server = again_start(&endless_factory, "--idle-timeout=0.1");
    struct server_process process = {.pid = getpid(), .family = AF_INET};
    process.port =
        ntohs(((const struct sockaddr_in *)&server->listener.endpoint.address)->sin_port);
    int client = client_connect_send(&process, "x");
    WAIT_FOR(counters_get(&server->counters, COUNTER_TIMED_OUT) != 0);
    cr_assert_eq(counters_get(&server->counters, COUNTER_TIMED_OUT), 1);
    client_close(client);
    again_stop();
}

#define AGAIN_TESTS(suite)                                                                         \
    TestSuite(suite, .timeout = 120);                                                              \
    Test(suite, one_that_goes_on_waits_for_no_event)                                               \
    {                                                                                              \
        waits_for_no_event();                                                                      \
    }                                                                                              \
    Test(suite, one_that_always_goes_on_has_deadlines)                                             \
    {                                                                                              \
        has_a_timer();                                                                             \
    }                                                                                              \
    Test(suite, a_deadline_of_one_that_always_goes_on_comes)                                       \
    {                                                                                              \
        deadline_of_a_busy_one();                                                                  \
    }                                                                                              \
    Test(suite, a_timer_that_is_too_early_leaves_it_in_the_list_once)                              \
    {                                                                                              \
        timer_too_early();                                                                         \
    }                                                                                              \
    Test(suite, a_timer_that_ends_it_takes_it_out_of_the_list)                                     \
    {                                                                                              \
        timer_that_ends_it();                                                                      \
    }                                                                                              \
    Test(suite, one_that_is_told_to_go_on_is_in_the_list_once)                                     \
    {                                                                                              \
        told_while_in_the_list();                                                                  \
    }

#endif
