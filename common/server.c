#include "server.h"

#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    POOLED_SEGMENTS = 256, /* a megabyte at the most that is kept for reuse */
};

static const char too_long[] = "ERR line too long\n";
static const char busy[] = "ERR server busy\n";

const struct message server_too_long_text = {(const unsigned char *)too_long, sizeof(too_long) - 1};
const struct message server_busy_text = {(const unsigned char *)busy, sizeof(busy) - 1};

static bool read_address(const struct option *option, const char *text)
{
    return endpoint_parse(option->target, text, 0);
}

/* HOST:PORT, where the host is any visible characters; it is told to clients as one line. */
static bool is_place(const char *text)
{
    uint64_t number;
    const struct option port = {.target = &number};
    const char *colon = strrchr(text, ':');
    if (colon == NULL || colon == text || strlen(text) > 255 || !option_port(&port, colon + 1))
        return false;
    while (*text > ' ' && *text != '\x7f')
        text++;
    return *text == '\0';
}

static bool read_overload(const struct option *option, const char *text)
{
    static const char redirect[] = "redirect=";
    struct server_settings *settings = option->target;
    const char *place = text + sizeof(redirect) - 1;
    snprintf(settings->turn_away, sizeof(settings->turn_away), "ERR server busy\n");
    if (strcmp(text, "reject") == 0) {
        settings->overload = OVERLOAD_REJECT;
    } else if (strcmp(text, "wait") == 0) {
        settings->overload = OVERLOAD_WAIT;
    } else if (strncmp(text, redirect, sizeof(redirect) - 1) == 0 && is_place(place)) {
        settings->overload = OVERLOAD_REDIRECT;
        snprintf(settings->turn_away, sizeof(settings->turn_away), "ERR server busy, try %s\n",
                 place);
    } else {
        return false;
    }
    return true;
}

static bool read_log_level(const struct option *option, const char *text)
{
    for (unsigned level = 0; log_level_name(level) != NULL; level++) {
        if (strcmp(text, log_level_name(level)) == 0) {
            *(enum log_level *)option->target = (enum log_level)level;
            return true;
        }
    }
    return false;
}

static bool read_trace(const struct option *option, const char *text)
{
    *(const char **)option->target = strcmp(text, "none") == 0 ? NULL : text;
    return *text != '\0';
}

static void add_number(struct options *options, const char *name, const char *value,
                       const char *standard, uint64_t *target, uint64_t least, uint64_t most,
                       const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = value,
                                         .standard = standard,
                                         .help = help,
                                         .read = option_number,
                                         .target = target,
                                         .least = least,
                                         .most = most});
}

static void add_seconds(struct options *options, const char *name, const char *standard,
                        int64_t *target, const char *help)
{
    options_add(options, (struct option){.name = name,
                                         .value = "SEC",
                                         .standard = standard,
                                         .help = help,
                                         .takes = "a number of seconds",
                                         .read = option_seconds,
                                         .target = target});
}

static void add_connection_options(struct options *options, struct server_settings *settings,
                                   const char *port)
{
    options_add(options, (struct option){.name = "--bind",
                                         .value = "ADDR",
                                         .standard = "127.0.0.1",
                                         .help = "address to listen on, IPv4 or IPv6",
                                         .takes = "an IP address",
                                         .read = read_address,
                                         .target = &settings->bind});
    options_add(options, (struct option){.name = "--port",
                                         .value = "N",
                                         .standard = port,
                                         .help = "port to listen on; 0 picks a free one",
                                         .takes = "a port number",
                                         .read = option_port,
                                         .target = &settings->port});
    add_number(options, "--max-line", "BYTES", "65536", &settings->max_line, 1, 1 << 30,
               "longest line, without its end");
    add_number(options, "--max-connections", "N", "0", &settings->max_connections, 0, 1 << 30,
               "clients at a time; 0: what the descriptor limit allows");
    options_add(options, (struct option){.name = "--overload",
                                         .value = "HOW",
                                         .standard = "reject",
                                         .help = "past that: reject, wait or redirect=HOST:PORT",
                                         .takes = "one of reject, wait, redirect=HOST:PORT",
                                         .read = read_overload,
                                         .target = settings});
    add_number(options, "--send-buffer", "BYTES", "0", &settings->send_buffer, 0, 1 << 30,
               "each connection's send buffer; 0: the system's choice");
}

static void add_limit_options(struct options *options, struct server_settings *settings)
{
    add_seconds(options, "--idle-timeout", "0", &settings->deadlines.idle,
                "close when nothing was received or sent for so long; 0: never");
    add_seconds(options, "--request-timeout", "0", &settings->deadlines.request,
                "close when a line takes longer to arrive; 0: never");
    add_seconds(options, "--lifetime", "0", &settings->deadlines.lifetime,
                "close so long after accept, whatever happens; 0: never");
    add_seconds(options, "--progress-timeout", "0", &settings->deadlines.progress,
                "close when waiting output is not read by 64 KiB in so long; 0: never");
    add_seconds(options, "--drain-timeout", "5", &settings->drain_timeout,
                "at the end, give output so long to leave");
    add_number(options, "--output-high-mark", "BYTES", "65536", &settings->output_high_mark, 1,
               1 << 30, "waiting output above which a client is not read");
    add_number(options, "--output-low-mark", "BYTES", "16384", &settings->output_low_mark, 0,
               1 << 30, "waiting output below which it is read again");
    add_number(options, "--output-cap", "BYTES", "1048576", &settings->output_cap, 1, 1 << 30,
               "waiting output above which a client is let go");
}

static void add_lesson_options(struct options *options, struct server_settings *settings)
{
    add_number(options, "--work-us", "N", "0", &settings->work_us, 0, 1000000000,
               "CPU time that a message costs, in microseconds");
    add_number(options, "--block-ms", "N", "0", &settings->block_ms, 0, 1000000,
               "time that a message blocks its thread, in milliseconds");
    add_number(options, "--cost-every", "N", "1", &settings->cost_every, 1, 1000000000,
               "only one message in N costs that");
    options_add(options, (struct option){.name = "--stats",
                                         .help = "print counters at exit (SIGUSR1: at once)",
                                         .target = &settings->stats});
    options_add(options, (struct option){.name = "--log",
                                         .value = "LEVEL",
                                         .standard = "warn",
                                         .help = "least urgent lines to log: error to debug",
                                         .takes = "one of error, warn, info, debug",
                                         .read = read_log_level,
                                         .target = &settings->log_level});
    options_add(options, (struct option){.name = "--trace",
                                         .value = "FILE",
                                         .standard = "none",
                                         .help = "write what the threads did to a file at exit",
                                         .takes = "the name of a file, or none",
                                         .read = read_trace,
                                         .target = &settings->trace});
}

void server_options(struct options *options, struct server_settings *settings, const char *port)
{
    memset(settings, 0, sizeof(*settings));
    settings->urgent_port = -1;
    add_connection_options(options, settings, port);
    add_limit_options(options, settings);
    add_lesson_options(options, settings);
}

static bool read_urgent_port(const struct option *option, const char *text)
{
    uint64_t port = 0;
    struct option number = {.target = &port};
    bool none = strcmp(text, "none") == 0;
    if (!none && !option_port(&number, text))
        return false;
    *(int64_t *)option->target = none ? -1 : (int64_t)port;
    return true;
}

void server_urgent_option(struct options *options, struct server_settings *settings)
{
    options_add(options, (struct option){.name = "--priority-port",
                                         .value = "N",
                                         .standard = "none",
                                         .help = "a second port, for --queue priority to favour",
                                         .takes = "a port number or none",
                                         .read = read_urgent_port,
                                         .target = &settings->urgent_port});
}

/* As many descriptors as we may have; the limit that is in force then. */
static uint64_t raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 256;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

static int cannot(const struct server *server, const char *what)
{
    fprintf(stderr, "%s: cannot %s: %s\n", server->name, what, strerror(errno));
    return -1;
}

static struct endpoint with_port(const struct endpoint *bind, uint64_t port)
{
    struct endpoint endpoint = *bind;
    if (endpoint.address.ss_family == AF_INET)
        ((struct sockaddr_in *)&endpoint.address)->sin_port = htons((uint16_t)port);
    else
        ((struct sockaddr_in6 *)&endpoint.address)->sin6_port = htons((uint16_t)port);
    return endpoint;
}

static int open_listener(const struct server *server, struct listener *listener, uint64_t port)
{
    struct endpoint endpoint = with_port(&server->settings.bind, port);
    if (listener_open(listener, &endpoint, (int)server->settings.send_buffer) == 0)
        return 0;
    char place[ENDPOINT_TEXT_SIZE];
    char what[sizeof(place) + 16];
    int error = errno;
    endpoint_format(&endpoint, place);
    snprintf(what, sizeof(what), "listen on %s", place);
    errno = error;
    return cannot(server, what);
}

/* Each mark is at least the one below it, whatever the user gave. */
static void init_output_settings(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    struct output_settings *output = &server->output_settings;
    *output = (struct output_settings){.buffers = &server->buffers,
                                       .low_mark = settings->output_low_mark,
                                       .high_mark = settings->output_high_mark,
                                       .cap = settings->output_cap};
    if (output->high_mark < output->low_mark)
        output->high_mark = output->low_mark;
    if (output->cap < output->high_mark)
        output->cap = output->high_mark;
}

static void init_parts(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    server->log = (struct log){.program = server->name, .level = settings->log_level};
    server->memory_limit = (struct log_limit){0};
    memset(&server->counters, 0, sizeof(server->counters));
    init_output_settings(server);
    buffer_factory_init(&server->buffers, POOLED_SEGMENTS);
    service_init(&server->service);
    server->service.work_us = settings->work_us;
    server->service.block_ms = settings->block_ms;
    server->service.cost_every = settings->cost_every;
}

static void destroy_parts(struct server *server)
{
    service_destroy(&server->service);
    buffer_factory_destroy(&server->buffers);
}

static void close_listeners(struct server *server)
{
    listener_close(&server->listener);
    listener_close(&server->urgent_listener);
}

static int open_listeners(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    server->urgent_listener = (struct listener){.fd = -1, .reserve = -1};
    if (open_listener(server, &server->listener, settings->port) != 0)
        return -1;
    if (settings->urgent_port < 0 ||
        open_listener(server, &server->urgent_listener, (uint64_t)settings->urgent_port) == 0)
        return 0;
    close_listeners(server);
    return -1;
}

int server_open(struct server *server, const char *name)
{
    server->name = name;
    raise_descriptor_limit();
    if (open_listeners(server) != 0)
        return -1;
    if (signals_open(&server->signals) != 0) {
        cannot(server, "catch signals");
        close_listeners(server);
        return -1;
    }
    if (trace_open(server->settings.trace) != 0) {
        cannot(server, "write a trace");
        signals_close(&server->signals);
        close_listeners(server);
        return -1;
    }
    init_parts(server);
    return 0;
}

/*
 * The lowest free descriptor tells how many are in use. One more stays free for the client that is
 * turned away.
 */
static uint64_t connections_that_fit(void)
{
    uint64_t limit = raise_descriptor_limit();
    int lowest_free = dup(STDERR_FILENO);
    if (lowest_free < 0)
        return 1;
    close(lowest_free);
    uint64_t used = (uint64_t)lowest_free + 1;
    return limit > used ? limit - used : 1;
}

void server_announce(struct server *server, const char *service)
{
    if (server->settings.max_connections == 0)
        server->settings.max_connections = connections_that_fit();
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(&server->listener.endpoint, place);
    printf("%s: %s on %s\n", server->name, service, place);
    if (server->urgent_listener.fd >= 0) {
        endpoint_format(&server->urgent_listener.endpoint, place);
        printf("%s: urgent %s on %s\n", server->name, service, place);
    }
    fflush(stdout);
}

void server_no_memory(struct server *server, struct counters *counters)
{
    int error = errno;
    counters_add(counters, COUNTER_NO_MEMORY, 1);
    log_limited(&server->log, &server->memory_limit, LOG_LEVEL_WARN, "closed a client: no memory");
    errno = error;
}

void server_close(struct server *server)
{
    if (server->settings.stats)
        counters_print(&server->counters, server->name);
    close_listeners(server);
    signals_close(&server->signals);
    destroy_parts(server);
    if (trace_close(server->name) != 0)
        cannot(server, "write the trace");
}
