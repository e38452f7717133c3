#include "common/server/server.h"

#include "common/base/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    POOLED_SEGMENTS = 256, /* at most a megabyte that is kept for reuse */
    FIRST_GIVEN = 3,       /* descriptor that a service manager opens for us */
    STOP_GRACE_MS = 1000,  /* from the drain timeout to the end of a stop that hangs */
};

static const char busy[] = "ERR server busy\n";

const struct message server_busy_text = {(const unsigned char *)busy, sizeof(busy) - 1};

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

static struct endpoint with_port(const struct endpoint *bind, size_t port)
{
    struct endpoint endpoint = *bind;
    if (endpoint.address.ss_family == AF_INET)
        ((struct sockaddr_in *)&endpoint.address)->sin_port = htons((uint16_t)port);
    else if (endpoint.address.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&endpoint.address)->sin6_port = htons((uint16_t)port);
    return endpoint;
}

/*
 * How many descriptors our parent has opened for us, as service managers do: LISTEN_FDS of them
 * from 3 on, for the process LISTEN_PID. NULL: none, or they are for another process.
 */
static const char *given_descriptors(void)
{
    const char *pid = getenv("LISTEN_PID");
    const char *count = getenv("LISTEN_FDS");
    char own[24];
    snprintf(own, sizeof(own), "%d", getpid());
    return pid != NULL && count != NULL && strcmp(pid, own) == 0 ? count : NULL;
}

static int adopt_listener(const struct server *server, struct listener *listener, const char *count)
{
    if (strcmp(count, "1") != 0) {
        fprintf(stderr, "%s: LISTEN_FDS: expected 1 descriptor, got '%s'\n", server->name, count);
        return -1;
    }
    if (listener_adopt(listener, FIRST_GIVEN, (int)server->settings.send_buffer) == 0)
        return 0;
    return cannot(server, "listen on descriptor 3, which LISTEN_FDS names");
}

static int open_listener(const struct server *server, struct listener *listener, size_t port)
{
    struct endpoint endpoint = with_port(&server->settings.bind, port);
    const char *given = given_descriptors();
    if (given != NULL && adopt_listener(server, listener, given) != 0)
        return -1;
    if (given != NULL ||
        listener_open(listener, &endpoint, (int)server->settings.send_buffer) == 0) {
        listener->turn_away = server->settings.turn_away; /* the application may change the text */
        if (server->settings.proxies.count > 0)
            listener->proxies = &server->settings.proxies;
        listener->admits = server->settings.admits;
        return 0;
    }
    char place[ENDPOINT_TEXT_SIZE];
    char what[sizeof(endpoint.address) + 16];
    int error = errno;
    const char *path = endpoint_path(&endpoint);
    endpoint_format(&endpoint, place);
    snprintf(what, sizeof(what), "listen on %s", path != NULL ? path : place);
    errno = error;
    return cannot(server, what);
}

/* Each mark is at least the one below it, whatever the user gave. */
static void init_home(struct server *server)
{
    const struct server_settings *settings = &server->settings;
    struct output_settings *output = &server->home.output;
    server->home = (struct connection_home){.server = server, .counters = &server->counters};
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
    server->memory_limit = server->proxy_limit = (struct log_limit){0};
    memset(&server->counters, 0, sizeof(server->counters));
    server->helpers = NULL;
    server->strands = NULL;
    server->observer = NULL;
    server->own_counters = NULL;
    server->opening = NULL;
    server->opening_verbs = NULL;
    atomic_init(&server->drain_end, 0);
    server->outgoing = (struct deadline_limits){.request = settings->deadlines.request,
                                                .progress = settings->deadlines.progress};
    init_home(server);
    buffer_factory_init(&server->buffers, POOLED_SEGMENTS);
    segment_cache_open(&server->cache, &server->buffers, SEGMENT_CACHE_LIMIT);
    service_init(&server->service);
    server->service.work_us = settings->work_us;
    server->service.block_ms = settings->block_ms;
    server->service.cost_every = settings->cost_every;
    server->service.cost_for = settings->cost_for;
}

static void destroy_parts(struct server *server)
{
    service_destroy(&server->service);
    segment_cache_close(&server->cache);
    buffer_factory_destroy(&server->buffers);
}

int server_open(struct server *server, const char *name)
{
    server->name = name;
    raise_descriptor_limit();
    if (open_listener(server, &server->listener, server->settings.port) != 0)
        return -1;
    if (signals_open(&server->signals, name, server->settings.drain_timeout + STOP_GRACE_MS) != 0) {
        cannot(server, "catch signals");
        listener_close(&server->listener);
        return -1;
    }
    if (trace_open(server->settings.trace) != 0) {
        cannot(server, "write a trace");
        signals_close(&server->signals);
        listener_close(&server->listener);
        return -1;
    }
    init_parts(server);
    return 0;
}

/*
 * The lowest free descriptor tells how many are in use. One more stays free for the client that is
 * turned away. Each connection counts as many as the application says: else idle clients would
 * leave none for the files that others ask for.
 */
static size_t connections_that_fit(unsigned descriptors_each)
{
    uint64_t limit = raise_descriptor_limit();
    int lowest_free = dup(STDERR_FILENO);
    if (lowest_free < 0)
        return 1;
    close(lowest_free);
    uint64_t used = (uint64_t)lowest_free + 1;
    uint64_t fit = limit > used ? (limit - used) / descriptors_each : 0;
    if (fit == 0)
        return 1;
    return fit < SERVER_MAX_CONNECTIONS ? (size_t)fit : SERVER_MAX_CONNECTIONS;
}

void server_announce(struct server *server, const char *service)
{
    if (server->settings.max_connections == 0)
        server->settings.max_connections =
            connections_that_fit(server->settings.connection_descriptors);
    char place[ENDPOINT_TEXT_SIZE];
    const char *path = endpoint_path(&server->listener.endpoint);
    endpoint_format(&server->listener.endpoint, place);
    printf("%s: %s on %s\n", server->name, service, path != NULL ? path : place);
    fflush(stdout);
}

void server_no_memory(struct server *server, struct counters *counters,
                      const struct endpoint *client, int fd)
{
    int error = errno;
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(client, place);
    counters_add(counters, COUNTER_NO_MEMORY, 1);
    log_limited(&server->log, &server->memory_limit, LOG_LEVEL_WARN,
                "event=closed peer=%s fd=%d reason=\"no memory\"", place, fd);
    errno = error;
}

void server_use_helpers(struct server *server, struct executor *helpers)
{
    server->helpers = helpers;
}

void server_report(struct server *server)
{
    if (server->observer != NULL)
        server->observer->report(server->observer);
    else
        fprintf(stderr, "%s: gauges open=%" PRIu64 " memory_held=%zu\n", server->name,
                counters_open(&server->counters),
                buffer_factory_out(&server->buffers) * (size_t)SEGMENT_SIZE);
    counters_print_with(&server->counters, server->own_counters, server->name);
}

/* Whoever asks first decides. */
int64_t server_drain_end(struct server *server)
{
    int64_t end = 0;
    int64_t ours = clock_ms() + server->settings.drain_timeout;
    return atomic_compare_exchange_strong(&server->drain_end, &end, ours) ? ours : end;
}

void server_close(struct server *server)
{
    if (server->settings.stats)
        counters_print_with(&server->counters, server->own_counters, server->name);
    listener_close(&server->listener);
    destroy_parts(server);
    if (trace_close(server->name) != 0)
        cannot(server, "write the trace");
    signals_close(&server->signals); /* last: until here a stop is bounded */
}
