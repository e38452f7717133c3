/*
 * A relay, of stages 4 and 5, whose n-th call fails while a client is being connected to its server
 * and bytes pass: it costs that client at most.
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(fault_relay, .timeout = 120);

enum {
    STRIDE = 3, /* of the short walk */
    STEPS_MOST = 500,
};

static int listening;
static int port;

static void listen_somewhere(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    listening = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listening, (struct sockaddr *)&address, length), 0);
    cr_assert_eq(listen(listening, 10), 0);
    cr_assert_eq(getsockname(listening, (struct sockaddr *)&address, &length), 0);
    port = ntohs(address.sin_port);
}

/* The server's end of the client's connection; -1: the client was turned away or lost. */
static int await_pair(const struct server_process *relay, int client, double end)
{
    static char errors[1 << 16];
    struct pollfd watched[] = {{.fd = listening, .events = POLLIN},
                               {.fd = client, .events = POLLIN}};
    int count = poll(watched, 2, test_left_ms(end));
    if (count == 0) {
        server_signal(relay, SIGTERM); /* and shows its counters */
        test_await(relay->pidfd, POLLIN, test_deadline());
        server_errors(relay, errors, sizeof errors);
    }
    cr_assert_gt(count, 0, "neither connected nor closed; plan %s; %s", getenv("FAULT_PLAN"),
                 errors);
    return watched[0].revents != 0 ? accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
                                   : -1;
}

/* Whether the question arrives there, and the answer at the client. */
static bool answer(int server, int client, double end)
{
    char text[16];
    size_t got;
    bool talked = client_try_receive(server, text, 9, end, &got) == CLIENT_GOT &&
                  client_try_send(server, "answer\n", 7, end) == 7 &&
                  client_try_receive(client, text, 7, end, &got) == CLIENT_GOT;
    client_half_close(client);
    if (talked) {
        client_try_receive(server, text, 1, end, &got);
    }
    close(server);
    return talked;
}

/* A question and an answer; of several connections that were made for it the last one counts. */
static bool talk(const struct server_process *relay)
{
    double end = test_deadline();
    bool talked = false;
    int stale;
    int server;
    while ((stale = accept4(listening, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        close(stale);
    }
    int client = client_try_connect(relay, (struct client_buffers){0});
    if (client < 0) {
        return false; /* reset already: poll() would wait for nothing on -1 */
    }
    client_try_send(client, "question\n", 9, end);
    while (!talked && (server = await_pair(relay, client, end)) >= 0) {
        talked = answer(server, client, end);
    }
    close(client);
    return talked;
}

static void relay_once(struct fault_report *report)
{
    struct server_process relay = server_start(
        "--app relay --to 127.0.0.1:%d,127.0.0.1:%d --stats --max-connections 50", port, port);
    long descriptors = probe_descriptors(relay.pid);
    cr_assert(talk(&relay));
    faults_switch(&relay);
    talk(&relay);
    faults_switch(&relay);
    cr_assert(talk(&relay), "nobody is served after that; plan %s", getenv("FAULT_PLAN"));
    cr_assert(probe_await_descriptors(relay.pid, descriptors), "a descriptor is left open; plan %s",
              getenv("FAULT_PLAN"));
    fault_end(&relay, true, 0, report);
    long long begun = stats_value(report->errors, "accepted", NULL) +
                      stats_value(report->errors, "connects", NULL);
    cr_assert_eq(begun, stats_value(report->errors, "closed", NULL), "%s", report->errors);
}

Test(fault_relay, case_40_relaying)
{
    static struct fault_report report;
    int step = 1;
    if (!strstr(server_name(), "stage4") && !strstr(server_name(), "stage5")) {
        return;
    }
    listen_somewhere();
    do {
        char plan[64];
        snprintf(plan, sizeof plan, "any:%d=#0", step);
        faults_plan(plan, false);
        relay_once(&report);
        step += faults_all() ? 1 : STRIDE;
    } while (report.injected > 0 && step < STEPS_MOST);
    cr_assert(step > 20 && step < STEPS_MOST, "a walk of %d steps", step);
    close(listening);
}

static int accept_server(double end)
{
    cr_assert(test_await(listening, POLLIN, end), "somebody is not connected to a server");
    return accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/*
 * There is no descriptor for the connection to its server: the client is closed, at once, and
 * nobody else. (A limit of descriptors would not do: an acceptor that finds none gives its spare
 * one back for a moment, and the connection may get that.)
 */
Test(fault_relay, case_40_without_a_descriptor_for_its_server_a_client_is_closed)
{
    static struct fault_report report;
    if (!strstr(server_name(), "stage4") && !strstr(server_name(), "stage5")) {
        return;
    }
    listen_somewhere();
    faults_plan("socket:1=EMFILE", false);
    struct server_process relay = server_start("--app relay --to 127.0.0.1:%d --stats", port);
    double end = test_deadline();
    int client = client_connect(&relay);
    int server = accept_server(end);
    client_pass(client, server, "there is room\n");
    faults_switch(&relay);
    int alone = client_connect(&relay);
    client_expect_gone(alone);
    client_close(alone);
    client_pass(client, server, "the others are served\n");
    int another = client_connect(&relay);
    int another_server = accept_server(end);
    client_pass(another, another_server, "there is room again\n");
    cr_assert_eq(server_counter(&relay, "accepted"), 3);
    cr_assert_eq(server_counter(&relay, "closed"), 1);
    int fds[] = {client, server, another, another_server};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        client_close(fds[i]);
    }
    fault_end(&relay, true, 0, &report);
    cr_assert_eq(report.injected, 1);
    close(listening);
}

/*
 * No name server answers. The clients whose target has that name share one lookup, wait for it no
 * longer than for a connect, and have the next target then; the others do not wait at all.
 */
Test(fault_relay, a_name_that_nobody_answers_costs_the_connect_timeout_once)
{
    enum { CLIENTS = 8 };
    static struct fault_report report;
    int clients[CLIENTS];
    int servers[CLIENTS];
    if (!strstr(server_name(), "stage4") && !strstr(server_name(), "stage5")) {
        return;
    }
    listen_somewhere();
    faults_plan("getaddrinfo:1-=HANG", false);
    struct server_process relay =
        server_start("--app relay --to no.such.name.test:7,127.0.0.1:%d --connect-timeout 0.5 "
                     "--drain-timeout 30 --stats",
                     port);
    faults_switch(&relay);
    clients_connect(&relay, clients, CLIENTS, NULL);
    double end = test_deadline();
    for (int i = 0; i < CLIENTS; i++) {
        servers[i] = accept_server(end);
    }
    server_await_counter(&relay, "connects", CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        client_close(clients[i]);
        client_close(servers[i]);
    }
    server_await_counter(&relay, "closed", 2 * CLIENTS);
    double begin = test_now();
    fault_end(&relay, true, 0, &report);
    cr_assert_lt(test_now() - begin, 15, "the end has waited for the name");
    cr_assert_eq(report.injected, 1, "%ld lookups", report.injected);
    cr_assert_not_null(
        strstr(report.errors, " to=no.such.name.test:7 reason=\"Connection timed out\""), "%s",
        report.errors);
    close(listening);
}
