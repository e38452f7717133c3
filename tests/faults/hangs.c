/*
 * A stop is bounded, whatever hangs: one second after the drain timeout the server names the
 * threads that have not ended, and exits with 1. Here a call never returns; that a log is not read
 * is a test of conformance (shutdown.c).
 */
#include "fault_run.h"

#include "support/deadline.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct fault_report report;

/* Waits until the plan's call hangs. */
static void await_fault(const struct server_process *server, const char *line)
{
    double end = test_deadline();
    do {
        cr_assert_gt(test_left_ms(end), 0, "waited in vain for \"%s\": %s", line, report.errors);
        fault_look(server, &report);
    } while (strstr(report.errors, line) == NULL);
}

/* SIGTERM; asserts that the server ends with 1 and names what has not ended, and what holds it. */
static void expect_bounded_end(struct server_process *server, const char *names, const char *held)
{
    char line[256];
    double begin = test_now();
    fault_end(server, true, 1, &report);
    double took = test_now() - begin;
    snprintf(line, sizeof line, "%s: error: [main] event=stop_overdue threads=\"%s\"\n",
             server_name(), names);
    const char *found = strstr(report.errors, line);
    cr_assert(found != NULL, "expected \"%s\"; standard error: %s", line, report.errors);
    cr_assert(held == NULL || strstr(found, held) != NULL, "expected \"%s\"; standard error: %s",
              held, report.errors);
    cr_assert_geq(took, 1.5, "the drain timeout is 0.5 s, and a second more is left; it took %.2f",
                  took);
}

/* The thread that runs the handler, and whichever waits for it to end. */
static const char *names_of_handlers(void)
{
    static const char *const names[] = {"handler", "main", "worker 1", "dispatcher, worker 1",
                                        "dispatcher 1"};
    return names[server_name()[strlen("stage")] - '1'];
}

/* From stage 2 on the server knows which thread is in a handler, and for whom. */
static const char *what_holds_it(int client, char held[128])
{
    static const char *const parts[] = {"reactor", "worker 1", "worker 1", "dispatcher 1"};
    int stage = server_name()[strlen("stage")] - '0';
    struct sockaddr_in own;
    socklen_t size = sizeof own;
    getsockname(client, (struct sockaddr *)&own, &size);
    snprintf(held, 128, "part=\"%s\" peer=127.0.0.1:%u fd=", stage > 1 ? parts[stage - 2] : "",
             (unsigned)ntohs(own.sin_port));
    return stage > 1 ? held : NULL;
}

static const char *one_thread_of_each_kind(void)
{
    if (server_has_option("--dispatchers")) {
        return "--dispatchers 1 --workers 0";
    }
    return server_has_option("--workers") ? "--workers 1" : "";
}

/* It opens a file, and the disk does not answer. */
Test(fault_resources, case_39_a_handler_that_never_returns_does_not_keep_the_server)
{
    faults_plan("openat:1=HANG", false);
    struct server_process server =
        server_start("--app http --root . --drain-timeout 0.5 %s", one_thread_of_each_kind());
    faults_switch(&server);
    char held[128];
    int client = client_connect_send(&server, "GET /README.md HTTP/1.1\r\nHost: localhost\r\n\r\n");
    await_fault(&server, "openat 1: HANG");
    expect_bounded_end(&server, names_of_handlers(), what_holds_it(client, held));
    client_close(client);
}

/* A relay looks up the name of its target, and no name server answers: nobody waits for that. */
Test(fault_resources, case_39_a_name_that_is_looked_up_does_not_keep_the_server)
{
    if (!server_has_option("--helpers")) {
        return;
    }
    faults_plan("getaddrinfo:1=HANG", false);
    struct server_process server =
        server_start("--app relay --to no.such.name.test:7 --drain-timeout 0.5");
    faults_switch(&server);
    int client = client_connect_send(&server, "is anybody there?\n");
    await_fault(&server, "getaddrinfo 1: HANG");
    fault_end(&server, true, 0, &report);
    client_close(client);
}
