#include "common/server/server_options.h"

#include "common/server/host_port.h"

#include <stdio.h>
#include <string.h>

static bool parse_address(const struct option *option, const char *text)
{
    return endpoint_parse(option->target, text, 0);
}

static bool parse_overload(const struct option *option, const char *text)
{
    static const char redirect[] = "redirect=";
    struct server_settings *settings = option->target;
    const char *place = text + sizeof(redirect) - 1;
    settings->redirect_to = NULL;
    snprintf(settings->turn_away, sizeof(settings->turn_away), "ERR server busy\n");
    if (strcmp(text, "reject") == 0) {
        settings->overload = OVERLOAD_REJECT;
    } else if (strcmp(text, "wait") == 0) {
        settings->overload = OVERLOAD_WAIT;
    } else if (strncmp(text, redirect, sizeof(redirect) - 1) == 0 &&
               host_port_is_one(place, strlen(place))) {
        settings->overload = OVERLOAD_REDIRECT;
        settings->redirect_to = place;
        snprintf(settings->turn_away, sizeof(settings->turn_away), "ERR server busy, try %s\n",
                 place);
    } else {
        return false;
    }
    return true;
}

static bool parse_log_level(const struct option *option, const char *text)
{
    for (unsigned level = 0; log_level_name(level) != NULL; level++) {
        if (strcmp(text, log_level_name(level)) == 0) {
            *(enum log_level *)option->target = (enum log_level)level;
            return true;
        }
    }
    return false;
}

static bool parse_trace(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

static bool parse_cost_for(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "all") == 0 ? NULL : text;
    return *text != '\0';
}

static void add_number(struct options *options, const char *name, const char *value,
                       const char *default_text, size_t *target, size_t min, size_t max,
                       const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = value,
                                         .default_text = default_text,
                                         .help = help,
                                         .parse = option_parse_number,
                                         .target = target,
                                         .min = min,
                                         .max = max});
}

static void add_seconds(struct options *options, const char *name, const char *default_text,
                        int64_t *target, const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = "SEC",
                                         .default_text = default_text,
                                         .help = help,
                                         .expects = "a number of seconds",
                                         .parse = option_parse_seconds,
                                         .target = target});
}

static void add_connection_options(struct options *options, struct server_settings *settings,
                                   const char *port)
{
    options_add(options, (struct option){.name = "--bind",
                                         .value = "ADDR",
                                         .default_text = "127.0.0.1",
                                         .help = "address to listen on, IPv4 or IPv6, or a path",
                                         .expects = "an IP address",
                                         .parse = parse_address,
                                         .target = &settings->bind});
    options_add(options, (struct option){.name = "--port",
                                         .value = "N",
                                         .default_text = port,
                                         .help = "port to listen on; 0 picks a free one",
                                         .expects = "a port number",
                                         .parse = option_parse_port,
                                         .target = &settings->port});
    add_number(options, "--max-line", "BYTES", "65536", &settings->max_line, 1, 1 << 30,
               "longest line, without its line end");
    add_number(options, "--max-connections", "N", "0", &settings->max_connections, 0,
               SERVER_MAX_CONNECTIONS,
               "serve at most N clients at a time; 0: as many as the descriptor limit allows");
    options_add(
        options,
        (struct option){.name = "--overload",
                        .value = "HOW",
                        .default_text = "reject",
                        .help = "what to do with more clients: reject, wait or redirect=HOST:PORT",
                        .expects = "one of reject, wait, redirect=HOST:PORT",
                        .parse = parse_overload,
                        .target = settings});
    add_number(options, "--send-buffer", "BYTES", "0", &settings->send_buffer, 0, 1 << 30,
               "size of each socket's send buffer; 0: the system's choice");
}

static void add_limit_options(struct options *options, struct server_settings *settings)
{
    add_seconds(options, "--idle-timeout", "0", &settings->deadlines.idle,
                "disconnect after SEC seconds without a byte in either direction; 0: never");
    add_seconds(options, "--request-timeout", "0", &settings->deadlines.request,
                "disconnect if a line takes longer than SEC seconds to arrive; 0: never");
    add_seconds(options, "--lifetime", "0", &settings->deadlines.lifetime,
                "disconnect SEC seconds after accept, in any case; 0: never");
    add_seconds(options, "--progress-timeout", "0", &settings->deadlines.progress,
                "disconnect if a client takes longer than SEC seconds to read 64 KiB; 0: never");
    add_seconds(
        options, "--drain-timeout", "5", &settings->drain_timeout,
        "at SIGTERM, wait at most SEC seconds for pending output; if anything hangs, end a second "
        "later");
    add_number(options, "--output-high-mark", "BYTES", "65536", &settings->output_high_mark, 1,
               1 << 30, "stop reading from a client with more output waiting");
    add_number(options, "--output-low-mark", "BYTES", "16384", &settings->output_low_mark, 0,
               1 << 30, "read from that client again when no more is waiting");
    add_number(options, "--output-cap", "BYTES", "1048576", &settings->output_cap, 1, 1 << 30,
               "disconnect a client with more output waiting, mostly from others");
}

static void add_lesson_options(struct options *options, struct server_settings *settings)
{
    add_number(options, "--work-us", "USEC", "0", &settings->work_us, 0, 1000000000,
               "spend USEC microseconds of CPU time on each message");
    add_number(options, "--block-ms", "MSEC", "0", &settings->block_ms, 0, 1000000,
               "block the thread for MSEC milliseconds with each message");
    add_number(options, "--cost-every", "N", "1", &settings->cost_every, 1, 1000000000,
               "spend that only on one message in N");
    options_add(options, (struct option){.name = "--cost-for",
                                         .value = "TEXT",
                                         .default_text = "all",
                                         .help = "spend that only on messages that contain TEXT",
                                         .expects = "a text, or all",
                                         .parse = parse_cost_for,
                                         .target = &settings->cost_for});
    options_add(options, (struct option){.name = "--stats",
                                         .help = "print counters at exit (SIGUSR1: at once)",
                                         .target = &settings->stats});
    options_add(options,
                (struct option){.name = "--log",
                                .value = "LEVEL",
                                .default_text = "warn",
                                .help = "log messages of LEVEL and above: error, warn, info, debug",
                                .expects = "one of error, warn, info, debug",
                                .parse = parse_log_level,
                                .target = &settings->log_level});
    options_add(options, (struct option){.name = "--trace",
                                         .value = "FILE",
                                         .default_text = "none",
                                         .help = "at exit, write what the threads did to FILE",
                                         .expects = "the name of a file, or none",
                                         .parse = parse_trace,
                                         .target = &settings->trace});
}

void server_options(struct options *options, struct server_settings *settings, const char *port)
{
    memset(settings, 0, sizeof(*settings));
    settings->connection_descriptors = 1;
    add_connection_options(options, settings, port);
    add_limit_options(options, settings);
    add_lesson_options(options, settings);
}

void server_connect_option(struct options *options, struct server_settings *settings)
{
    add_seconds(options, "--connect-timeout", "5", &settings->connect_timeout,
                "give up connecting to another server after SEC seconds; 0: when the system does");
}
