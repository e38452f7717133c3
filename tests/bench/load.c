/*
 * The load generator's command line, and the course of a run. See load.h.
 */
#include "load.h"

#include "common/base/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

static struct load the_load; /* load_fail() has to find the server, wherever it is called */

_Noreturn void load_fail(const char *format, ...)
{
    struct load_server *server = &the_load.server;
    va_list arguments;
    va_start(arguments, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s\n", server_fate(server));
    server_finish(server);
    exit(EXIT_FAILURE);
}

static bool parse_text(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

static bool parse_traffic(const struct option *option, const char *text)
{
    *(const char **)option->target = text;
    return traffic_named(text) != NULL;
}

static void add_number(struct options *options, const char *name, const char *default_text,
                       uint64_t *target, uint64_t min, uint64_t max, const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = "N",
                                         .default_text = default_text,
                                         .help = help,
                                         .expects = "a number in its range",
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

static void add_text(struct options *options, const char *name, const char *value,
                     const char *default_text, const char **target, const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = value,
                                         .default_text = default_text,
                                         .help = help,
                                         .expects = "a text",
                                         .parse = parse_text,
                                         .target = target});
}

static void add_options(struct options *options, struct load_settings *settings)
{
    options_init(options, "load",
                 "Loads a server, which follows behind --, and says what that costs it.");
    options_add(options, (struct option){.name = "--traffic",
                                         .value = "KIND",
                                         .default_text = "echo",
                                         .help = "echo, chat or http",
                                         .expects = "one of echo, chat, http",
                                         .parse = parse_traffic,
                                         .target = &settings->traffic});
    add_number(options, "--connections", "100", &settings->connections, 1, 100000, "clients");
    add_number(options, "--idle", "0", &settings->idle, 0, 100000,
               "silent clients beside them; each has sent one message");
    add_number(options, "--depth", "1", &settings->depth, 1, MOST_DEPTH,
               "messages that a client has under way");
    add_number(options, "--size", "64", &settings->size, 2, 1048576,
               "bytes of a message, with its LF");
    add_number(options, "--rate", "0", &settings->rate, 0, 10000000,
               "open loop: messages a second; 0 is the closed loop");
    add_seconds(options, "--warm-up", "0.2", &settings->warm_up, "time that is not measured");
    add_seconds(options, "--duration", "2", &settings->duration, "time that is measured");
    add_number(options, "--requests", "0", &settings->requests, 0, UINT64_MAX / 2,
               "measure so many replies instead");
    add_seconds(options, "--patience", "5", &settings->patience,
                "without any reply for so long, it gives up");
    add_number(options, "--set-aside", "0", &settings->set_aside, 0, 99,
               "percent: latencies of all but the slowest");
    options_add(options, (struct option){.name = "--within",
                                         .value = "MSEC",
                                         .default_text = "0",
                                         .help = "echo, open loop: count replies within MSEC "
                                                 "milliseconds, and bear refusals; 0: bear none",
                                         .expects = "a number in its range",
                                         .parse = option_parse_number,
                                         .target = &settings->within,
                                         .max = 60000});
    options_add(options, (struct option){.name = "--visits",
                                         .help = "echo: all clients connect, send a message and "
                                                 "leave, again and again",
                                         .target = &settings->visits});
    add_text(options, "--path", "PATH", "/", &settings->path, "http: what to get");
    add_text(options, "--body", "FILE", "none", &settings->body, "http: what has to come back");
    add_text(options, "--pin-server", "CPUS", "none", &settings->pin_server,
             "processors for the server: 0 or 0,1");
    add_text(options, "--pin-load", "CPUS", "none", &settings->pin_load,
             "processors for the load generator");
    add_number(options, "--port", "0", &settings->port, 0, 65535, "of a server that runs already");
    add_number(options, "--pid", "0", &settings->pid, 0, INT32_MAX, "of such a server");
    options_add(options, (struct option){.name = "--json",
                                         .help = "print one line of JSON",
                                         .target = &settings->json});
}

/* Cuts the command line at `--`; what is behind it is the server's. */
static int cut_arguments(int argc, char **argv, char ***server)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            argv[i] = NULL;
            *server = argv + i + 1;
            return i;
        }
    }
    *server = argv + argc;
    return argc;
}

static int misused(const char *what)
{
    fprintf(stderr, "load: %s (see --help)\n", what);
    return 2;
}

static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void run(struct load *load)
{
    const struct load_settings *settings = &load->settings;
    raise_descriptor_limit();
    load->traffic = traffic_named(settings->traffic);
    load->traffic->prepare(settings);
    server_begin(&load->server, settings);
    if (settings->pin_load != NULL)
        pin_to(settings->pin_load);
    prctl(PR_SET_TIMERSLACK, 1); /* the open loop's messages are due to the microsecond */
    if (settings->visits) {
        clients_visit(load);
    } else {
        clients_connect(load);
        clients_run(load);
        clients_drain(load);
        clients_close(load);
    }
    server_finish(&load->server);
}

int main(int argc, char **argv)
{
    struct options options;
    struct load *load = &the_load;
    add_options(&options, &load->settings);
    argc = cut_arguments(argc, argv, &load->settings.server);
    int status = options_parse(&options, argc, argv);
    if (status != OPTIONS_SERVE)
        return status;
    bool attach = load->settings.port != 0 && load->settings.pid != 0;
    if (*load->settings.server == NULL && !attach)
        return misused("needs a server behind --, or --port and --pid");
    if (strcmp(load->settings.traffic, "chat") == 0 && load->settings.connections < 2)
        return misused("a chat needs two users");
    if (load->settings.within > 0 && (load->settings.rate == 0 || load->settings.size > 4096 ||
                                      strcmp(load->settings.traffic, "echo") != 0))
        return misused("--within needs echo, --rate, and a --size of at most 4096");
    if (load->settings.visits &&
        (load->settings.rate > 0 || load->settings.idle > 0 || load->settings.depth > 1 ||
         strcmp(load->settings.traffic, "echo") != 0))
        return misused("--visits needs echo, and neither --rate nor --idle nor --depth");

    run(load);
    if (load->settings.json)
        report_json(load);
    else
        report_text(load);
    return EXIT_SUCCESS;
}
