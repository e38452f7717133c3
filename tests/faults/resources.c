/*
 * The system has run out of something, and stays so for a while: memory, descriptors, threads.
 * Those who are connected are served, nobody spins, nothing is left behind, and all is well again
 * afterwards (case 20; erratum 15).
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(fault_resources, .timeout = 120);

static struct fault_report report;

/* A server with somebody connected, and from now on the plan. */
static struct server_process start_with_witness(const char *plan, const char *options, int *witness)
{
    faults_plan(plan, false);
    struct server_process server = server_start("--stats %s", options);
    *witness = client_connect_echo(&server, "first of all\n");
    cr_assert(probe_await_asleep(server.pid)); /* a worker registers the witness once more */
    faults_switch(&server);
    return server;
}

/* How many calls were made in so many milliseconds. */
static double busy_during(const struct server_process *server, int milliseconds)
{
    return probe_busy_during(server->pid, milliseconds);
}

/* No connection can be accepted. Who waits at the door is served as soon as it opens. */
static void check_accept(const char *error)
{
    char plan[64];
    int witness;
    snprintf(plan, sizeof plan, "accept4:1-=%s", error);
    struct server_process server = start_with_witness(plan, "", &witness);
    double begin = test_now();
    int waiting = client_connect_send(&server, "let me in\n");
    for (int i = 0; i < 20; i++) {
        client_echo(witness, "those connected are served\n");
    }
    double busy = busy_during(&server, 250);
    cr_assert_lt(busy, 0.3, "accept fails with %s, and %s was busy for %.0f %% of the time", error,
                 server_name(), busy * 100);
    client_echo(witness, "still\n");
    faults_switch(&server);
    client_expect_text(waiting, "let me in\n");
    client_close(waiting);
    client_close(witness);
    fault_end(&server, true, 0, &report);
    /* Ten times a second, twice where there is a reserve to give up; and when it was woken. */
    double seconds = test_now() - begin;
    cr_assert_lt((double)report.injected, 50 + 40 * seconds,
                 "with %s, accept was tried %ld times in %.1f s", error, report.injected, seconds);
}

Test(fault_resources, case_20_accept_without_memory_backs_off)
{
    check_accept("ENOMEM");
}

Test(fault_resources, case_20_accept_without_buffers_backs_off)
{
    check_accept("ENOBUFS");
}

/*
 * Whoever waits in a selector for the listener has taken it out meanwhile, and there is no memory
 * to put it in again either, for a while.
 */
Test(fault_resources, case_20_listener_cannot_be_watched_again)
{
    int witness;
    if (!strstr(server_name(), "stage2") && !strstr(server_name(), "stage3")) {
        return; /* the others accept in a thread of its own, with poll(2) */
    }
    struct server_process server =
        start_with_witness("accept4:1-2=ENOMEM,epoll_ctl:1-2=ENOMEM", "", &witness);
    int waiting = client_connect_send(&server, "let me in\n");
    client_echo(witness, "those connected are served\n");
    client_expect_text(waiting, "let me in\n");
    client_close(waiting);
    client_close(witness);
    fault_end(&server, true, 0, &report);
}

/* Not even the reserve helps: the system as a whole has no descriptor left. */
Test(fault_resources, case_20_accept_without_files_in_the_system_backs_off)
{
    check_accept("ENFILE");
}

Test(fault_resources, case_20_accept_without_descriptors_and_no_reserve_backs_off)
{
    check_accept("EMFILE");
}

/* Aborted handshakes cost the others nothing. */
Test(fault_resources, case_09_aborted_connections_are_passed_over)
{
    int witness;
    struct server_process server =
        start_with_witness("accept4:1-50=ECONNABORTED,accept4:52-60=EPROTO", "", &witness);
    int client = client_connect_echo(&server, "the next one is accepted\n");
    int another = client_connect_echo(&server, "and the one after that\n");
    client_echo(witness, "and the one before is served\n");
    client_close(client);
    client_close(another);
    client_close(witness);
    fault_end(&server, true, 0, &report);
    cr_assert_eq(report.injected, 59, "%ld were injected", report.injected);
}

/* What is made for a new connection fails at one place after the other: no socket is left open. */
Test(fault_resources, erratum_15_no_descriptor_is_left_when_a_handler_cannot_be_made)
{
    static const char *const plans[] = {"calloc:1=ENOMEM",    "malloc:1=ENOMEM",
                                        "realloc:1=ENOMEM",   "epoll_ctl:1=ENOMEM",
                                        "epoll_ctl:1=ENOSPC", "pthread_create:1=EAGAIN"};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        faults_plan(plans[i], false);
        struct server_process server = server_start("--stats --max-connections 50");
        long before = probe_descriptors(server.pid);
        faults_switch(&server);
        struct visitor unlucky = visitor_connect(&server, "unlucky");
        visitor_echo(&unlucky, "one that there may be no handler for\n");
        visitor_leave(&unlucky);
        faults_switch(&server);
        expect_service(&server);
        cr_assert(probe_await_descriptors(server.pid, before),
                  "with %s, %s had %ld descriptors before and has %ld afterwards", plans[i],
                  server_name(), before, probe_descriptors(server.pid));
        fault_end(&server, true, 0, &report);
        cr_assert(unlucky.lost <= (int)report.injected, "nothing failed, and yet");
        long long accepted = stats_value(report.errors, "accepted", NULL);
        cr_assert_eq(accepted, stats_value(report.errors, "closed", NULL), "with %s: %s", plans[i],
                     report.errors);
    }
}

/* A client for whom there is no memory is closed, is counted, and is told of in the log, once. */
Test(fault_resources, case_20_no_memory_for_a_line)
{
    int witness;
    size_t length;
    char *line = line_of(60000, "\n", &length);
    struct server_process server = start_with_witness("malloc:1-=ENOMEM", "", &witness);
    enum { CLIENTS = 5 };
    int clients[CLIENTS];
    faults_switch(&server); /* there is memory for those who come */
    clients_connect(&server, clients, CLIENTS, "a short one\n");
    faults_switch(&server);
    double begin = test_now();
    for (int i = 0; i < CLIENTS; i++) {
        client_try_send(clients[i], line, length, test_now() + 1);
        client_expect_gone(clients[i]);
        client_close(clients[i]);
    }
    double took = test_now() - begin;
    faults_switch(&server);
    client_echo(witness, "the others are served\n");
    expect_service(&server);
    client_close(witness);
    fault_end(&server, true, 0, &report);
    free(line);
    long long lost = stats_value(report.errors, "no_memory", NULL);
    cr_assert_eq(lost, CLIENTS, "%d clients were closed for want of memory; %s counts %lld: %s",
                 CLIENTS, server_name(), lost, report.errors);
    const char *told = strstr(report.errors, "\"no memory\"");
    cr_assert_not_null(told, "the log does not tell: %s", report.errors);
    cr_assert(took >= 1 || strstr(told + 1, "\"no memory\"") == NULL,
              "the log tells it more than once in a second: %s", report.errors);
}

/* Whether a connection ended for want of memory when a part of its line had been read. */
static bool ended_with_a_part_received(size_t length)
{
    long long received = stats_value(report.errors, "bytes_in", NULL);
    return stats_value(report.errors, "no_memory", NULL) == 1 && received > 0 &&
           received < (long long)length;
}

/*
 * The block of an input queue has to grow for the rest of a line, by malloc() or realloc(), and
 * cannot. Which call that is depends on the pieces in which the line arrives, so they are gone
 * through again if it was missed.
 */
enum { CALLS = 12, ROUNDS = 4 };

static void no_memory_for_the_rest(const char *call)
{
    size_t length;
    char *line = line_of(60000, "\n", &length);
    bool seen = false;
    for (int run = 0; run < ROUNDS * CALLS && !seen; run++) {
        int n = run % CALLS + 1;
        char plan[64];
        int witness;
        snprintf(plan, sizeof plan, "%s:%d=ENOMEM", call, n);
        struct server_process server = start_with_witness(plan, "", &witness);
        struct visitor visitor = visitor_connect(&server, "with a long line");
        visitor_exchange(&visitor, line, length, line, length);
        visitor_leave(&visitor);
        faults_switch(&server);
        client_echo(witness, "the others are served\n");
        client_close(witness);
        fault_end(&server, true, 0, &report);
        seen = ended_with_a_part_received(length);
        cr_assert(visitor.lost <= (int)report.injected, "a visitor was lost for no reason");
    }
    free(line);
    cr_assert(seen, "no run has counted a connection that ended for want of memory");
}

Test(fault_resources, case_40_no_memory_for_a_block_that_grows)
{
    no_memory_for_the_rest("malloc");
}

Test(fault_resources, case_40_no_memory_for_a_large_block_that_grows)
{
    no_memory_for_the_rest("realloc");
}

/* The tables of the selectors grow with their clients; some of these find no room. */
Test(fault_resources, case_20_no_room_in_the_tables_of_the_selector)
{
    enum { CLIENTS = 40 };
    int clients[CLIENTS];
    int witness;
    int served = 0;
    if (strstr(server_name(), "stage1")) {
        return;
    }
    struct server_process server =
        start_with_witness("realloc:1-=ENOMEM", "--selector poll", &witness);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect(&server);
        served += client_try_echo(clients[i], "is there room?\n", test_now() + 2);
    }
    cr_assert(served > 0 && served < CLIENTS, "%d of %d clients were served", served, CLIENTS);
    client_echo(witness, "there was room for me\n");
    faults_switch(&server);
    expect_service(&server);
    clients_close(clients, CLIENTS);
    client_close(witness);
    fault_end(&server, true, 0, &report);
}

/* Threads for clients, or for their messages: none can be started for a while. */
Test(fault_resources, case_20_no_thread_can_be_started)
{
    faults_plan("pthread_create:1-=EAGAIN", false);
    struct server_process server = server_start("--stats --max-connections 50");
    long before = probe_descriptors(server.pid);
    faults_switch(&server);
    for (int i = 0; i < 5; i++) {
        struct visitor visitor = visitor_connect(&server, "without a thread");
        visitor_echo(&visitor, "is there a thread for me?\n");
        visitor_leave(&visitor);
    }
    double busy = busy_during(&server, 150);
    cr_assert_lt(busy, 0.3, "no thread can be started, and %s was busy for %.0f %% of the time",
                 server_name(), busy * 100);
    faults_switch(&server);
    expect_service(&server);
    cr_assert(probe_await_descriptors(server.pid, before),
              "%s had %ld descriptors before and has %ld afterwards", server_name(), before,
              probe_descriptors(server.pid));
    fault_end(&server, true, 0, &report);
}

/* Waiting itself fails for a while: all goes on afterwards. */
Test(fault_resources, case_40_waiting_fails_for_a_while)
{
    static const char *const plans[] = {"poll:1-=ENOMEM", "epoll_wait:1-=EINTR", "poll:1-=EINTR"};
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        int witness;
        struct server_process server = start_with_witness(plans[i], "", &witness);
        test_pause_ms(20);
        faults_switch(&server);
        client_echo(witness, "as if nothing had been\n");
        expect_service(&server);
        client_close(witness);
        fault_end(&server, true, 0, &report);
    }
}

/* With many descriptors poll(2) needs memory of the kernel, and comes back at once without it. */
Test(fault_resources, case_20_poll_without_memory_backs_off)
{
    bool one_thread_polls = strstr(server_name(), "stage2") || strstr(server_name(), "stage3");
    if (!one_thread_polls) {
        return; /* others poll for a handful of descriptors, which never needs any */
    }
    int witness;
    struct server_process server =
        start_with_witness("poll:1-=ENOMEM", "--selector poll", &witness);
    client_send_text(witness, "to wake it up\n");
    double busy = busy_during(&server, 150);
    cr_assert_lt(busy, 0.3, "poll has no memory, and %s was busy for %.0f %% of the time",
                 server_name(), busy * 100);
    faults_switch(&server);
    client_expect_text(witness, "to wake it up\n");
    client_close(witness);
    fault_end(&server, true, 0, &report);
}

/*
 * A security module refuses the connection before it leaves the queue, so accept
 * meets the same one each time, and a loop that passed it over would have no end.
 */
Test(fault_resources, accept_that_is_refused_for_good_backs_off)
{
    int witness;
    struct server_process server =
        start_with_witness("accept4:1-=EPERM", "--drain-timeout 1", &witness);
    int waiting = client_connect(&server);
    double busy = busy_during(&server, 250);
    server_signal(&server, SIGTERM);
    bool heard = server_await_end(&server, test_now() + 3) != -1;
    if (!heard) {
        server_signal(&server, SIGKILL);
        server_await_end(&server, test_now() + 3);
    }
    cr_assert(heard && busy < 0.5,
              "accept fails with EPERM for good, and %s was busy for %.0f %% of the time and "
              "%s SIGTERM",
              server_name(), busy * 100, heard ? "heard" : "did not hear");
    server_forget(&server);
    client_close(waiting);
    client_close(witness);
}
