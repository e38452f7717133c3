/*
 * Case 40: the n-th call that a server makes fails, for n = 1, 2, ... until a run is clean.
 *
 * A walk is taken through the start, through service and through the end. After each step the
 * server has kept what it owes: at the start it refuses with a message or serves; in service one
 * fault costs one visitor at most, and none if it was an error to try again after; and in the
 * end it exits with 0, having closed every descriptor and counted every connection, without having
 * run in circles meanwhile. With a sanitizer it has also given back every byte.
 *
 * With FAULTS=all each walk is taken once for each place in the calls' lists of errors (shim.c),
 * and once more for each other way in which the stage can be run; otherwise for the first one only,
 * and in larger steps.
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(case_40, .timeout = 120);

enum {
    PLACES = 8,
    WAYS = 6, /* of running a server */
    INSTANCES = PLACES + WAYS - 1,
    STEPS_MOST = 3000,
    STRIDE = 3,        /* of a short walk */
    CALLS_MOST = 4000, /* a run makes some hundreds; one that spins makes thousands a millisecond */
};

/* One instance for each place, then one for each other way; the first alone if it is to be short.
 */
static struct criterion_test_params instances(void)
{
    static int all[INSTANCES];
    for (int i = 0; i < INSTANCES; i++) {
        all[i] = i;
    }
    return cr_make_param_array(int, all, faults_all() ? INSTANCES : 1);
}

static int place_of(int instance)
{
    return instance < PLACES ? instance : 0;
}

/* The options of that instance; NULL if the stage has no such way. */
static const char *options_of(int instance)
{
    static const char *const ways[] = {"--app chat", "--app pop3", "--app http --root ."};
    int way = instance < PLACES ? 0 : instance - PLACES + 1;
    int stage = server_name()[strlen("stage")] - '0';
    if (way == 0) {
        return "";
    }
    if (way == 1) {
        return stage == 1 ? "--threads 3" : "--selector poll";
    }
    if (way == WAYS - 1) {
        return stage == 5 ? "--log-traffic --suspicious 10.0.0.0/8 --workers 2" : NULL;
    }
    return stage >= 4 ? ways[way - 2] : NULL;
}

static const char *options; /* of the walk that is under way */

/* Walks until a run has made no n-th call; what differs is the run. */
static void walk(int place, bool armed, void (*run)(struct fault_report *report))
{
    static struct fault_report report;
    int step = 1;
    do {
        char plan[64];
        snprintf(plan, sizeof plan, "any:%d=#%d", step, place);
        faults_plan(plan, armed);
        run(&report);
        cr_assert_lt(report.calls, CALLS_MOST, "with %s, %s made %ld calls; its errors: %s", plan,
                     server_name(), report.calls, report.errors);
        step += faults_all() ? 1 : STRIDE;
    } while (report.injected > 0 && step < STEPS_MOST);
    cr_assert(step > 5 && step < STEPS_MOST, "a walk of %d steps: is %s linked with the shim?",
              step, server_name());
}

/* Connections are counted in and out. */
static void expect_all_counted(const struct fault_report *report)
{
    long long accepted = stats_value(report->errors, "accepted", NULL);
    long long closed = stats_value(report->errors, "closed", NULL);
    cr_assert_eq(accepted, closed, "%s counts %lld accepted and %lld closed: %s", server_name(),
                 accepted, closed, report->errors);
}

/* ---- The start ---- */

/* A message is the program's name, what it cannot do and why. */
static void expect_message(const struct fault_report *report)
{
    char prefix[128];
    snprintf(prefix, sizeof prefix, "%s: ", server_name());
    const char *line = strstr(report->errors, prefix);
    cr_assert(line != NULL && strstr(line, "cannot ") != NULL,
              "%s exited with 1 and should say why; its standard error: %s", server_name(),
              report->errors);
}

static const char *more_options; /* of a start */

static void start_and_stop(struct fault_report *report)
{
    struct server_process server;
    if (server_try_start(&server, "--stats %s %s", options, more_options)) {
        fault_end(&server, true, 0, report);
    } else {
        fault_end(&server, false, 1, report);
        expect_message(report);
    }
}

ParameterizedTestParameters(case_40, start_up)
{
    return instances();
}

ParameterizedTest(int *instance, case_40, start_up)
{
    options = options_of(*instance);
    more_options = "";
    if (options != NULL) {
        walk(place_of(*instance), true, start_and_stop);
    }
}

ParameterizedTestParameters(case_40, start_up_with_warm_workers)
{
    return instances();
}

/* If the start fails later on, there are threads that nobody has given anything to do. */
ParameterizedTest(int *instance, case_40, start_up_with_warm_workers)
{
    options = options_of(*instance);
    more_options = "--warm --workers 3";
    if (options != NULL && server_has_option("--warm")) {
        walk(place_of(*instance), true, start_and_stop);
    }
}

/* ---- Service ---- */

static size_t long_length;
static char *long_line;
static size_t too_long_length;
static char *too_long_line;

static int lost_of(const struct visitor *const *visitors, int count)
{
    int lost = 0;
    for (int i = 0; i < count; i++) {
        lost += visitors[i]->lost;
    }
    return lost;
}

/* Lines that fit a segment and lines that do not; an orderly end, an error, a reset, a close. */
static int visit(const struct server_process *server, struct visitor *witness)
{
    static const char error[] = "ERR line too long\n";
    struct visitor orderly = visitor_connect(server, "orderly");
    visitor_echo(&orderly, "a line\r\n");
    visitor_exchange(&orderly, long_line, long_length, long_line, long_length);
    if (!orderly.lost) {
        client_half_close(orderly.fd);
    }
    visitor_expect_end(&orderly);

    struct visitor wordy = visitor_connect(server, "wordy");
    visitor_exchange(&wordy, too_long_line, too_long_length, error, strlen(error));
    visitor_expect_end(&wordy);

    struct visitor rude = visitor_connect(server, "rude");
    visitor_echo(&rude, "a line\n");
    if (!rude.lost) {
        client_reset(rude.fd);
        rude.fd = -1;
    }
    struct visitor last = visitor_connect(server, "last");
    visitor_echo(&last, "the last line\n");
    visitor_echo(witness, "still there\n");

    const struct visitor *const all[] = {&orderly, &wordy, &rude, &last, witness};
    int lost = lost_of(all, 5);
    visitor_leave(&orderly);
    visitor_leave(&wordy);
    visitor_leave(&last);
    return lost;
}

static void serve(struct fault_report *report)
{
    struct server_process server =
        server_start("--stats --max-line 20000 --max-connections 50 %s", options);
    long descriptors = probe_descriptors(server.pid);
    struct visitor witness = visitor_connect(&server, "witness");
    visitor_echo(&witness, "first of all\n");

    faults_switch(&server);
    int lost = visit(&server, &witness);
    test_pause_ms(2); /* in which one that spins makes thousands of calls */
    faults_switch(&server);
    expect_service(&server);
    visitor_leave(&witness);
    cr_assert(probe_await_descriptors(server.pid, descriptors),
              "%s had %ld descriptors before anybody came, and now that all have left it has %ld; "
              "plan %s",
              server_name(), descriptors, probe_descriptors(server.pid), getenv("FAULT_PLAN"));

    fault_end(&server, true, 0, report);
    long allowed = report->harmless ? 0 : report->injected;
    cr_assert_leq(lost, allowed, "%d visitors of %s were lost, %ld may be; its errors: %s", lost,
                  server_name(), allowed, report->errors);
    expect_all_counted(report);
}

ParameterizedTestParameters(case_40, serving)
{
    return instances();
}

ParameterizedTest(int *instance, case_40, serving)
{
    options = options_of(*instance);
    if (options == NULL || strstr(options, "--app") != NULL) {
        return; /* app_walk.c goes there */
    }
    long_line = line_of(9000, "\n", &long_length);
    too_long_line = line_of(20100, "\n", &too_long_length);
    walk(place_of(*instance), false, serve);
    free(long_line);
    free(too_long_line);
}

/* ---- The end ---- */

/* One who is idle, one in the middle of a line, one who waits for the rest of a long reply. */
static void stop(struct fault_report *report)
{
    struct server_process server = server_start(
        "--stats --send-buffer 4096 --drain-timeout 2 --max-connections 50 %s", options);
    struct visitor idle = visitor_connect(&server, "idle");
    struct visitor halfway = visitor_connect(&server, "halfway");
    struct visitor waiting = {.name = "waiting"};
    visitor_echo(&idle, "here\n");
    visitor_echo(&halfway, "here\n");
    client_send_text(halfway.fd, "unfinished");
    waiting.fd = client_connect_with(
        &server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_send(waiting.fd, long_line, long_length);
    client_await_reply(waiting.fd);

    faults_switch(&server);
    server_signal(&server, SIGTERM);
    visitor_exchange(&waiting, "", 0, long_line, long_length);
    visitor_expect_end(&waiting);
    visitor_expect_end(&idle);
    if (!halfway.lost) { /* its unfinished line may have cost it the good order */
        client_expect_gone(halfway.fd);
    }
    visitor_leave(&waiting);
    visitor_leave(&idle);
    visitor_leave(&halfway);
    fault_end(&server, false, 0, report);
    int lost = waiting.lost + idle.lost;
    cr_assert_leq(lost, (int)report->injected, "%d visitors of %s were lost; its errors: %s", lost,
                  server_name(), report->errors);
    expect_all_counted(report);
}

ParameterizedTestParameters(case_40, shutting_down)
{
    return instances();
}

ParameterizedTest(int *instance, case_40, shutting_down)
{
    options = options_of(*instance);
    if (options == NULL || strstr(options, "--app") != NULL) {
        return;
    }
    long_line = line_of(30000, "\n", &long_length);
    walk(place_of(*instance), false, stop);
    free(long_line);
}
