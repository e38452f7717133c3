/*
 * The option table against another way to read the same text.
 *
 * The input is a command line, a line for each argument. The reference goes through it with the
 * rules of the issue in mind and nothing of the table's code: numbers are compared as text, so that
 * none can overflow.
 */
#include "fuzz.h"

#include "common/server/server.h"

#include <string.h>

enum {
    ARGUMENTS_MOST = 32,
    TEXT_MOST = 4096,
};

/* What the table is to fill in, and what the reference has found. */
struct values {
    size_t number;
    size_t port;
    int64_t milliseconds;
    bool flag;
};

static bool is_digits(const char *text)
{
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* Whether digits are at most those of a limit: no leading zeros, then the longer one is more. */
static bool is_at_most(const char *digits, const char *limit)
{
    digits += strspn(digits, "0");
    size_t length = strlen(digits);
    return length < strlen(limit) || (length == strlen(limit) && strcmp(digits, limit) <= 0);
}

static uint64_t value_of(const char *digits)
{
    uint64_t value = 0;
    for (; *digits != '\0'; digits++) {
        value = value * 10 + (uint64_t)(*digits - '0');
    }
    return value;
}

static bool read_number(const char *text, const char *most, uint64_t least, uint64_t *value)
{
    if (!is_digits(text) || !is_at_most(text, most) || value_of(text) < least) {
        return false;
    }
    *value = value_of(text);
    return true;
}

/* Whole seconds, and up to three decimals. */
static bool read_seconds(const char *text, int64_t *milliseconds)
{
    char whole[TEXT_MOST];
    char decimals[4] = "000";
    snprintf(whole, sizeof whole, "%s", text);
    char *point = strchr(whole, '.');
    if (point != NULL) {
        *point = '\0';
        size_t places = strlen(point + 1);
        if (places > 3 || !is_digits(point + 1)) {
            return false;
        }
        memcpy(decimals, point + 1, places);
    }
    if (strlen(whole) > 15 || !is_digits(whole) || !is_at_most(whole, "2000000")) {
        return false;
    }
    *milliseconds = (int64_t)(value_of(whole) * 1000 + value_of(decimals));
    return true;
}

static bool read_value(struct values *values, const char *name, const char *text)
{
    if (strcmp(name, "--number") == 0) {
        return read_number(text, "1000", 3, &values->number);
    }
    if (strcmp(name, "--big") == 0) {
        size_t any;
        return read_number(text, "18446744073709551615", 0, &any);
    }
    if (strcmp(name, "--port") == 0) {
        return read_number(text, "65535", 0, &values->port);
    }
    return read_seconds(text, &values->milliseconds);
}

/* OPTIONS_SERVE, or the exit status. */
static int reference(struct values *values, int argc, char **argv)
{
    static const char *const with_value[] = {"--number", "--big", "--port", "--seconds"};
    for (int i = 1; i < argc; i++) {
        char name[TEXT_MOST];
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "--version") == 0) {
            return 0;
        }
        snprintf(name, sizeof name, "%s", argv[i]);
        char *equals = strchr(name, '=');
        if (equals != NULL) {
            *equals = '\0';
        }
        bool known = false;
        for (size_t k = 0; k < sizeof with_value / sizeof with_value[0]; k++) {
            known = known || strcmp(name, with_value[k]) == 0;
        }
        if (known) {
            const char *text = equals != NULL ? equals + 1 : ++i < argc ? argv[i] : NULL;
            if (text == NULL || !read_value(values, name, text)) {
                return 2;
            }
        } else if (strcmp(name, "--flag") == 0 && equals == NULL) {
            values->flag = true;
        } else {
            return 2;
        }
    }
    return OPTIONS_SERVE;
}

static int parse(struct values *values, int argc, char **argv)
{
    static struct options options;
    static size_t big;
    options_init(&options, "fuzz", "A table.");
    options_add(&options, (struct option){.name = "--number",
                                          .value = "N",
                                          .default_text = "5",
                                          .help = "a number",
                                          .parse = option_parse_number,
                                          .target = &values->number,
                                          .min = 3,
                                          .max = 1000});
    options_add(&options, (struct option){.name = "--big",
                                          .value = "N",
                                          .default_text = "0",
                                          .help = "any number there is",
                                          .parse = option_parse_number,
                                          .target = &big,
                                          .max = UINT64_MAX});
    options_add(&options, (struct option){.name = "--port",
                                          .value = "N",
                                          .default_text = "80",
                                          .help = "a port",
                                          .expects = "a port number",
                                          .parse = option_parse_port,
                                          .target = &values->port});
    options_add(&options, (struct option){.name = "--seconds",
                                          .value = "SEC",
                                          .default_text = "1.5",
                                          .help = "a time",
                                          .expects = "a number of seconds",
                                          .parse = option_parse_seconds,
                                          .target = &values->milliseconds});
    options_add(&options,
                (struct option){.name = "--flag", .help = "a flag", .target = &values->flag});
    return options_parse(&options, argc, argv);
}

/* A line for each argument, in text, behind the program's name. */
static int split(char *text, char **argv)
{
    static char program[] = "fuzz";
    int argc = 0;
    argv[argc++] = program;
    while (text != NULL && argc < ARGUMENTS_MOST) {
        argv[argc++] = strsep(&text, "\n");
    }
    argv[argc] = NULL;
    return argc;
}

/* What all servers share: any text is taken or refused, and what is taken is in its limits. */
static void parse_server(int argc, char **argv)
{
    static struct options options;
    static struct server_settings settings;
    options_init(&options, "fuzz", "A server.");
    server_options(&options, &settings, "7000");
    int status = options_parse(&options, argc, argv);
    fuzz_check(status == OPTIONS_SERVE || status == 0 || status == 2, "%d", status);
    if (status != OPTIONS_SERVE) {
        return;
    }
    fuzz_check(settings.port <= 65535, "ports");
    fuzz_check(settings.max_line >= 1 && settings.max_line <= 1 << 30, "--max-line");
    size_t length = strlen(settings.turn_away);
    fuzz_check(length > 0 && strchr(settings.turn_away, '\n') == settings.turn_away + length - 1,
               "what is told is not one line: %s", settings.turn_away);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_MOST];
    char *argv[ARGUMENTS_MOST + 1];
    if (size == 0 || size >= sizeof text) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    int argc = split(text, argv);
    if (data[0] % 2 != 0) {
        parse_server(argc, argv);
        return 0;
    }
    struct values expected = {.number = 5, .port = 80, .milliseconds = 1500};
    struct values values = {0};
    int wanted = reference(&expected, argc, argv);
    int status = parse(&values, argc, argv);
    fuzz_check(status == wanted, "status %d, expected %d", status, wanted);
    if (status == OPTIONS_SERVE) {
        fuzz_check(values.number == expected.number, "--number");
        fuzz_check(values.port == expected.port, "--port");
        fuzz_check(values.milliseconds == expected.milliseconds, "--seconds");
        fuzz_check(values.flag == expected.flag, "--flag");
    }
    return 0;
}
