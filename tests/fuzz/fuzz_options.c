/*
 * The option table against another way to read the same text.
 *
 * The input is a command line, a line for each argument. The reference goes through it with the
 * rules of the issue in mind and nothing of the table's code: numbers are compared as text, so that
 * none can overflow. Its first byte chooses the table: one of the target's own, or one with all
 * that a user can type for a server of stage 5.
 */
#include "fuzz.h"

#include "common/apps/cipher/cipher_key.h"
#include "common/apps/log_element.h"
#include "common/apps/relay/relay_targets.h"
#include "common/apps/throttle_element.h"
#include "common/events/selector_provider.h"
#include "common/server/host_port.h"
#include "common/server/server.h"
#include "common/workers/executor_options.h"

#include <arpa/inet.h>

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

/* ---- HOST:PORT, once more ------------------------------------------------------------------- */

static bool is_of(const char *text, const char *bytes)
{
    return *text != '\0' && strspn(text, bytes) == strlen(text);
}

/* From behind: the port, the colon, and then the host, whose first byte says what it is. */
static bool is_host_and_port(const char *text)
{
    static const char name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    char host[TEXT_MOST];
    size_t length = strlen(text);
    size_t digits = 0;
    while (digits < length && text[length - digits - 1] >= '0' &&
           text[length - digits - 1] <= '9') {
        digits++;
    }
    if (length >= HOST_PORT_SIZE || digits == length || text[length - digits - 1] != ':') {
        return false;
    }
    const char *port = text + length - digits;
    if (digits == 0 || digits > 5 || value_of(port) < 1 || value_of(port) > 65535) {
        return false;
    }
    snprintf(host, sizeof host, "%.*s", (int)(length - digits - 1), text);
    if (host[0] != '[') {
        return is_of(host, name);
    }
    char *bracket = strrchr(host, ']');
    if (bracket == NULL || bracket[1] != '\0') {
        return false;
    }
    *bracket = '\0';
    char *zone = strchr(host, '%');
    if (zone != NULL) {
        *zone++ = '\0';
    }
    unsigned char address[16];
    return inet_pton(AF_INET6, host + 1, address) == 1 && (zone == NULL || is_of(zone, name));
}

static bool is_list_of_them(char *text)
{
    int count = 0;
    while (text != NULL) {
        if (!is_host_and_port(strsep(&text, ",")) || ++count > RELAY_TARGETS_MAX) {
            return false;
        }
    }
    return true;
}

/* ---- What a user can type for a server ------------------------------------------------------ */

static struct {
    struct server_settings settings;
    struct executor_choice executor;
    struct throttle_choice throttle;
    struct cipher_choice cipher;
    const struct selector_provider *provider;
    size_t helpers;
    bool log_traffic;
    const char *to;
    const char *broker;
} typed;

static void check_server(const struct server_settings *settings)
{
    fuzz_check(settings->port <= 65535, "ports");
    fuzz_check(settings->max_line >= 1 && settings->max_line <= 1 << 30, "--max-line");
    size_t length = strlen(settings->turn_away);
    fuzz_check(length > 0 && strchr(settings->turn_away, '\n') == settings->turn_away + length - 1,
               "what is told is not one line: %s", settings->turn_away);
    if (settings->overload == OVERLOAD_REDIRECT) {
        char place[TEXT_MOST] = "";
        sscanf(settings->turn_away, "ERR server busy, try %[^\n]", place);
        fuzz_check(is_host_and_port(place), "redirected to %s", place);
    }
}

static void check_places(void)
{
    char text[TEXT_MOST];
    struct endpoint endpoint;
    if (typed.broker != NULL) {
        fuzz_check(is_host_and_port(typed.broker), "--broker %s", typed.broker);
        host_port_read(typed.broker, &endpoint);
    }
    if (typed.to == NULL) {
        return;
    }
    snprintf(text, sizeof text, "%s", typed.to);
    fuzz_check(is_list_of_them(text), "--to %s", typed.to);
    struct relay_targets *targets = relay_targets_open(typed.to, "fuzz");
    fuzz_check(targets != NULL, "--to %s", typed.to);
    relay_targets_close(targets);
}

/* One option on its own: what is refused is none, and what is taken is one. */
static void check_one(const char *name, char *text)
{
    bool is_to = strcmp(name, "--to") == 0;
    if (!is_to && strcmp(name, "--broker") != 0) {
        return;
    }
    struct option option = {.target = is_to ? &typed.to : &typed.broker};
    bool taken = is_to ? relay_targets_parse(&option, text) : host_port_parse(&option, text);
    bool none = strcmp(text, "none") == 0;
    bool wanted = none || (is_to ? is_list_of_them(text) : is_host_and_port(text));
    fuzz_check(taken == wanted, "%s is %s", name, taken ? "taken" : "refused");
}

/* Any text is taken or refused, and what is taken is in its limits. */
static void parse_server(int argc, char **argv)
{
    static struct options options;
    memset(&typed, 0, sizeof typed);
    options_init(&options, "fuzz", "A server.");
    server_options(&options, &typed.settings, "7000");
    server_proxy_option(&options, &typed.settings);
    server_connect_option(&options, &typed.settings);
    options_add(&options, selector_provider_option(&typed.provider));
    executor_options_or_none(&options, &typed.executor);
    options_add(&options, executor_helpers_option(&typed.helpers));
    throttle_options(&options, &typed.throttle);
    options_add(&options, log_element_option(&typed.log_traffic));
    cipher_options(&options, &typed.cipher);
    options_add(&options, (struct option){.name = "--to",
                                          .value = "TARGETS",
                                          .default_text = "none",
                                          .help = "targets",
                                          .expects = "targets",
                                          .parse = relay_targets_parse,
                                          .target = &typed.to});
    options_add(&options, (struct option){.name = "--broker",
                                          .value = "HOST:PORT",
                                          .default_text = "none",
                                          .help = "a broker",
                                          .expects = "a broker",
                                          .parse = host_port_parse,
                                          .target = &typed.broker});
    int status = options_parse(&options, argc, argv);
    fuzz_check(status == OPTIONS_SERVE || status == 0 || status == 2, "%d", status);
    if (status == OPTIONS_SERVE) {
        check_server(&typed.settings);
        check_places();
    }
    if (argc == 3) {
        check_one(argv[1], argv[2]);
    }
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
