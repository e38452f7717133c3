/*
 * A relay: each client is connected to one of several servers, and bytes pass both ways until
 * either side ends. It reads nothing of what passes.
 *
 * A pair is two connections, each with a handler, which is one end of the pair. They may run in two
 * threads at the same time, so each end touches its own fields only, and the other one's channel,
 * whose verbs any thread may call:
 *
 * - Bytes go into the other channel's output. If that is choked, this end suspends its input, and
 *   the `drained` of the other end resumes it.
 * - The end of input ends the other channel's output (channel_finish()): a half-close is passed on.
 * - `stopped` closes the other channel, so either end ends both.
 *
 * The client's end asks for the server's: it connects to the target with the fewest connections,
 * and to the next one if that does not answer. Until it has, nothing is read from the client.
 *
 * Interface: --to names the targets. A name is looked up when a client needs it, by a helper, and
 * again when its address is half a minute old.
 */
#include "common/apps/application.h"
#include "common/apps/relay/relay_targets.h"
#include "common/base/container_of.h"
#include "common/base/options.h"
#include "common/server/server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relay {
    struct input_handler_factory factory;
    struct server *server;
    struct log_limit log_limit;
    struct relay_targets targets;
};

struct relay_end {
    struct input_handler handler;
    struct channel_facade
        *other; /* the other end's channel, with a reference; NULL: not known yet */
};

/** The client's end. It is in the memory of the client's connection, and the server's end keeps a
 * reference to that. */
struct relay_client {
    struct relay_end end; /* first */
    struct relay *relay;
    struct channel_facade *channel;              /* its own */
    struct input_handler_factory server_factory; /* makes the server's end */
    size_t target;                               /* the one that was tried last */
    uint32_t tried;                              /* bits: targets */

    /* A name that is looked up: */
    struct channel_task lookup;
    struct endpoint found;
    int lookup_error; /* for gai_strerror(3) */

    /* From the server's end to this one: */
    struct channel_post news;
    int error;                     /* why there is no connection; 0: there is one */
    struct channel_facade *server; /* to that, with a reference */
};

struct relay_server {
    struct relay_end end; /* first */
    struct relay_client *client;
};

static struct relay_end *end_of(struct input_handler *handler)
{
    return container_of(handler, struct relay_end, handler);
}

static struct relay_client *client_of(struct input_handler *handler)
{
    return container_of(handler, struct relay_client, end.handler);
}

static struct relay_server *server_of(struct input_handler *handler)
{
    return container_of(handler, struct relay_server, end.handler);
}

/* ---- Both ends: bytes ----------------------------------------------------------------------- */

/* A message is all that has arrived. */
static enum framing_result next_bytes(struct input_handler *self, struct channel_facade *facade,
                                      struct message *bytes)
{
    struct input_queue *input = channel_input(facade);
    size_t length = input_queue_together(input);
    if (length == 0 || end_of(self)->other == NULL)
        return FRAMING_INCOMPLETE;
    return input_queue_dequeue(input, length, bytes) ? FRAMING_MESSAGE : FRAMING_NO_MEMORY;
}

/*
 * Between an enqueue that finds the output choked and the suspension that follows, the output may
 * drain, and then the `drained` that should resume this end comes too early. So this checks once
 * more.
 */
static void pass_bytes(const struct relay_end *end, struct message bytes,
                       struct channel_facade *facade)
{
    struct channel_facade *other = end->other;
    if (channel_enqueue(other, piece_copy(bytes)) != OUTPUT_CHOKED)
        return;
    channel_suspend(facade);
    if (channel_enqueue(other, piece_bytes("", 0)) != OUTPUT_CHOKED)
        channel_resume(facade);
}

static bool handle_bytes(struct input_handler *self, struct message bytes,
                         struct channel_facade *facade)
{
    pass_bytes(end_of(self), bytes, facade);
    return true;
}

/* Bytes cannot be refused: a stream with a gap is worse than none. They need no worker, either. */
static void pass_refused_bytes(struct input_handler *self, struct message bytes,
                               struct channel_facade *facade)
{
    pass_bytes(end_of(self), bytes, facade);
}

/* This end's output has room again, so the other one may send. */
static void resume_other(struct input_handler *self, struct channel_facade *facade)
{
    struct channel_facade *other = end_of(self)->other;
    (void)facade;
    if (other != NULL)
        channel_resume(other);
}

static void pass_end(struct input_handler *self, struct channel_facade *facade)
{
    struct channel_facade *other = end_of(self)->other;
    if (other != NULL)
        channel_finish(other);
    else
        channel_close(facade);
}

static void end_both(struct input_handler *self, struct channel_facade *facade)
{
    struct channel_facade *other = end_of(self)->other;
    (void)facade;
    if (other == NULL)
        return;
    channel_close(other);
    channel_release(other);
}

/* ---- The client's end: looks for a server --------------------------------------------------- */

static void tell_failure(struct relay_client *client, const char *verb, const char *reason)
{
    struct relay *relay = client->relay;
    relay_targets_give_back(&relay->targets, client->target);
    log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN, "cannot %s %s: %s", verb,
                relay->targets.all[client->target].name, reason);
}

static void tell_refusal(struct relay_client *client, int error)
{
    tell_failure(client, "connect to", strerror(error));
}

/* False: the target cannot be connected to, and the next one is to be tried. */
static bool connect_to(struct relay_client *client, const struct endpoint *address) NO_LOCK_HELD
{
    int error = channel_connect(client->channel, address, &client->server_factory);
    if (error != 0)
        tell_refusal(client, error);
    return error == 0;
}

/* In a helper's thread. The target does not change while its name is looked up. */
static void look_up(struct channel_task *task)
{
    struct relay_client *client = container_of(task, struct relay_client, lookup);
    const char *name = client->relay->targets.all[client->target].name;
    client->lookup_error = host_port_look_up(name, &client->found);
}

/* Begins to connect to the next target, or to look its name up, until one lets it begin. */
static void connect_next(struct relay_client *client) NO_LOCK_HELD
{
    struct relay_targets *targets = &client->relay->targets;
    struct endpoint address;
    do {
        client->target = relay_targets_choose(targets, client->tried);
        if (client->target == RELAY_NO_TARGET) {
            channel_close(client->channel);
            return;
        }
        client->tried |= UINT32_C(1) << client->target;
        if (!relay_targets_address(targets, client->target, &address)) {
            channel_begin(client->channel, &client->lookup, CHANNEL_WAITS);
            return;
        }
    } while (!connect_to(client, &address));
}

/* An old address is better than none: the name's server may be out of order, and the target not. */
static void hear_lookup(struct channel_task *task, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = container_of(task, struct relay_client, lookup);
    struct relay_targets *targets = &client->relay->targets;
    bool is_known = true;
    (void)facade;
    if (client->lookup_error == 0)
        relay_targets_found(targets, client->target, &client->found);
    else
        is_known = relay_targets_not_found(targets, client->target, &client->found);
    if (!is_known)
        tell_failure(client, "find", gai_strerror(client->lookup_error));
    if (!is_known || !connect_to(client, &client->found))
        connect_next(client);
}

/* The client has gone meanwhile. */
static void drop_lookup(struct channel_task *task)
{
    struct relay_client *client = container_of(task, struct relay_client, lookup);
    relay_targets_give_back(&client->relay->targets, client->target);
}

/* In the client's context. The server may have sent already, and wait for this end to drain. */
static void hear_news(struct channel_post *news, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = container_of(news, struct relay_client, news);
    if (client->error != 0) {
        tell_refusal(client, client->error);
        connect_next(client);
    } else {
        client->end.other = client->server;
        channel_resume(facade);
        channel_resume(client->server);
    }
}

/* The client has gone meanwhile. */
static void drop_news(struct channel_post *news)
{
    struct relay_client *client = container_of(news, struct relay_client, news);
    if (client->error != 0) {
        tell_refusal(client, client->error);
    } else {
        channel_close(client->server);
        channel_release(client->server);
    }
}

static void client_starting(struct input_handler *self, struct channel_facade *facade)
{
    client_of(self)->channel = facade;
    channel_suspend(facade);
}

static void client_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    connect_next(client_of(self));
}

static const struct input_handler_verbs client_verbs = {.next_message = next_bytes,
                                                        .handle_input = handle_bytes,
                                                        .refuse_input = pass_refused_bytes,
                                                        .drained = resume_other,
                                                        .duplex = true,
                                                        .starting = client_starting,
                                                        .started = client_started,
                                                        .end_of_input = pass_end,
                                                        .stopped = end_both};

/* ---- The server's end: tells the client's whether there is one ------------------------------ */

static void server_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = server_of(self)->client;
    channel_retain(facade);
    client->server = facade;
    client->error = 0;
    channel_post(client->channel, &client->news);
}

static void server_not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    struct relay_client *client = server_of(self)->client;
    struct channel_facade *channel = client->channel;
    client->error = error;
    channel_post(channel, &client->news);
    channel_release(channel);
}

static void server_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct relay_client *client = server_of(self)->client;
    relay_targets_give_back(&client->relay->targets, client->target);
    end_both(self, facade);
}

static const struct input_handler_verbs server_verbs = {.next_message = next_bytes,
                                                        .handle_input = handle_bytes,
                                                        .refuse_input = pass_refused_bytes,
                                                        .drained = resume_other,
                                                        .duplex = true,
                                                        .not_connected = server_not_connected,
                                                        .started = server_started,
                                                        .end_of_input = pass_end,
                                                        .stopped = server_stopped};

/* In the client's context, by channel_connect(). */
static struct input_handler *create_server(struct input_handler_factory *factory, void *memory)
{
    struct relay_server *server = memory;
    server->client = container_of(factory, struct relay_client, server_factory);
    server->end.handler.verbs = &server_verbs;
    server->end.other = server->client->channel;
    channel_retain(server->end.other);
    return &server->end.handler;
}

/* ---- The application ------------------------------------------------------------------------ */

static struct input_handler *create(struct input_handler_factory *factory, void *memory)
{
    struct relay_client *client = memory;
    client->end.handler.verbs = &client_verbs;
    client->relay = container_of(factory, struct relay, factory);
    client->server_factory = (struct input_handler_factory){
        .handler_size = sizeof(struct relay_server), .create = create_server};
    client->news = (struct channel_post){.run = hear_news, .dropped = drop_news};
    client->lookup =
        (struct channel_task){.run = look_up, .completed = hear_lookup, .dropped = drop_lookup};
    return &client->end.handler;
}

static void relay_close(struct input_handler_factory *factory)
{
    struct relay *relay = container_of(factory, struct relay, factory);
    relay_targets_close(&relay->targets);
    free(relay);
}

/* --to; NULL: not given. */
static const char *chosen_targets;

static struct input_handler_factory *relay_open(struct server *server)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return NULL;
    relay->factory = (struct input_handler_factory){.handler_size = sizeof(struct relay_client),
                                                    .create = create};
    relay->server = server;
    if (relay_targets_open(&relay->targets, chosen_targets, server->name))
        return &relay->factory;
    free(relay);
    errno = 0; /* the reason was printed */
    return NULL;
}

static void relay_options(struct options *options)
{
    options_add(options,
                (struct option){.name = "--to",
                                .value = "TARGETS",
                                .default_text = "none",
                                .help = "relay: servers to connect to, HOST:PORT,HOST:PORT",
                                .expects = "HOST:PORT, with an IPv6 address in brackets, or "
                                           "up to 16 with commas between them, or none",
                                .parse = relay_targets_parse,
                                .target = &chosen_targets});
}

const struct application relay_application = {
    .name = "relay",
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_POST | OFFERS_CONNECTIONS,
    .ordered_answers = true, /* a message that is dropped would be a gap in a stream */
    .descriptors = 2,
    .options = relay_options,
    .open = relay_open,
    .close = relay_close,
};
