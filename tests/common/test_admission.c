/*
 * Admission: how many are in, who is turned away, and that whoever waits for a place hears of it.
 */
#include "common/base/clock.h"
#include "common/base/signals.h"
#include "common/server/admission.h"
#include "faults.h"
#include "support/aborts.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(admission, .timeout = 120);

static struct server server;
static struct admission admission;

/* What a stage would make of connections: it only keeps them. */
static struct {
    int fds[64];
    int count;
    bool refuses;
} served;

static bool serve(void *context, int fd)
{
    (void)context;
    if (!served.refuses)
        served.fds[served.count++] = fd;
    return !served.refuses;
}

static void open_admission(uint64_t max_connections, enum overload overload)
{
    struct endpoint endpoint;
    server = (struct server){.name = "test",
                             .log = {.program = "test", .level = LOG_LEVEL_ERROR},
                             .settings = {.max_connections = max_connections,
                                          .overload = overload,
                                          .turn_away = "full\n"}};
    served.count = 0;
    served.refuses = false;
    cr_assert_eq(signals_open(&server.signals, "test", 0), 0);
    cr_assert(endpoint_parse(&endpoint, "127.0.0.1", 0));
    cr_assert_eq(listener_open(&server.listener, &endpoint, 0), 0, "%s", strerror(errno));
    admission_init(&admission, &server);
}

static void close_admission(void)
{
    while (served.count > 0) {
        close(served.fds[--served.count]);
        admission_leave(&admission);
    }
    cr_assert(admission_is_empty(&admission));
    admission_destroy(&admission);
    listener_close(&server.listener);
    signals_close(&server.signals);
}

#ifndef NDEBUG
static void destroy(void *unused)
{
    (void)unused;
    admission_destroy(&admission);
}

/* A handler's connection is over, and somebody still has a reference to its facade. */
Test(admission, a_place_that_nobody_gives_back_is_an_assertion)
{
    open_admission(2, OVERLOAD_REJECT);
    admission_enter(&admission);
    expect_abort(destroy, NULL, "admission_is_empty");
    admission_leave(&admission);
    close_admission();
}
#endif

static int client_new(void)
{
    int client = socket(AF_INET, SOCK_STREAM, 0);
    const struct endpoint *to = &server.listener.endpoint;
    cr_assert_eq(connect(client, (const struct sockaddr *)&to->address, to->length), 0);
    struct pollfd listening = {.fd = server.listener.fd, .events = POLLIN};
    cr_assert_eq(poll(&listening, 1, (int)test_deadline_ms()), 1);
    return client;
}

static void accept_round(void)
{
    admission_accept(&admission, &server.listener, SOCK_NONBLOCK, serve, NULL);
}

static void expect_turned_away(int client)
{
    char text[16] = "";
    cr_assert_eq(recv(client, text, sizeof(text), MSG_WAITALL), 5);
    cr_assert_str_eq(text, "full\n");
    close(client);
}

static bool rung(void)
{
    struct pollfd watched = {.fd = server.signals.fd, .events = POLLIN};
    bool readable = poll(&watched, 1, 0) == 1;
    signals_take(&server.signals);
    return readable;
}

static void leave(void)
{
    close(served.fds[--served.count]);
    admission_leave(&admission);
}

Test(admission, case_21_past_the_limit_a_client_is_turned_away)
{
    open_admission(2, OVERLOAD_REJECT);
    int clients[] = {client_new(), client_new(), client_new()};
    accept_round();
    cr_assert_eq(served.count, 2);
    expect_turned_away(clients[2]);
    cr_assert_eq(counters_get(&server.counters, COUNTER_REJECTED), 1);
    leave();
    int next = client_new();
    accept_round();
    cr_assert_eq(served.count, 2, "there is a place again");
    close(next);
    close(clients[0]);
    close(clients[1]);
    close_admission();
}

Test(admission, case_20_a_client_that_cannot_be_served_is_turned_away_and_takes_no_place)
{
    open_admission(1, OVERLOAD_REJECT);
    served.refuses = true;
    int client = client_new();
    accept_round();
    expect_turned_away(client);
    cr_assert(admission_is_empty(&admission));
    close_admission();
}

Test(admission, case_22_with_wait_a_client_stays_where_it_is_until_the_bell_rings)
{
    open_admission(1, OVERLOAD_WAIT);
    int first = client_new();
    accept_round();
    leave();
    cr_assert_not(rung() && served.count > 0);
    accept_round();
    int second = client_new();
    accept_round();
    int third = client_new();
    accept_round();
    cr_assert_eq(served.count, 1, "the third has to wait");
    cr_assert_not(admission_is_open(&admission));
    cr_assert_not(rung(), "nobody has left");
    leave();
    cr_assert(rung(), "a place was wanted");
    cr_assert(admission_is_open(&admission));
    accept_round();
    cr_assert_eq(served.count, 1);
    close(first);
    close(second);
    close(third);
    close_admission();
}

Test(admission, one_round_accepts_a_limited_number)
{
    int clients[40];
    open_admission(100, OVERLOAD_REJECT);
    for (int i = 0; i < 40; i++)
        clients[i] = client_new();
    accept_round();
    cr_assert_gt(served.count, 0);
    cr_assert_lt(served.count, 40, "signals have to wait for all of them");
    while (served.count < 40)
        accept_round();
    for (int i = 0; i < 40; i++)
        close(clients[i]);
    close_admission();
}

static int accept_calls;

static int fail_to_accept(int fd, int flags)
{
    (void)fd;
    (void)flags;
    accept_calls++;
    errno = ENOMEM;
    return -1;
}

Test(admission, case_20_after_an_error_it_backs_off)
{
    open_admission(10, OVERLOAD_REJECT);
    cr_assert_eq(admission_resumes(&admission), INT64_MAX);
    faults.accept4 = fail_to_accept;
    accept_calls = 0;
    int64_t before = clock_ms();
    accept_round();
    accept_round();
    cr_assert_eq(accept_calls, 1, "%d calls: it does not spin", accept_calls);
    cr_assert_not(admission_is_open(&admission));
    cr_assert_geq(admission_resumes(&admission), before + SERVER_BACK_OFF_MS);
    faults.accept4 = NULL;
    double end = test_deadline();
    while (!admission_is_open(&admission))
        cr_assert(test_left_ms(end) > 0, "it never resumes");
    cr_assert_eq(admission_resumes(&admission), INT64_MAX);
    close_admission();
}

/* Forty who have connected at the end; how many of them are accepted. */
static int accept_last(admission_server *how)
{
    int clients[40];
    open_admission(100, OVERLOAD_REJECT);
    for (int i = 0; i < 40; i++)
        clients[i] = client_new();
    admission_accept_last(&admission, &server.listener, SOCK_NONBLOCK, how, NULL);
    cr_assert_eq(server.listener.fd, -1);
    int accepted = served.count;
    for (int i = 0; i < 40; i++)
        close(clients[i]);
    close_admission();
    return accepted;
}

Test(admission, at_the_end_all_who_have_connected_are_accepted)
{
    cr_assert_eq(accept_last(serve), 40);
}

static bool serve_slowly(void *context, int fd)
{
    test_pause_ms(50);
    return serve(context, fd);
}

/* It is the machine that is slow, or stage 1 that starts thousands of threads. */
Test(admission, at_the_end_they_are_accepted_as_long_as_a_stop_may_last)
{
    int accepted = accept_last(serve_slowly);
    cr_assert_gt(accepted, 0);
    cr_assert_lt(accepted, 40, "a stop would last as long as the queue is long");
}

Test(admission, a_listener_that_is_closed_has_nobody)
{
    open_admission(1, OVERLOAD_REJECT);
    listener_close(&server.listener);
    accept_round();
    cr_assert_eq(served.count, 0);
    close_admission();
}

static void *come_and_go(void *argument)
{
    (void)argument;
    for (int i = 0; i < 5000; i++) {
        admission_enter(&admission);
        admission_leave(&admission);
    }
    return NULL;
}

Test(admission, loses_no_count_between_threads)
{
    pthread_t threads[8];
    open_admission(1, OVERLOAD_REJECT);
    admission_enter(&admission);
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, come_and_go, NULL);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_assert_not(admission_is_empty(&admission));
    admission_leave(&admission);
    close_admission();
}
