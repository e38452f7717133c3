/* Echo, and what Prometheus asks at METRICS_PORT (9100): make APP=docs/examples/metrics.c */
#include "common/apps/application_choice.h"
#include "common/base/thread.h"
#include "common/server/watch.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct listener second; /* once it is shut down, its thread ends */
static pthread_t thread;
static char samples[512][128]; /* lines, `echo_open{part="reactor"} 3` */
static size_t count;

static void add(void *suffix, const char *part, const char *name, uint64_t value)
{
    const char *unit = strrchr(name, '_') != NULL ? strrchr(name, '_') : "";
    double parts = strcmp(unit, "_us") == 0 ? 1e6 : strcmp(unit, "_ms") == 0 ? 1e3 : 1;
    int length = (int)strlen(name) - (parts > 1 ? 3 : 0);
    if (count < sizeof(samples) / sizeof(samples[0]))
        snprintf(samples[count++], sizeof(samples[0]), "echo_%.*s%s{part=\"%s\"} %.10g\n", length,
                 name, parts > 1 ? "_seconds" : (char *)suffix, part, (double)value / parts);
}

static int compare(const void *left, const void *right)
{
    return strcmp(left, right);
}

static void answer(FILE *out, struct server *server)
{
    bool runs = watch_tell_gauges(server, add, "") && watch_tell_counters(server, add, "_total");
    qsort(samples, count, sizeof(samples[0]), compare); /* so those of one name stand together */
    fprintf(out, "HTTP/1.0 %s\r\n\r\n", runs ? "200 OK" : "503 Service Unavailable");
    for (size_t i = 0; i < count; i++) {
        size_t name = strcspn(samples[i], "{");
        if (i == 0 || strncmp(samples[i], samples[i - 1], name + 1) != 0)
            fprintf(out, "# TYPE %.*s %s\n", (int)name, samples[i],
                    strstr(samples[i], "_total{") != NULL ? "counter" : "gauge");
        fputs(samples[i], out);
    }
}

static void *serve(void *argument)
{
    struct server *server = argument;
    struct pollfd ready = {.fd = second.fd, .events = POLLIN};
    for (int fd; poll(&ready, 1, -1) == 1 && (ready.revents & POLLHUP) == 0; count = 0) {
        if (listener_accept(&second, 0, &server->log, &fd) != ACCEPT_CONNECTION)
            continue;
        FILE *out = fdopen(fd, "w");
        if (out != NULL && socket_drop(fd) == DROPPED_BYTES)
            answer(out, server);
        (void)(out != NULL ? fclose(out) : close(fd));
    }
    return NULL;
}

static struct input_handler_factory *begin(struct server *server)
{
    const struct timeval patience = {.tv_sec = 2}; /* with who asks: the next one waits */
    const char *port = getenv("METRICS_PORT");
    struct endpoint place;
    endpoint_parse(&place, "127.0.0.1", port != NULL ? (unsigned)strtoul(port, NULL, 10) : 9100);
    if (listener_open(&second, &place, 0) != 0)
        return NULL;
    setsockopt(second.fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    errno = thread_start(&thread, serve, server);
    return errno == 0 ? application_open(&echo_application, server) : NULL;
}

static void end(struct input_handler_factory *factory)
{
    shutdown(second.fd, SHUT_RD), pthread_join(thread, NULL), listener_close(&second);
    application_close(&echo_application, factory);
}

const struct application metrics_application = {.name = "metrics", .open = begin, .close = end};
