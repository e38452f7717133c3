/*
 * The command line: each reader, each way to write an option, and the exact texts of the errors.
 */
#include "common/base/options.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(options, .timeout = 120);

/* A table with one option of each kind. */
static struct {
    size_t port;
    size_t count;
    size_t anything;
    int64_t timeout;
    bool flag;
    bool other_flag;
    char colour[16];
} got;

static bool parse_colour(const struct option *option, const char *text)
{
    if (strcmp(text, "red") != 0 && strcmp(text, "green") != 0)
        return false;
    snprintf(option->target, sizeof(got.colour), "%s", text);
    return true;
}

static struct options the_options(void)
{
    static const struct option table[] = {
        {.name = "--port",
         .value = "N",
         .default_text = "7000",
         .help = "where to listen",
         .expects = "a port number",
         .parse = option_parse_port,
         .target = &got.port},
        {.name = "--count",
         .value = "MANY",
         .default_text = "10",
         .help = "how many",
         .parse = option_parse_number,
         .target = &got.count,
         .min = 5,
         .max = 30},
        {.name = "--anything",
         .value = "N",
         .default_text = "0",
         .help = "any number",
         .parse = option_parse_number,
         .target = &got.anything,
         .max = UINT64_MAX},
        {.name = "--timeout",
         .value = "SEC",
         .default_text = "0.5",
         .help = "how long",
         .expects = "a number of seconds",
         .parse = option_parse_seconds,
         .target = &got.timeout},
        {.name = "--colour",
         .value = "NAME",
         .default_text = "green",
         .help = "how it looks",
         .expects = "one of red, green",
         .parse = parse_colour,
         .target = got.colour},
        {.name = "--flag", .help = "yes or no", .target = &got.flag},
        {.name = "--flags", .help = "another one", .target = &got.other_flag},
    };
    struct options options;
    options_init(&options, "prog", "what it is");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        options_add(&options, table[i]);
    return options;
}

/* What a parse printed, and what it returned. */
static struct {
    int status;
    char out[4096];
    char err[4096];
} parsed;

/* Parses a command line of words that a single space separates; two in a row are an empty word. */
static int parse(const char *command_line)
{
    static char words[1024];
    char *argv[64] = {"prog"};
    int argc = 1;
    struct options options = the_options();
    struct capture out;
    snprintf(words, sizeof(words), "%s", command_line);
    char *rest = words;
    while (*command_line != '\0' && (argv[argc] = strsep(&rest, " ")) != NULL)
        argc++;
    memset(&got, 0xff, sizeof(got));
    capture_start(&out, STDOUT_FILENO);
    CAPTURED(STDERR_FILENO, parsed.err, parsed.status = options_parse(&options, argc, argv));
    capture_stop(&out, parsed.out, sizeof(parsed.out));
    return parsed.status;
}

static void accepts(const char *command_line)
{
    cr_assert_eq(parse(command_line), OPTIONS_SERVE, "%s: %s", command_line, parsed.err);
    cr_assert_str_eq(parsed.out, "", "%s", command_line);
    cr_assert_str_eq(parsed.err, "", "%s", command_line);
}

/* Bad usage: status 2 and exactly this one line. */
static void refuses(const char *command_line, const char *text)
{
    char line[1024];
    snprintf(line, sizeof(line), "%s\n", text);
    cr_assert_eq(parse(command_line), 2, "%s: status %d", command_line, parsed.status);
    cr_assert_str_eq(parsed.err, line, "%s: %s", command_line, parsed.err);
    cr_assert_str_eq(parsed.out, "", "%s", command_line);
}

/* Each of the values, of an option that expects something else. */
static void refuses_each(const char *option, const char *const values[], size_t count,
                         const char *expected)
{
    for (size_t i = 0; i < count; i++) {
        char command_line[64];
        char text[128];
        snprintf(command_line, sizeof(command_line), "%s=%s", option, values[i]);
        snprintf(text, sizeof(text), "prog: %s: expected %s, got '%s'", option, expected,
                 values[i]);
        refuses(command_line, text);
    }
}

/* ---- the command line ---- */

Test(options, what_is_not_given_has_its_default)
{
    accepts("");
    cr_assert_eq(got.port, 7000);
    cr_assert_eq(got.count, 10);
    cr_assert_eq(got.anything, 0);
    cr_assert_eq(got.timeout, 500);
    cr_assert_str_eq(got.colour, "green");
    cr_assert_eq(got.flag, false);
    cr_assert_eq(got.other_flag, false);
}

Test(options, a_default_can_be_replaced_by_another)
{
    struct options options = the_options();
    char *argv[] = {"prog"};
    options_set_default(&options, "--count", "20");
    cr_assert_eq(options_parse(&options, 1, argv), OPTIONS_SERVE);
    cr_assert_eq(got.count, 20);
    cr_assert_eq(got.port, 7000, "and the others stay");
}

Test(options, a_value_is_the_next_word_or_stands_behind_an_equals_sign)
{
    accepts("--port 1 --count=7 --colour red --timeout=2 --flag");
    cr_assert_eq(got.port, 1);
    cr_assert_eq(got.count, 7);
    cr_assert_str_eq(got.colour, "red");
    cr_assert_eq(got.timeout, 2000);
    cr_assert(got.flag);
    cr_assert_not(got.other_flag);
}

Test(options, the_last_of_several_wins)
{
    accepts("--port 1 --port=2 --port 3");
    cr_assert_eq(got.port, 3);
    accepts("--port=3 --count 5 --port 1");
    cr_assert_eq(got.port, 1);
    accepts("--flag --flag");
    cr_assert(got.flag);
}

Test(options, a_name_is_taken_whole)
{
    accepts("--flags");
    cr_assert(got.other_flag);
    cr_assert_not(got.flag);
    refuses("--fla", "prog: --fla: unknown option (see --help)");
    refuses("--flagss", "prog: --flagss: unknown option (see --help)");
    refuses("--por 1", "prog: --por: unknown option (see --help)");
    refuses("--ports 1", "prog: --ports: unknown option (see --help)");
    refuses("--PORT 1", "prog: --PORT: unknown option (see --help)");
    refuses("--", "prog: --: unknown option (see --help)");
}

Test(options, what_is_wrong_is_told_in_one_line)
{
    /* an unknown option */
    refuses("--nonsense", "prog: --nonsense: unknown option (see --help)");
    refuses("--port 1 --nonsense 2", "prog: --nonsense: unknown option (see --help)");
    /* an argument that is no option */
    refuses("x", "prog: x: unexpected argument (see --help)");
    refuses("--flag x", "prog: x: unexpected argument (see --help)");
    refuses("--port 1 2", "prog: 2: unexpected argument (see --help)");
    refuses("-p 1", "prog: -p: unexpected argument (see --help)");
    refuses("-", "prog: -: unexpected argument (see --help)");
    refuses("--flag ", "prog: : unexpected argument (see --help)");
    /* a missing value */
    refuses("--port", "prog: --port: needs a value: N");
    refuses("--flag --timeout", "prog: --timeout: needs a value: SEC");
    refuses("--colour=red --count", "prog: --count: needs a value: MANY");
    /* an empty one */
    refuses("--port=", "prog: --port: expected a port number, got ''");
    refuses("--port ", "prog: --port: expected a port number, got ''");
    refuses("--count=", "prog: --count: expected a number from 5 to 30, got ''");
    refuses("--timeout=", "prog: --timeout: expected a number of seconds, got ''");
    refuses("--colour=", "prog: --colour: expected one of red, green, got ''");
    /* a flag has none */
    refuses("--flag=yes", "prog: --flag: takes no value");
    refuses("--flag=", "prog: --flag: takes no value");
    /* a value may look like an option, or hold an equals sign */
    refuses("--port --flag", "prog: --port: expected a port number, got '--flag'");
    refuses("--colour=red=green", "prog: --colour: expected one of red, green, got 'red=green'");
    refuses("--colour =red", "prog: --colour: expected one of red, green, got '=red'");
    /* the first error is told, and only that */
    refuses("--port x --count y --nonsense", "prog: --port: expected a port number, got 'x'");
    /* also if a good one follows */
    refuses("--port x --port 1", "prog: --port: expected a port number, got 'x'");
}

/* ---- numbers ---- */

Test(options, a_port_is_a_number_from_0_to_65535)
{
    static const char *const bad[] = {"65536", "70000", "notaport", "-1"};
    accepts("--port 0");
    cr_assert_eq(got.port, 0);
    accepts("--port 65535");
    cr_assert_eq(got.port, 65535);
    accepts("--port 007002");
    cr_assert_eq(got.port, 7002);
    refuses_each("--port", bad, sizeof(bad) / sizeof(bad[0]), "a port number");
}

Test(options, a_number_lies_between_its_limits)
{
    static const char *const bad[] = {"4", "31", "40", "100", "0"};
    accepts("--count 5");
    cr_assert_eq(got.count, 5);
    accepts("--count 30");
    cr_assert_eq(got.count, 30);
    refuses_each("--count", bad, sizeof(bad) / sizeof(bad[0]), "a number from 5 to 30");
}

Test(options, a_number_is_digits_and_nothing_else)
{
    static const char *const bad[] = {"+6",  "-6",   "\t6", "6\n", "6x", "x6",  "0x6",
                                      "6.0", "6,0",  "6e0", "six", ".",  "--6", "6-",
                                      "\v6", "\xb2", "1_0", "6\t", "'6'"};
    refuses_each("--count", bad, sizeof(bad) / sizeof(bad[0]), "a number from 5 to 30");
}

Test(options, the_largest_number_fits_and_the_next_does_not)
{
    accepts("--anything 18446744073709551615");
    cr_assert_eq(got.anything, UINT64_MAX);
    accepts("--anything 0000000000000000000000000000018446744073709551615");
    cr_assert_eq(got.anything, UINT64_MAX);
    static const char *const past[] = {"18446744073709551616",  "18446744073709551620",
                                       "18446744073709551625",  "99999999999999999999",
                                       "184467440737095516150", "36893488147419103232"};
    refuses_each("--anything", past, sizeof(past) / sizeof(past[0]),
                 "a number from 0 to 18446744073709551615");
    refuses("--port 18446744073709551615",
            "prog: --port: expected a port number, got '18446744073709551615'");
    refuses("--port 18446744073709551616",
            "prog: --port: expected a port number, got '18446744073709551616'");
    refuses("--count 18446744073709551626",
            "prog: --count: expected a number from 5 to 30, got '18446744073709551626'");
}

/* ---- seconds ---- */

Test(options, seconds_may_have_decimals)
{
    static const struct {
        const char *text;
        int64_t milliseconds;
    } good[] = {
        {"0", 0},
        {"1", 1000},
        {"0.5", 500},
        {"0.25", 250},
        {"0.001", 1},
        {"1.010", 1010},
        {"12.3", 12300},
        {"0.0", 0},
        {"007.5", 7500},
        {"60", 60000},
        {"2000000", 2000000000},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char command_line[64];
        snprintf(command_line, sizeof(command_line), "--timeout %s", good[i].text);
        accepts(command_line);
        cr_assert_eq(got.timeout, good[i].milliseconds, "%s: %lld ms", good[i].text,
                     (long long)got.timeout);
    }
}

Test(options, seconds_are_a_number)
{
    static const char *const bad[] = {"x",
                                      "-1",
                                      ".5",
                                      "5.",
                                      "1.2.3",
                                      "1,5",
                                      "1s",
                                      "+1",
                                      "1e3",
                                      "100000001",
                                      ".",
                                      "1.x",
                                      "inf",
                                      "nan",
                                      "0x1",
                                      "1.-5",
                                      "-0.5",
                                      "1.+5",
                                      "\t1",
                                      "1.\t5",
                                      "2000001",
                                      "99999999999999999999",
                                      "18446744073709552"};
    refuses_each("--timeout", bad, sizeof(bad) / sizeof(bad[0]), "a number of seconds");
}

/* ---- help and version ---- */

Test(options, help_lists_every_option_with_its_default)
{
    static const char *const rows[][3] = {
        {"  --port N ", "where to listen", "[7000]"},
        {"  --count MANY ", "how many", "[10]"},
        {"  --anything N ", "any number", "[0]"},
        {"  --timeout SEC ", "how long", "[0.5]"},
        {"  --colour NAME ", "how it looks", "[green]"},
        {"  --flag ", "yes or no", ""},
        {"  --flags ", "another one", ""},
        {"  --help ", "", ""},
        {"  --version ", "", ""},
    };
    cr_assert_eq(parse("--help"), 0);
    cr_assert_str_eq(parsed.err, "");
    cr_assert_eq(strncmp(parsed.out, "usage: prog [options]\n", 22), 0, "%s", parsed.out);
    cr_assert_not_null(strstr(parsed.out, "what it is"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char line[256];
        const char *row = strstr(parsed.out, rows[i][0]);
        cr_assert_not_null(row, "no \"%s\" in:\n%s", rows[i][0], parsed.out);
        snprintf(line, sizeof(line), "%.*s", (int)strcspn(row, "\n"), row);
        cr_assert_not_null(strstr(line, rows[i][1]), "%s", line);
        cr_assert_not_null(strstr(line, rows[i][2]), "%s", line);
        cr_assert(rows[i][2][0] != '\0' || strchr(line, '[') == NULL, "no default: %s", line);
    }
}

Test(options, version_prints_the_programs_name_and_version)
{
    cr_assert_eq(parse("--version"), 0);
    cr_assert_eq(strncmp(parsed.out, "prog ", 5), 0, "%s", parsed.out);
    cr_assert_eq(strchr(parsed.out, '\n'), parsed.out + strlen(parsed.out) - 1);
    cr_assert_str_eq(parsed.err, "");
}

Test(options, help_and_version_win_over_errors_behind_them)
{
    cr_assert_eq(parse("--help --nonsense"), 0);
    cr_assert_eq(parse("--port 1 --help --port x"), 0);
    cr_assert_eq(parse("--version x"), 0);
    cr_assert_eq(parse("--help --version"), 0);
    cr_assert_eq(strncmp(parsed.out, "usage", 5), 0, "the first of the two");
    refuses("--nonsense --help", "prog: --nonsense: unknown option (see --help)");
    refuses("--port x --version", "prog: --port: expected a port number, got 'x'");
    refuses("--port --help", "prog: --port: expected a port number, got '--help'");
}

/* ---- defaults that follow from another option ---- */

Test(options, a_late_default_gives_way_to_what_the_user_typed)
{
    static const struct {
        const char *argument;
        size_t expected;
    } cases[] = {{"--flag", 20}, {"--count=10", 10}, {"--count=7", 7}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *arguments[] = {"test", (char *)cases[i].argument, NULL};
        struct options options = the_options();
        cr_assert_eq(options_parse(&options, 2, arguments), OPTIONS_SERVE);
        options_set_if_absent(&options, "--count", "20");
        cr_assert_eq(got.count, cases[i].expected, "%s: %" PRIu64, cases[i].argument, got.count);
    }
}

Test(options, a_late_default_that_the_option_does_not_take_is_refused)
{
    char *arguments[] = {"test", NULL};
    struct options options = the_options();
    cr_assert_eq(options_parse(&options, 1, arguments), OPTIONS_SERVE);
    cr_assert(options_set_if_absent(&options, "--count", "20"));
    cr_assert_not(options_set_if_absent(&options, "--count", "many"));
    cr_assert_not(options_set_if_absent(&options, "--count", NULL));
    cr_assert_not(options_set_if_absent(&options, "--flag", "20"), "it takes no value");
    cr_assert(options_set_if_absent(&options, "--of-another-stage", "20"));
    cr_assert_eq(got.count, 20);
}

/* ---- the table ---- */

/* Adds as many flags as there is room for, and some more. */
static void fill_table(struct options *options, char names[][32], size_t count)
{
    options_init(options, "prog", "what it is");
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof(names[i]), "--mine%zu", i);
        options_add(options,
                    (struct option){.name = names[i], .help = "mine", .target = &got.flag});
    }
}

Test(options, a_full_table_works_and_one_that_is_too_full_says_so)
{
    static char names[OPTIONS_MAX + 3][32];
    static char error[256];
    char text[128];
    struct options options;
    struct capture err;
    fill_table(&options, names, OPTIONS_MAX);
    char *good[] = {"prog", names[OPTIONS_MAX - 1], NULL};
    cr_assert_eq(options_parse(&options, 2, good), OPTIONS_SERVE);
    cr_assert(got.flag);
    char *argv[] = {"prog", "--help", NULL};
    capture_start(&err, STDERR_FILENO);
    fill_table(&options, names, OPTIONS_MAX + 3);
    int status = options_parse(&options, 2, argv);
    capture_stop(&err, error, sizeof(error));
    cr_assert_eq(status, 1);
    snprintf(text, sizeof(text),
             "prog: --mine%d: expected at most OPTIONS_MAX options, got one more\n", OPTIONS_MAX);
    cr_assert_str_eq(error, text);
}

static void refuses_option(struct option option, const char *text)
{
    struct options options = the_options();
    char *argv[] = {"prog", "--port", "7", NULL};
    char error[256];
    struct capture err;
    capture_start(&err, STDERR_FILENO);
    options_add(&options, option);
    int status = options_parse(&options, 3, argv);
    capture_stop(&err, error, sizeof(error));
    cr_assert_eq(status, 1);
    cr_assert_str_eq(error, text);
}

Test(options, one_that_is_there_already_is_refused)
{
    size_t mine;
    refuses_option((struct option){.name = "--port",
                                   .value = "N",
                                   .default_text = "1",
                                   .help = "mine",
                                   .parse = option_parse_port,
                                   .target = &mine},
                   "prog: --port: expected one of that name, got two\n");
}

Test(options, one_whose_value_has_no_default_or_no_parser_is_refused)
{
    static const char text[] =
        "prog: --mine: expected a parse and a default_text beside its value, got less\n";
    size_t mine;
    struct option option = {.name = "--mine", .value = "N", .help = "mine", .target = &mine};
    option.parse = option_parse_port;
    refuses_option(option, text);
    option.parse = NULL;
    option.default_text = "1";
    refuses_option(option, text);
}
