/*
 * The options that set up an executor: what each takes, and the settings that follow.
 */
#include "common/workers/executor_options.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(executor_options, .timeout = 120);

typedef void adds_options(struct options *options, struct executor_choice *choice);

/* Reads a command line, "--workers 3 --queue direct" for instance, and returns the exit status. */
static int parse_with(adds_options *add, struct executor_choice *choice, const char *line)
{
    static char text[256];
    struct options options;
    char *argv[16] = {"server"};
    int argc = 1;
    char *rest = NULL;
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < 16;
         word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    options_init(&options, "server", "");
    add(&options, choice);
    return options_parse(&options, argc, argv);
}

static int parse(struct executor_choice *choice, const char *line)
{
    return parse_with(executor_options, choice, line);
}

static struct executor_settings settings_from(const char *line)
{
    struct executor_choice choice;
    cr_assert_eq(parse(&choice, line), OPTIONS_SERVE, "`%s` is refused", line);
    return executor_settings(&choice);
}

static void expect_refused(const char *line, const char *complaint)
{
    struct executor_choice choice;
    char text[512];
    char expected[512];
    int status;
    CAPTURED(STDERR_FILENO, text, status = parse(&choice, line));
    snprintf(expected, sizeof(expected), "server: %s\n", complaint);
    cr_assert_eq(status, 2, "`%s` is accepted", line);
    cr_assert_str_eq(text, expected);
}

Test(executor_options, defaults)
{
    struct executor_settings settings = settings_from("");
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    cr_assert_eq(settings.core, (size_t)processors);
    cr_assert_eq(settings.max, (size_t)processors);
    cr_assert_eq(settings.keep_alive, 60000);
    cr_assert_eq(settings.queue_kind, &task_queue_unbounded);
    cr_assert_eq(settings.policy, &saturation_abort);
}

Test(executor_options, numbers_of_threads)
{
    struct executor_settings settings = settings_from("--workers 3");
    cr_assert(settings.core == 3 && settings.max == 3);
    settings = settings_from("--workers 3 --max-workers 8");
    cr_assert(settings.core == 3 && settings.max == 8);
    settings = settings_from("--max-workers 8 --workers 10000");
    cr_assert(settings.core == 10000 && settings.max == 10000, "not fewer than are kept");
    settings = settings_from("--workers 5 --max-workers 0");
    cr_assert(settings.core == 5 && settings.max == 5);
}

Test(executor_options, keep_alive)
{
    cr_assert_eq(settings_from("--keep-alive 0").keep_alive, 0);
    cr_assert_eq(settings_from("--keep-alive 2.5").keep_alive, 2500);
    cr_assert_eq(settings_from("--keep-alive=0.001").keep_alive, 1);
}

Test(executor_options, warm_threads)
{
    cr_assert(!settings_from("").warm);
    cr_assert(settings_from("--warm").warm);
}

Test(executor_options, how_long_a_message_may_wait)
{
    cr_assert_eq(settings_from("").max_wait, 0);
    cr_assert_eq(settings_from("--max-wait-ms 250").max_wait, 250);
}

Test(executor_options, queues)
{
    cr_assert_eq(settings_from("--queue direct").queue_kind, &task_queue_direct);
    cr_assert_eq(settings_from("--queue unbounded").queue_kind, &task_queue_unbounded);
    cr_assert_eq(settings_from("--queue priority").queue_kind, &task_queue_priority);
    struct executor_settings settings = settings_from("--queue bounded:17");
    cr_assert_eq(settings.queue_kind, &task_queue_bounded);
    cr_assert_eq(settings.queue_limit, 17);
    settings = settings_from("--queue=bounded:1073741824");
    cr_assert_eq(settings.queue_limit, 1 << 30);
    cr_assert_eq(settings_from("--queue bounded:3 --queue direct").queue_kind, &task_queue_direct,
                 "the last one wins");
}

Test(executor_options, policies)
{
    static const struct saturation_policy *const policies[] = {
        &saturation_abort, &saturation_block, &saturation_caller_runs, &saturation_discard,
        &saturation_discard_oldest};
    for (int i = 0; i < 5; i++) {
        char line[64];
        snprintf(line, sizeof(line), "--saturation %s", policies[i]->name);
        cr_assert_eq(settings_from(line).policy, policies[i], "%s", line);
    }
}

Test(executor_options, what_is_refused)
{
    static const struct {
        const char *line;
        const char *complaint;
    } bad[] = {
        {"--workers 0", "--workers: expected a number from 1 to 10000, got '0'"},
        {"--workers 10001", "--workers: expected a number from 1 to 10000, got '10001'"},
        {"--workers x", "--workers: expected a number from 1 to 10000, got 'x'"},
        {"--workers=", "--workers: expected a number from 1 to 10000, got ''"},
        {"--workers", "--workers: needs a value: N"},
        {"--max-workers -1", "--max-workers: expected a number from 0 to 10000, got '-1'"},
        {"--max-workers 10001", "--max-workers: expected a number from 0 to 10000, got '10001'"},
        {"--keep-alive x", "--keep-alive: expected a number of seconds, got 'x'"},
        {"--keep-alive -1", "--keep-alive: expected a number of seconds, got '-1'"},
        {"--keep-alive", "--keep-alive: needs a value: SEC"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        expect_refused(bad[i].line, bad[i].complaint);
}

Test(executor_options, queues_that_are_refused)
{
    static const char *const bad[] = {"x",
                                      "Direct",
                                      "bounded",
                                      "bounded:",
                                      "bounded:0",
                                      "bounded:-1",
                                      "bounded:1x",
                                      "bounded:1073741825",
                                      "bounded:99999999999999999999",
                                      "direct:1",
                                      "unbounded:",
                                      "priority,direct"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char complaint[128];
        char line[64];
        snprintf(line, sizeof(line), "--queue=%s", bad[i]);
        snprintf(complaint, sizeof(complaint),
                 "--queue: expected one of direct, bounded:N, unbounded, priority, got '%s'",
                 bad[i]);
        expect_refused(line, complaint);
    }
    expect_refused("--queue=",
                   "--queue: expected one of direct, bounded:N, unbounded, priority, got ''");
}

Test(executor_options, policies_that_are_refused)
{
    static const char *const bad[] = {"x", "", "Abort", "caller_runs", "discard-", "blocks"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char line[64];
        char complaint[128];
        snprintf(line, sizeof(line), "--saturation=%s", bad[i]);
        snprintf(complaint, sizeof(complaint),
                 "--saturation: expected one of abort, block, caller-runs, discard, "
                 "discard-oldest, got '%s'",
                 bad[i]);
        expect_refused(line, complaint);
    }
}

/* What --help tells is read like any other value, so a table that is wrong shows here. */
Test(executor_options, help_lists_them_with_their_defaults)
{
    static const char *const parts[] = {
        "--workers N", "--max-workers N",     "--keep-alive SEC", "--queue KIND",
        "[unbounded]", "--saturation POLICY", "[abort]",          "[60]"};
    struct executor_choice choice;
    char text[4096];
    int status;
    CAPTURED(STDOUT_FILENO, text, status = parse(&choice, "--help"));
    cr_assert_eq(status, 0);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        cr_assert_not_null(strstr(text, parts[i]), "--help does not tell %s: %s", parts[i], text);
}

/* ---- servers that can do without an executor ---- */

static struct executor_settings settings_or_none(const char *line)
{
    struct executor_choice choice;
    cr_assert_eq(parse_with(executor_options_or_none, &choice, line), OPTIONS_SERVE,
                 "`%s` is refused", line);
    return executor_settings(&choice);
}

Test(executor_options, or_none_is_none_unless_workers_are_asked_for)
{
    struct executor_settings settings = settings_or_none("");
    cr_assert(settings.core == 0 && settings.max == 0);
    settings = settings_or_none("--workers 0");
    cr_assert(settings.core == 0 && settings.max == 0);
    settings = settings_or_none("--workers 3");
    cr_assert(settings.core == 3 && settings.max == 3);
    settings = settings_or_none("--max-workers 2");
    cr_assert(settings.core == 0 && settings.max == 2);
    cr_assert_eq(settings.keep_alive, 60000);
    cr_assert_eq(settings.queue_kind, &task_queue_unbounded);
    cr_assert_eq(settings.policy, &saturation_abort);
}

Test(executor_options, or_none_tells_so)
{
    struct executor_choice choice;
    char text[4096];
    int status;
    CAPTURED(STDOUT_FILENO, text, status = parse_with(executor_options_or_none, &choice, "--help"));
    cr_assert_eq(status, 0);
    const char *line = strstr(text, "--workers N");
    cr_assert_not_null(line);
    cr_assert_not_null(strstr(line, "0: each dispatcher runs its handlers itself [0]"), "%s", text);
    CAPTURED(STDERR_FILENO, text,
             status = parse_with(executor_options_or_none, &choice, "--workers -1"));
    cr_assert_eq(status, 2);
    cr_assert_str_eq(text, "server: --workers: expected a number from 0 to 10000, got '-1'\n");
}
