/*
 * The command line: --help, --version, and what bad usage gets: exit status 2 and one line on
 * standard error that names the option and what it takes.
 */
#include "support/probe.h"
#include "support/server_process.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(usage, .timeout = 120);

/** Runs the program and expects exit status 2 and one line: the program's name, then @p complaint.
 */
static void expect_refused(const char *arguments, const char *complaint)
{
    struct program_result result = program_run("%s", arguments);
    char expected[512];
    snprintf(expected, sizeof expected, "%s: %s\n", server_name(), complaint);
    cr_assert(!result.started, "`%s`: expected exit status 2, but the server serves", arguments);
    cr_assert_eq(result.exit_status, 2,
                 "`%s`: expected exit status 2, got %d; its standard error: %s", arguments,
                 result.exit_status, result.err);
    cr_assert_str_eq(result.err, expected, "`%s`: standard error should be `%s`, and is `%s`",
                     arguments, expected, result.err);
    cr_assert_str_empty(result.out, "`%s`: nothing belongs on standard output; it has: %s",
                        arguments, result.out);
}

Test(usage, unknown_option)
{
    expect_refused("--nonsense", "--nonsense: unknown option (see --help)");
    expect_refused("--nonsense 5", "--nonsense: unknown option (see --help)");
    expect_refused("--max-lines 5", "--max-lines: unknown option (see --help)");
}

Test(usage, missing_value)
{
    expect_refused("--port", "--port: needs a value: N");
    expect_refused("--max-line 100 --bind", "--bind: needs a value: ADDR");
}

Test(usage, extra_argument)
{
    expect_refused("x", "x: unexpected argument (see --help)");
    expect_refused("--port 0 7002", "7002: unexpected argument (see --help)");
}

Test(usage, bad_port)
{
    static const char *const bad[] = {
        "70000", "65536", "-1", "notaport", "12x", "0x50", "1e3", "+80", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char arguments[64];
        char complaint[128];
        snprintf(arguments, sizeof arguments, "--port %s", bad[i]);
        snprintf(complaint, sizeof complaint, "--port: expected a port number, got '%s'", bad[i]);
        expect_refused(arguments, complaint);
    }
    expect_refused("--port=", "--port: expected a port number, got ''");
}

Test(usage, bad_numbers)
{
    expect_refused("--max-line x", "--max-line: expected a number from 1 to 1073741824, got 'x'");
    expect_refused("--max-line=0", "--max-line: expected a number from 1 to 1073741824, got '0'");
    expect_refused("--max-line=", "--max-line: expected a number from 1 to 1073741824, got ''");
    expect_refused("--max-line 1073741825",
                   "--max-line: expected a number from 1 to 1073741824, got '1073741825'");
    expect_refused("--max-line -5", "--max-line: expected a number from 1 to 1073741824, got '-5'");
    expect_refused("--max-line 12k",
                   "--max-line: expected a number from 1 to 1073741824, got '12k'");
    expect_refused(
        "--max-line 18446744073709551617",
        "--max-line: expected a number from 1 to 1073741824, got '18446744073709551617'");
}

/* With a sanitizer one value for each option has to do, here and below: a start costs many times as
 * much, and what reads values is tried with all of them in common/. */
Test(usage, bad_seconds)
{
    static const char *const timeouts[] = {"--idle-timeout", "--request-timeout", "--lifetime",
                                           "--progress-timeout", "--drain-timeout"};
    static const char *const bad[] = {"x", "-1", "1s", "nan", "inf", "1.2.3", "."};
    for (size_t i = 0; i < sizeof timeouts / sizeof *timeouts; i++) {
        for (size_t j = 0; j < (probe_sanitized() ? 1 : sizeof bad / sizeof *bad); j++) {
            char arguments[64];
            char complaint[128];
            snprintf(arguments, sizeof arguments, "%s %s", timeouts[i], bad[j]);
            snprintf(complaint, sizeof complaint, "%s: expected a number of seconds, got '%s'",
                     timeouts[i], bad[j]);
            expect_refused(arguments, complaint);
        }
    }
    expect_refused("--idle-timeout=", "--idle-timeout: expected a number of seconds, got ''");
}

Test(usage, bad_choices)
{
    expect_refused("--overload x",
                   "--overload: expected one of reject, wait, redirect=HOST:PORT, got 'x'");
    expect_refused("--overload redirect=",
                   "--overload: expected one of reject, wait, redirect=HOST:PORT, got 'redirect='");
    expect_refused("--overload=",
                   "--overload: expected one of reject, wait, redirect=HOST:PORT, got ''");
    expect_refused("--log loud", "--log: expected one of error, warn, info, debug, got 'loud'");
    expect_refused("--log=", "--log: expected one of error, warn, info, debug, got ''");
}

Test(usage, bad_address)
{
    expect_refused("--bind=", "--bind: expected an IP address, got ''");
    expect_refused("--bind x", "--bind: expected an IP address, got 'x'");
    expect_refused("--bind 127.0.0.256", "--bind: expected an IP address, got '127.0.0.256'");
    expect_refused("--bind 127.0.0.1:80", "--bind: expected an IP address, got '127.0.0.1:80'");
}

/* Copies the next option at or behind a place, or returns NULL. */
static const char *next_option(const char *at, char option[64])
{
    while ((at = strstr(at, "--")) != NULL) {
        size_t length = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (length > 0 && length < 60) {
            snprintf(option, 64, "%.*s", (int)length + 2, at);
            return at + 2 + length;
        }
        at += 2;
    }
    return NULL;
}

static bool names(const char *text, const char *option)
{
    char other[64];
    while ((text = next_option(text, other)) != NULL) {
        if (strcmp(other, option) == 0) {
            return true;
        }
    }
    return false;
}

/* What is written down here is about our servers, and not about one that is graded. */
static bool is_ours(void)
{
    return strncmp(server_name(), "stage", 5) == 0;
}

/* README.md has a table of the options that all stages share, in rows that begin with "| `--". */
Test(usage, help_lists_every_option)
{
    char line[1024], option[64];
    int rows = 0;
    struct program_result result = program_run("--help");
    cr_assert_eq(result.exit_status, 0, "--help should exit with 0, and exits with %d: %s",
                 result.exit_status, result.err);
    cr_assert_str_empty(result.err, "--help belongs on standard output; standard error has: %s",
                        result.err);
    cr_assert(names(result.out, "--port"), "--help does not list --port; it prints: %s",
              result.out);
    if (!is_ours()) {
        return;
    }
    FILE *readme = fopen("README.md", "re");
    cr_assert_not_null(readme, "the tests run where README.md is");
    while (fgets(line, sizeof line, readme)) {
        bool row = strncmp(line, "| `--", 5) == 0;
        rows += row;
        for (const char *at = line; row && (at = next_option(at, option)) != NULL;) {
            cr_assert(names(result.out, option),
                      "README.md has %s in its table, and --help does not list it; it prints: %s",
                      option, result.out);
        }
    }
    fclose(readme);
    cr_assert_gt(rows, 4, "README.md has no table of options any more");
    cr_assert(strstr(result.out, "65536") && strstr(result.out, "127.0.0.1"),
              "--help should tell the defaults; it prints: %s", result.out);
}

/* An option that --help lists is told somewhere: in README.md, or on a page. */
Test(usage, every_option_of_help_is_on_a_page)
{
    static char page[1 << 20];
    char option[64];
    glob_t pages;
    if (!is_ours()) {
        return;
    }
    struct program_result result = program_run("--help");
    cr_assert_eq(glob("README.md", 0, NULL, &pages), 0, "the tests run where README.md is");
    glob("docs/*.md", GLOB_APPEND, NULL, &pages);
    for (const char *at = result.out; (at = next_option(at, option)) != NULL;) {
        bool told = false;
        for (size_t i = 0; i < pages.gl_pathc && !told; i++) {
            FILE *file = fopen(pages.gl_pathv[i], "re");
            page[file != NULL ? fread(page, 1, sizeof page - 1, file) : 0] = '\0';
            told = names(page, option);
            if (file != NULL) {
                fclose(file);
            }
        }
        cr_assert(told, "--help lists %s, and no page tells of it", option);
    }
    globfree(&pages);
}

/* ---- each option that --help lists ---- */

/** Expects that a value is refused: exit status 2, and one line that names option and value. */
static void expect_value_refused(const char *option, const char *value)
{
    struct program_result result = program_run("%s=%s", option, value);
    char start[256], end[256];
    snprintf(start, sizeof start, "%s: %s: expected ", server_name(), option);
    snprintf(end, sizeof end, ", got '%s'\n", value);
    const char *got = strstr(result.err, end);
    cr_assert(result.exit_status == 2 && strncmp(result.err, start, strlen(start)) == 0 &&
                  got != NULL && strchr(result.err, '\n') == got + strlen(end) - 1 && !*result.out,
              "`%s=%s`: expected exit status 2 and a line `%s...%s`, got %d and `%s`", option,
              value, start, end, result.exit_status, result.err);
}

/** What no option takes whose value has that name in --help; the list ends with NULL. */
static const char *const *values_refused(const char *option, const char *metavariable)
{
    static const char *const numbers[] = {"", "x", "-1", "12k", "18446744073709551617", NULL};
    static const char *const seconds[] = {"", "x", "-1", "1s", "nan", "1.2.3", NULL};
    static const char *const others[] = {"", ":", NULL};
    static const char *const any[] = {"TEXT", "FILE", "DIR", "KEYFILE", NULL};
    for (int i = 0; any[i] != NULL; i++) {
        if (strcmp(metavariable, any[i]) == 0 || strcmp(option, "--broker-name") == 0) {
            return any + 4;
        }
    }
    if (strcmp(metavariable, "SEC") == 0) {
        return seconds;
    }
    return strchr("NBUM", metavariable[0]) && strcmp(metavariable, "NAME") != 0 &&
                   strcmp(metavariable, "NETWORKS") != 0
               ? numbers
               : others;
}

Test(usage, each_option_refuses_what_it_does_not_take)
{
    char option[64], metavariable[64], arguments[128], complaint[256];
    int options = 0;
    if (!is_ours()) {
        return;
    }
    struct program_result help = program_run("--help");
    for (const char *line = help.out; (line = strstr(line, "\n  --")) != NULL; line++) {
        int parts = sscanf(line, " %63s%*1[ ]%63[A-Z:]", option, metavariable);
        options++;
        if (parts == 2) {
            snprintf(complaint, sizeof complaint, "%s: needs a value: %s", option, metavariable);
            expect_refused(option, complaint);
            const char *const *bad = values_refused(option, metavariable);
            for (int i = 0; bad[i] != NULL && (i == 0 || !probe_sanitized()); i++) {
                expect_value_refused(option, bad[i]);
            }
        } else if (strcmp(option, "--help") != 0 && strcmp(option, "--version") != 0) {
            snprintf(arguments, sizeof arguments, "%s=yes", option);
            snprintf(complaint, sizeof complaint, "%s: takes no value", option);
            expect_refused(arguments, complaint);
        }
    }
    cr_assert_gt(options, 20, "--help lists %d options: %s", options, help.out);
}

/* Only stage 5 can do without: there a dispatcher runs handlers itself. */
Test(usage, stages_3_and_4_want_a_worker)
{
    if (is_ours() && strchr("34", server_name()[strlen("stage")]) != NULL) {
        expect_refused("--workers 0", "--workers: expected a number from 1 to 10000, got '0'");
    }
}

Test(usage, help_tells_the_defaults)
{
    char port[] = "7000", processors[24];
    if (!is_ours()) {
        return;
    }
    port[3] = server_name()[strlen("stage")];
    bool later = port[3] >= '4';
    const char *const defaults[][2] = {
        {"--port ", port},
        {"--app ", "echo"},
        {"--idle-timeout ", later ? "60" : "0"},
        {"--lifetime ", "0"},
        {"--overload ", "reject"},
        {"--request-timeout ", later ? "30" : "0"},
        {"--queue ", "unbounded"},
        {"--saturation ", "abort"},
        {"--guard ", "lock"},
        {"--suspicious ", "none"},
        {"--throttle ", "5"},
        {"--dispatchers ", processors},
    };
    snprintf(processors, sizeof processors, "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    struct program_result help = program_run("--help");
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++) {
        char wanted[32];
        const char *line = strstr(help.out, defaults[i][0]);
        snprintf(wanted, sizeof wanted, "[%s]\n", defaults[i][1]);
        if (line != NULL || i < 6) { /* the others are not in all stages */
            cr_assert(line != NULL &&
                          strstr(line, wanted) == strchr(line, '\n') + 1 - strlen(wanted),
                      "the default of %sis not %s: %s", defaults[i][0], defaults[i][1], help.out);
        }
    }
}

Test(usage, version)
{
    struct program_result result = program_run("--version");
    cr_assert_eq(result.exit_status, 0, "--version should exit with 0, and exits with %d: %s",
                 result.exit_status, result.err);
    cr_assert(strncmp(result.out, server_name(), strlen(server_name())) == 0,
              "--version should print the program's name first; it prints: `%s`", result.out);
    cr_assert_str_empty(result.err, "--version belongs on standard output; standard error has: %s",
                        result.err);
}

Test(usage, help_wins_over_an_error_behind_it)
{
    struct program_result result = program_run("--help --nonsense");
    cr_assert_eq(result.exit_status, 0,
                 "`--help --nonsense` should exit with 0, and exits with %d: %s",
                 result.exit_status, result.err);
    result = program_run("--port 0 --version x");
    cr_assert_eq(result.exit_status, 0,
                 "`--port 0 --version x` should exit with 0, and exits with %d: %s",
                 result.exit_status, result.err);
    expect_refused("--nonsense --help", "--nonsense: unknown option (see --help)");
}
