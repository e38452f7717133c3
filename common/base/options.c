#include "common/base/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The Makefile says the version, without quotes. */
#define TEXT_OF(number) #number
#define TEXT(macro)     TEXT_OF(macro)

enum {
    USAGE_ERROR = 2,
    MAX_SECONDS = 2000000, /* 23 days; in milliseconds they fit in 31 bits (deadlines.h) */
};

void options_init(struct options *options, const char *program, const char *summary)
{
    *options =
        (struct options){.program = program, .summary = summary, .version = TEXT(COURSE_VERSION)};
}

/* One line on standard error; the status to exit with. */
static int usage_error(const struct options *options, const char *what, const char *why,
                       const char *detail)
{
    fprintf(stderr, "%s: %s: %s%s\n", options->program, what, why, detail);
    return USAGE_ERROR;
}

void options_add(struct options *options, struct option option)
{
    const char *fault =
        options->count == OPTIONS_MAX ? "expected at most OPTIONS_MAX options, got one more"
        : options_look_for(options, option.name) != NULL ? "expected one of that name, got two"
        : option.value != NULL && (option.parse == NULL || option.default_text == NULL)
            ? "expected a parse and a default_text beside its value, got less"
            : NULL;
    if (fault == NULL)
        options->table[options->count++] = option;
    else if (!options->is_faulty)
        options->is_faulty = usage_error(options, option.name, fault, "") != 0;
}

static void print_help(const struct options *options)
{
    printf("usage: %s [options]\n\n%s\n\noptions:\n", options->program, options->summary);
    for (size_t i = 0; i < options->count; i++) {
        const struct option *option = &options->table[i];
        char usage[64];
        snprintf(usage, sizeof(usage), "%s %s", option->name,
                 option->value != NULL ? option->value : "");
        printf("  %-28s %s", usage, option->help);
        if (option->default_text != NULL)
            printf(" [%s]", option->default_text);
        printf("\n");
    }
    printf("  %-28s print this and exit\n", "--help");
    printf("  %-28s print the version and exit\n", "--version");
}

static int bad_value(const struct options *options, const struct option *option, const char *text)
{
    fprintf(stderr, "%s: %s: expected ", options->program, option->name);
    if (option->parse == option_parse_number)
        fprintf(stderr, "a number from %zu to %zu", option->min, option->max);
    else
        fprintf(stderr, "%s", option->expects);
    fprintf(stderr, ", got '%s'\n", text);
    return USAGE_ERROR;
}

/* The option that an argument names, up to its end or to the equals sign. */
static struct option *find(struct options *options, const char *argument, size_t length)
{
    for (size_t i = 0; i < options->count; i++) {
        struct option *option = &options->table[i];
        if (strlen(option->name) == length && memcmp(option->name, argument, length) == 0)
            return option;
    }
    return NULL;
}

struct option *options_look_for(struct options *options, const char *name)
{
    return find(options, name, strlen(name));
}

struct option *options_find(struct options *options, const char *name)
{
    struct option *option = options_look_for(options, name);
    assert(option != NULL);
    return option;
}

void options_set_default(struct options *options, const char *name, const char *default_text)
{
    options_find(options, name)->default_text = default_text;
}

bool options_set_if_absent(struct options *options, const char *name, const char *default_text)
{
    const struct option *option = options_look_for(options, name);
    if (option == NULL || option->given)
        return true;
    return option->parse != NULL && default_text != NULL && option->parse(option, default_text);
}

/* Reads the option at argv[*i] and moves *i past it. */
static int parse_one(struct options *options, int argc, char **argv, int *i)
{
    const char *argument = argv[(*i)++];
    if (strncmp(argument, "--", 2) != 0)
        return usage_error(options, argument, "unexpected argument (see --help)", "");

    size_t length = strcspn(argument, "=");
    struct option *option = find(options, argument, length);
    const char *text = argument[length] == '=' ? argument + length + 1 : NULL;
    if (option == NULL)
        return usage_error(options, argument, "unknown option (see --help)", "");
    option->given = true;

    if (option->value == NULL) {
        if (text != NULL)
            return usage_error(options, option->name, "takes no value", "");
        *(bool *)option->target = true;
        return OPTIONS_SERVE;
    }
    if (text == NULL && *i == argc)
        return usage_error(options, option->name, "needs a value: ", option->value);
    if (text == NULL)
        text = argv[(*i)++];
    return option->parse(option, text) ? OPTIONS_SERVE : bad_value(options, option, text);
}

static void set_defaults(struct options *options)
{
    for (size_t i = 0; i < options->count; i++) {
        struct option *option = &options->table[i];
        if (option->value == NULL) {
            *(bool *)option->target = false;
            continue;
        }
        bool good = option->parse(option, option->default_text);
        assert(good);
        (void)good;
    }
}

int options_parse(struct options *options, int argc, char **argv)
{
    if (options->is_faulty)
        return EXIT_FAILURE;
    set_defaults(options);
    for (int i = 1; i < argc;) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(options);
            return EXIT_SUCCESS;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %s\n", options->program, options->version);
            return EXIT_SUCCESS;
        }
        int status = parse_one(options, argc, argv, &i);
        if (status != OPTIONS_SERVE)
            return status;
    }
    return OPTIONS_SERVE;
}

/* Digits only: no sign, no space, nothing behind them; false past max. */
static bool parse_digits(const char *text, uint64_t max, uint64_t *number)
{
    *number = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        uint64_t digit = (uint64_t)(*text - '0');
        if (digit > max || *number > (max - digit) / 10)
            return false;
        *number = *number * 10 + digit;
    }
    return *number <= max;
}

bool option_parse_number(const struct option *option, const char *text)
{
    uint64_t number;
    if (!parse_digits(text, option->max, &number) || number < option->min)
        return false;
    *(size_t *)option->target = (size_t)number;
    return true;
}

bool option_parse_port(const struct option *option, const char *text)
{
    uint64_t port;
    if (!parse_digits(text, 65535, &port))
        return false;
    *(size_t *)option->target = (size_t)port;
    return true;
}

/* Up to three decimals count; milliseconds are all that the clocks here tell. */
bool option_parse_seconds(const struct option *option, const char *text)
{
    char whole[16];
    size_t length = strcspn(text, ".");
    if (length >= sizeof(whole))
        return false;
    memcpy(whole, text, length);
    whole[length] = '\0';

    uint64_t seconds;
    uint64_t milliseconds = 0;
    if (!parse_digits(whole, MAX_SECONDS, &seconds))
        return false;
    if (text[length] == '.') {
        const char *decimals = text + length + 1;
        size_t places = strlen(decimals);
        if (places > 3 || !parse_digits(decimals, 999, &milliseconds))
            return false;
        for (; places < 3; places++)
            milliseconds *= 10;
    }
    *(int64_t *)option->target = (int64_t)(seconds * 1000 + milliseconds);
    return true;
}
