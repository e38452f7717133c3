/*
 * Servers with faults, and their visitors: see fault_run.h.
 */
#include "fault_run.h"

#include "support/deadline.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static const char busy[] = "ERR server busy\n";

enum { BUSY_LENGTH = sizeof busy - 1 };

bool faults_all(void)
{
    const char *choice = getenv("FAULTS");
    return choice != NULL && strcmp(choice, "all") == 0;
}

static void set(const char *name, const char *value)
{
    if (value != NULL) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

void faults_plan(const char *plan, bool armed)
{
    set("FAULT_PLAN", plan);
    set("FAULT_CHANCE", NULL);
    set("FAULT_NAMES", NULL);
    set("FAULT_ARMED", armed ? "1" : "0");
}

void faults_chance(int one_in, unsigned long long seed, const char *names, const char *errors)
{
    char text[32];
    faults_plan(NULL, false);
    snprintf(text, sizeof text, "%d", one_in);
    set("FAULT_CHANCE", text);
    snprintf(text, sizeof text, "%llu", seed);
    set("FAULT_SEED", text);
    set("FAULT_NAMES", names);
    set("FAULT_ERRORS", errors);
}

static int count_of(const char *text, const char *wanted)
{
    int count = 0;
    for (; (text = strstr(text, wanted)) != NULL; text += strlen(wanted)) {
        count++;
    }
    return count;
}

void faults_switch(const struct server_process *server)
{
    static char text[1 << 16];
    double end = test_deadline();
    server_errors(server, text, sizeof text);
    int before = count_of(text, "faults: o"); /* on or off */
    server_signal(server, SIGUSR2);
    do {
        cr_assert_gt(test_left_ms(end), 0, "sent SIGUSR2 and waited in vain for the shim: %s",
                     text);
        test_await(server->pidfd, POLLIN, test_now() + 0.001);
        server_errors(server, text, sizeof text);
    } while (count_of(text, "faults: o") == before);
}

/* Whether every fault of a plan is one that only costs a second try. */
static bool all_harmless(const char *text)
{
    char name[32];
    char error[32];
    long number;
    for (; (text = strstr(text, "faults: ")) != NULL; text++) {
        if (sscanf(text, "faults: %31s %ld: %31s", name, &number, error) != 3) {
            continue;
        }
        bool again = strcmp(error, "SHORT") == 0 || strcmp(error, "EINTR") == 0 ||
                     strcmp(error, "EAGAIN") == 0 || strcmp(error, "ECONNABORTED") == 0 ||
                     strcmp(error, "EPROTO") == 0;
        if (!again || strcmp(name, "pthread_create") == 0) {
            return false;
        }
    }
    return true;
}

void fault_look(const struct server_process *server, struct fault_report *report)
{
    server_errors(server, report->errors, sizeof report->errors);
    const char *last = NULL;
    for (const char *line = report->errors; (line = strstr(line, "faults: calls ")) != NULL;) {
        last = line++;
    }
    report->calls = report->injected = 0;
    if (last != NULL) {
        sscanf(last, "faults: calls %ld, injected %ld", &report->calls, &report->injected);
    }
    report->harmless = all_harmless(report->errors);
}

void fault_end(struct server_process *server, bool stop, int exit_status,
               struct fault_report *report)
{
    if (stop) {
        server_signal(server, SIGTERM);
    }
    int status = server_await_end(server, test_deadline());
    fault_look(server, report);
    if (status == -1) {
        server_signal(server, SIGKILL);
    }
    server_forget(server);
    cr_assert(status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == exit_status,
              "%s should exit with %d; its wait status is 0x%x (-1: it did not end in time); its "
              "standard error: %s",
              server_name(), exit_status, (unsigned)status, report->errors);
}

/* ---- Visitors ---- */

struct visitor visitor_connect(const struct server_process *server, const char *name)
{
    return (struct visitor){.fd = client_connect(server), .name = name};
}

static void lose(struct visitor *visitor, const char *how)
{
    client_close(visitor->fd);
    visitor->fd = -1;
    visitor->lost = true;
    visitor->how = how;
}

/* Takes some bytes that should be these; NULL, or how the visitor is lost. */
static const char *take(struct visitor *visitor, const char *expected, size_t length)
{
    static char reply[1 << 17];
    size_t got;
    cr_assert_leq(length, sizeof reply);
    enum client_outcome outcome =
        client_try_receive(visitor->fd, reply, length, test_deadline(), &got);
    size_t compared = got < BUSY_LENGTH ? got : BUSY_LENGTH;
    bool turned_away = got > 0 && memcmp(reply, busy, compared) == 0;
    cr_assert(turned_away || memcmp(reply, expected, got) == 0,
              "visitor %s of %s: expected `%.40s`, got `%.*s`", visitor->name, server_name(),
              expected, (int)(got < 60 ? got : 60), reply);
    cr_assert(turned_away || outcome != CLIENT_LATE,
              "visitor %s of %s: got %zu of %zu bytes, then nothing until the deadline",
              visitor->name, server_name(), got, length);
    if (turned_away)
        return "turned away";
    return outcome == CLIENT_GOT ? NULL : client_outcome_text(outcome);
}

void visitor_exchange(struct visitor *visitor, const void *data, size_t length,
                      const void *expected, size_t expected_length)
{
    if (visitor->lost) {
        return;
    }
    client_try_send(visitor->fd, data, length, test_deadline());
    size_t first = expected_length < BUSY_LENGTH ? expected_length : BUSY_LENGTH;
    const char *how = take(visitor, expected, first);
    if (how == NULL) {
        how = take(visitor, (const char *)expected + first, expected_length - first);
    }
    if (how != NULL) {
        lose(visitor, how);
    }
}

void visitor_echo(struct visitor *visitor, const char *line)
{
    visitor_exchange(visitor, line, strlen(line), line, strlen(line));
}

void visitor_expect_end(struct visitor *visitor)
{
    char byte;
    size_t got;
    if (visitor->lost) {
        return;
    }
    enum client_outcome outcome = client_try_receive(visitor->fd, &byte, 1, test_deadline(), &got);
    cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET,
              "visitor %s of %s: expected the end, got %s", visitor->name, server_name(),
              client_outcome_text(outcome));
    if (outcome == CLIENT_RESET) {
        lose(visitor, client_outcome_text(outcome));
    }
}

void visitor_leave(struct visitor *visitor)
{
    if (visitor->fd >= 0) {
        client_close(visitor->fd);
    }
    visitor->fd = -1;
}

void expect_service(const struct server_process *server)
{
    static char errors[1 << 16];
    double end = test_deadline();
    struct visitor visitor;
    do {
        visitor = visitor_connect(server, "afterwards");
        visitor_echo(&visitor, "is anybody there?\n");
    } while (visitor.lost && !test_await(server->pidfd, POLLIN, test_now() + 0.01) &&
             test_left_ms(end) > 0);
    if (visitor.lost) {
        server_signal(server, SIGTERM); /* and shows its counters */
        test_await(server->pidfd, POLLIN, test_deadline());
        server_errors(server, errors, sizeof errors);
    }
    cr_assert(!visitor.lost, "no fault is on any more, and %s serves nobody: %s; %s", server_name(),
              visitor.how, errors);
    visitor_leave(&visitor);
}
