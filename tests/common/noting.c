#include "noting.h"

#include "common/server/connection.h"
#include "common/server/connection_header.h"

#include <stdio.h>
#include <string.h>

static struct noting *noting_of(struct input_handler *self)
{
    return (struct noting *)self;
}

static void note(struct input_handler *self, const char *call)
{
    struct noting *noting = noting_of(self);
    size_t length = strlen(noting->calls);
    snprintf(noting->calls + length, sizeof(noting->calls) - length, "%s%s", length > 0 ? " " : "",
             call);
}

static enum framing_result next_line(struct input_handler *self, struct channel_facade *facade,
                                     struct message *message)
{
    (void)self;
    return line_framing_next(channel_input(facade), 100, message);
}

static bool on_line(struct input_handler *self, struct message message,
                    struct channel_facade *facade)
{
    note(self, "line");
    channel_enqueue(facade, piece_copy(message));
    return true;
}

static void on_not_connected(struct input_handler *self, int error)
{
    note(self, "not_connected");
    noting_of(self)->error = error;
}

static void on_unused(struct input_handler *self)
{
    note(self, "unused");
}

static void on_timed_out(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    note(self, "timed_out");
}

static void on_starting(struct input_handler *self, struct channel_facade *facade)
{
    struct endpoint peer;
    channel_peer(facade, &peer);
    endpoint_format(&peer, noting_of(self)->peer);
    note(self, "starting");
}

static void on_end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    note(self, "end_of_input");
}

static void on_stopped(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    note(self, "stopped");
}

const struct input_handler_verbs noting_verbs = {.next_message = next_line,
                                                 .handle_input = on_line,
                                                 .not_connected = on_not_connected,
                                                 .unused = on_unused,
                                                 .timed_out = on_timed_out,
                                                 .starting = on_starting,
                                                 .end_of_input = on_end_of_input,
                                                 .stopped = on_stopped};

void bare_server_init(struct server *server, size_t cap)
{
    server->settings.max_line = 100;
    server->log = (struct log){.program = "test", .level = LOG_LEVEL_ERROR};
    server->home = (struct connection_home){
        .server = server,
        .counters = &server->counters,
        .output = {
            .buffers = &server->buffers, .low_mark = cap / 16, .high_mark = cap / 4, .cap = cap}};
    buffer_factory_init(&server->buffers, 16);
}

void noting_server_init(struct server *server)
{
    bare_server_init(server, 1 << 14);
    server->settings.proxies.count = 1; /* who may connect, the listener looks at */
    server->settings.arrive = connection_expect_header;
}
