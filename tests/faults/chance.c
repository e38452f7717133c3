/*
 * Case 40 by chance: reads and writes that move less than they were asked to, or are interrupted,
 * which must not be seen in what clients get; and then anything at all, which may cost connections.
 *
 * Every choice follows from a seed, which stands in each message (`faults: one in 5, seed 7`).
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(case_40_chance, .timeout = 120);

/* All that moves bytes or waits for them. */
#define MOVING "readv,writev,read,write,recv,send,accept4,epoll_wait,poll"

static void expect_no_fault_in(const struct fault_report *report, const char *what)
{
    cr_assert_gt(report->injected, 0, "%s: nothing has failed; is %s linked with the shim?", what,
                 server_name());
}

/*
 * Lines of all lengths, an end of stream, and all of it back. A slow machine may take a minute to
 * read one of more than a segment byte by byte; that it goes on, the count of bytes tells
 * meanwhile, and the server must be told to wait as long for a line.
 */
static void converse(const struct server_process *server, int rounds, bool byte_by_byte)
{
    size_t many_length;
    size_t long_length;
    char *many = lines_numbered("one of many", 40, &many_length);
    char *one = line_of(byte_by_byte ? 4500 : 9000, "\r\n", &long_length);
    for (int i = 0; i < rounds; i++) {
        int client = client_connect(server);
        client_exchange(client, many, many_length, many, many_length);
        client_echo(client, "\n");
        client_send(client, one, long_length);
        if (byte_by_byte)
            server_await_counter(server, "bytes_in",
                                 (long long)(many_length + strlen("\n") + long_length));
        client_exchange(client, "", 0, one, long_length);
        client_send_text(client, "the last\nunfinished");
        client_half_close(client);
        client_expect_text(client, "the last\n");
        client_expect_end(client);
        client_close(client);
    }
    free(many);
    free(one);
}

Test(case_40_chance, case_40_one_byte_at_a_time, .timeout = 300)
{
    static struct fault_report report;
    faults_plan("readv:1-=SHORT,writev:1-=SHORT,recv:1-=SHORT,send:1-=SHORT", true);
    struct server_process server = server_start("--stats --request-timeout 0");
    converse(&server, 1, true);
    fault_end(&server, true, 0, &report);
    expect_no_fault_in(&report, "one byte at a time");
}

/* A reply that waits for its reader leaves in pieces, each of them cut short or put off. */
static void read_slowly(const struct server_process *server)
{
    size_t length;
    char *line = line_of(60000, "\n", &length);
    int client = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_exchange(client, line, length, line, length);
    client_close(client);
    free(line);
}

static void interrupt(unsigned long long seed)
{
    static struct fault_report report;
    faults_chance(3, seed, MOVING, "SHORT,EINTR,EAGAIN");
    struct server_process server = server_start("--stats --send-buffer 16384");
    faults_switch(&server);
    converse(&server, 3, false);
    read_slowly(&server);
    fault_end(&server, true, 0, &report);
    expect_no_fault_in(&report, "one in three");
}

/* The seeds of a long run begin somewhere else each time. */
static unsigned long long first_seed(void)
{
    return faults_all() ? (unsigned long long)(test_now() * 1000) : 1;
}

Test(case_40_chance, case_40_short_and_interrupted_calls_are_not_seen)
{
    unsigned long long seed = first_seed();
    for (int i = 0; i < (faults_all() ? 20 : 2); i++) {
        interrupt(seed++);
    }
}

/* Visitors of all kinds while anything may fail; all that they get is right as far as it goes. */
static void visit(const struct server_process *server, int visitors)
{
    size_t length;
    char *line = line_of(9000, "\n", &length);
    for (int i = 0; i < visitors; i++) {
        struct visitor visitor = visitor_connect(server, "by chance");
        visitor_echo(&visitor, "is this going to work?\n");
        if (i % 3 == 0) {
            visitor_exchange(&visitor, line, length, line, length);
        }
        if (i % 3 == 1 && !visitor.lost) {
            client_reset(visitor.fd);
            visitor.fd = -1;
        }
        if (i % 3 == 2 && !visitor.lost) {
            client_half_close(visitor.fd);
            visitor_expect_end(&visitor);
        }
        visitor_leave(&visitor);
    }
    free(line);
}

static void anything(unsigned long long seed)
{
    static struct fault_report report;
    faults_chance(25, seed, NULL, NULL);
    struct server_process server = server_start("--stats --max-connections 50");
    long descriptors = probe_descriptors(server.pid);
    faults_switch(&server);
    visit(&server, 60);
    faults_switch(&server);
    expect_service(&server);
    cr_assert(probe_await_descriptors(server.pid, descriptors),
              "%s had %ld descriptors before anybody came, and now that all have left it has %ld; "
              "seed %llu",
              server_name(), descriptors, probe_descriptors(server.pid), seed);
    faults_switch(&server); /* the end, too */
    fault_end(&server, true, 0, &report);
    expect_no_fault_in(&report, "one in 25");
    long long accepted = stats_value(report.errors, "accepted", NULL);
    long long closed = stats_value(report.errors, "closed", NULL);
    cr_assert_eq(accepted, closed, "%s counts %lld accepted and %lld closed; seed %llu",
                 server_name(), accepted, closed, seed);
}

Test(case_40_chance, case_40_anything_may_fail)
{
    unsigned long long seed = first_seed();
    for (int i = 0; i < (faults_all() ? 20 : 2); i++) {
        anything(seed++);
    }
}
