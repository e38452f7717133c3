/*
 * Stands in for common/apps/relay, until step 4.7: each client gets a connection to another server,
 * and lines pass both ways.
 *
 * Left out on purpose: several servers, their names, and bytes that are no lines. A server that
 * sends more than its client reads costs that client its connection, at the cap; and a stop does
 * not wait for answers (pair.h does better in both).
 */
#include "common/apps/application.h"
#include "common/base/options.h"
#include "common/server/host_port.h"

/* The handler of the client's side. */
struct client {
    struct input_handler handler;
    struct input_handler_factory factory; /* makes the handler of the server's side */
    struct channel_facade *facade;
    struct channel_facade *server; /* NULL: there is none; used and set under the lock */
};

/* The handler of the server's side. Two workers may run the two sides at the same time. */
struct server_side {
    struct input_handler handler;
    struct client *client; /* kept by a reference to its facade */
};

static struct endpoint to; /* the server */
static struct mutex lock;

/* ---- The server's side ----------------------------------------------------------------------- */

static struct client *client_of(struct input_handler *self)
{
    return container_of(self, struct server_side, handler)->client;
}

/* The client may have gone while we were connecting. */
static void server_started(struct input_handler *self, struct channel_facade *facade)
{
    struct client *client = client_of(self);
    mutex_lock(&lock);
    client->server = facade;
    bool has_gone = channel_end_reason(client->facade) != END_NONE;
    mutex_unlock(&lock);
    if (has_gone)
        channel_close(facade);
    channel_resume(client->facade);
}

static bool server_says(struct input_handler *self, struct message message,
                        struct channel_facade *facade)
{
    (void)facade;
    channel_enqueue(client_of(self)->facade, piece_copy(message));
    return true;
}

static void server_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct client *client = client_of(self);
    (void)facade;
    mutex_lock(&lock);
    client->server = NULL;
    mutex_unlock(&lock);
    channel_close(client->facade);
    channel_release(client->facade);
}

static void not_connected(struct input_handler *self, int error)
{
    (void)error;
    server_stopped(self, NULL);
}

static struct input_handler_verbs server_verbs = {.handle_input = server_says,
                                                  .started = server_started,
                                                  .stopped = server_stopped,
                                                  .not_connected = not_connected};

static struct input_handler *make_server_side(struct input_handler_factory *factory, void *memory)
{
    struct server_side *side = memory;
    side->client = container_of(factory, struct client, factory);
    side->handler.verbs = input_handler_complete(&server_verbs);
    channel_retain(side->client->facade);
    return &side->handler;
}

/* ---- The client's side ----------------------------------------------------------------------- */

/* Nothing is read from the client before there is a server to send it to. */
static void started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct client *client = container_of(self, struct client, handler);
    client->facade = facade;
    client->factory = (struct input_handler_factory){.handler_size = sizeof(struct server_side),
                                                     .create = make_server_side};
    channel_suspend(facade);
    if (channel_connect(facade, &to, 0, &client->factory) != 0) /* 0: until the system gives up */
        channel_close(facade);
}

static bool handle_input(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)facade;
    mutex_lock(&lock);
    struct channel_facade *server = container_of(self, struct client, handler)->server;
    if (server != NULL)
        channel_enqueue(server, piece_copy(message));
    mutex_unlock(&lock);
    return server != NULL;
}

static void tell_server(struct input_handler *self, void (*call)(struct channel_facade *server))
{
    mutex_lock(&lock);
    struct channel_facade *server = container_of(self, struct client, handler)->server;
    if (server != NULL)
        call(server);
    mutex_unlock(&lock);
}

static void end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell_server(self, channel_finish);
}

static void stopping(struct input_handler *self, struct channel_facade *facade)
{
    (void)facade;
    tell_server(self, channel_close);
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input,
                                                 .duplex = true,
                                                 .started = started,
                                                 .end_of_input = end_of_input,
                                                 .stopping = stopping};

/* ---- The application ------------------------------------------------------------------------- */

static void *start(struct server *server)
{
    (void)server;
    mutex_init(&lock);
    return &lock;
}

static bool parse_server(const struct option *option, const char *text)
{
    (void)option;
    return host_port_read(text, &to);
}

static void relay_options(struct options *options)
{
    options_add(options, (struct option){.name = "--to",
                                         .value = "ADDRESS",
                                         .default_text = "127.0.0.1:7001",
                                         .help = "relay: the server to connect to",
                                         .expects = "ADDRESS:PORT",
                                         .parse = parse_server});
}

const struct application relay_application = {.name = "relay",
                                              .needs =
                                                  OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_CONNECTIONS,
                                              .descriptors = 2,
                                              .options = relay_options,
                                              .verbs = &verbs,
                                              .handler_size = sizeof(struct client),
                                              .start = start};
