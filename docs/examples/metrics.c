/* Echo, and what Prometheus asks at METRICS_PORT (9100): make APP=docs/examples/metrics.c */
#include "common/apps/application_choice.h"
#include "common/apps/application_listen.h"
#include "common/server/channel_calls.h"
#include "common/server/watch_ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scraper {
    struct input_handler handler; /* first */
    struct channel_timer timer;
    char suffix[8]; /* of names that come now */
    size_t count;
    char samples[512][128]; /* lines, `echo_open{part="reactor"} 3`, in their order */
};

static void add(void *context, const char *part, const char *name, uint64_t value)
{
    struct scraper *self = context;
    char line[sizeof(self->samples[0])];
    const char *unit = strrchr(name, '_') != NULL ? strrchr(name, '_') : "";
    double parts = strcmp(unit, "_us") == 0 ? 1e6 : strcmp(unit, "_ms") == 0 ? 1e3 : 1;
    int length = (int)strlen(name) - (parts > 1 ? 3 : 0);
    size_t place = self->count < 511 ? self->count++ : 511; /* the last one gives way */
    snprintf(line, sizeof(line), "echo_%.*s%s{part=\"%s\"} %.10g\n", length, name,
             parts > 1 ? "_seconds" : self->suffix, part, (double)value / parts);
    for (; place > 0 && strcmp(self->samples[place - 1], line) > 0; place--)
        memcpy(self->samples[place], self->samples[place - 1], sizeof(line));
    memcpy(self->samples[place], line, sizeof(line));
}

static void answer(struct channel_timer *timer, struct channel_facade *facade)
{
    struct scraper *self = container_of(timer, struct scraper, timer);
    watch_tell_gauges(application_server(&self->handler), add, self);
    strcpy(self->suffix, "_total");
    bool runs = watch_tell_counters(application_server(&self->handler), add, self);
    channel_printf(facade, "HTTP/1.0 %s\r\n\r\n", runs ? "200 OK" : "503 Service Unavailable");
    for (size_t i = 0; i < self->count; i++) {
        const char *line = self->samples[i];
        if (i == 0 || strncmp(line, self->samples[i - 1], strcspn(line, "{") + 1) != 0)
            channel_printf(facade, "# TYPE %.*s %s\n", (int)strcspn(line, "{"), line,
                           strstr(line, "_total{") != NULL ? "counter" : "gauge");
        channel_printf(facade, "%s", line);
    }
    channel_close(facade);
}

static bool hear(struct input_handler *self, struct message line, struct channel_facade *facade)
{
    struct scraper *scraper = container_of(self, struct scraper, handler);
    if (line.length <= 2) { /* the request ends with an empty line */
        watch_ask(application_server(self));
        scraper->timer.fired = answer;
        channel_set_timer(facade, &scraper->timer, 50); /* the loops count meanwhile */
    }
    return true;
}

static const struct input_handler_verbs verbs = {.handle_input = hear};
static const struct application scrape = {
    .name = "scrape", .verbs = &verbs, .handler_size = sizeof(struct scraper)};
static struct application_listener *second;

static struct input_handler_factory *begin(struct server *server)
{
    const char *port = getenv("METRICS_PORT");
    struct endpoint place;
    endpoint_parse(&place, "127.0.0.1", port != NULL ? (unsigned)strtoul(port, NULL, 10) : 9100);
    second = application_listen(server, &scrape, &place);
    return second != NULL ? application_open(&echo_application, server) : NULL;
}

static void end(struct input_handler_factory *factory)
{
    application_close(&echo_application, factory), application_listen_end(second);
}

const struct application metrics_application = {.name = "metrics", .open = begin, .close = end};
