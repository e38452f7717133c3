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
 * - `stopped` closes the other channel, so either end ends both; or resets it, if this one was cut
 *   off in the middle of a stream.
 *
 * The client's end asks for the server's: it connects to the target with the fewest connections,
 * to one address of it after the other, and to the next target if none of them answers. Until one
 * has, nothing is read from the client. --connect-timeout is the time for a target, its name
 * included.
 *
 * Interface: --to names the targets. A name is looked up when a client needs it, and again when its
 * addresses are half a minute old (relay_targets.h).
 */
#include "common/apps/application.h"
#include "common/apps/relay/relay_targets.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/options.h"
#include "common/server/channel_calls.h"
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
    struct relay_targets *targets;
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
    size_t addresses;                            /* so many of that one's were tried */
    int64_t until;                               /* when its time is over; ms of clock_ms() */

    /* A name that is looked up: */
    struct relay_waiter waiter;
    struct channel_timer timer;

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
    size_t length = input_queue_length(input);
    if (length == 0 || end_of(self)->other == NULL)
        return FRAMING_INCOMPLETE;
    *bytes = input_queue_dequeue(input, length);
    return FRAMING_MESSAGE;
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

/* Whether a stream is not whole: its end was neither the peer's own nor asked for. */
static bool was_cut(struct channel_facade *facade)
{
    enum end_reason reason = channel_end_reason(facade);
    return reason != END_PEER_CLOSED && reason != END_CLOSED && reason != END_SERVER;
}

/* Of a peer that was lost some bytes may wait here, read and not passed on. */
static void pass_rest(struct input_handler *self, struct channel_facade *facade)
{
    struct message bytes;
    while (next_bytes(self, facade, &bytes) == FRAMING_MESSAGE)
        channel_enqueue(end_of(self)->other, piece_copy(bytes));
}

static void pass_end(struct input_handler *self, struct channel_facade *facade)
{
    struct channel_facade *other = end_of(self)->other;
    if (other == NULL) {
        channel_close(facade);
        return;
    }
    pass_rest(self, facade);
    if (!was_cut(facade))
        channel_finish(other);
}

static void end_both(struct input_handler *self, struct channel_facade *facade)
{
    struct channel_facade *other = end_of(self)->other;
    if (other == NULL)
        return;
    if (was_cut(facade))
        channel_reset(other);
    else
        channel_close(other);
    channel_release(other);
}

/* ---- The client's end: looks for a server --------------------------------------------------- */

/* A target that is a name has several addresses, so it is said which one. */
static void report_refusal(const struct relay_client *client, int error)
{
    struct relay *relay = client->relay;
    const struct relay_target *target = &relay->targets->all[client->target];
    struct endpoint address;
    char place[ENDPOINT_TEXT_SIZE];
    if (target->is_name && relay_targets_address(relay->targets, client->target,
                                                 client->addresses - 1, &address) > 0) {
        endpoint_format(&address, place);
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN,
                    "cannot connect to %s at %s: %s", target->name, place, strerror(error));
    } else {
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN,
                    "cannot connect to %s: %s", target->name, strerror(error));
    }
}

/* How long the next address may take: each of those that are left has an equal part of the time. */
static int64_t time_for_address(const struct relay_client *client, size_t left)
{
    if (client->relay->server->settings.connect_timeout == 0)
        return 0;
    int64_t time = (client->until - clock_ms()) / (int64_t)left;
    return time > 0 ? time : 1; /* 0 would be no limit */
}

/* Begins to connect to the target's next address. False: there is none, and it is given back. */
static bool connect_to_target(struct relay_client *client) NO_LOCK_HELD
{
    struct relay_targets *targets = client->relay->targets;
    struct endpoint address;
    size_t left;
    while ((left = relay_targets_address(targets, client->target, client->addresses, &address)) >
           0) {
        client->addresses++;
        int error = channel_connect(client->channel, &address, time_for_address(client, left),
                                    &client->server_factory);
        if (error == 0)
            return true;
        report_refusal(client, error);
    }
    relay_targets_give_back(targets, client->target);
    return false;
}

/*
 * Waits for the target's name, but not for ever. If old addresses are known, it waits for half the
 * time, so that one of them can be tried in the other half.
 */
static void wait_for_name(struct relay_client *client)
{
    struct endpoint address;
    int64_t timeout = client->relay->server->settings.connect_timeout;
    bool has_old = relay_targets_address(client->relay->targets, client->target, 0, &address) > 0;
    if (timeout > 0)
        channel_set_timer(client->channel, &client->timer, has_old ? timeout / 2 : timeout);
}

/* Begins to connect to the next target, or to look its name up, until one lets it begin. */
static void connect_next(struct relay_client *client) NO_LOCK_HELD
{
    struct relay *relay = client->relay;
    do {
        client->target = relay_targets_choose(relay->targets, client->tried);
        if (client->target == RELAY_NO_TARGET) {
            channel_close(client->channel);
            return;
        }
        client->tried |= UINT32_C(1) << client->target;
        client->addresses = 0;
        client->until = clock_ms() + relay->server->settings.connect_timeout;
        if (!relay_targets_find(relay->targets, client->target, &client->waiter, client->channel)) {
            wait_for_name(client);
            return;
        }
    } while (!connect_to_target(client));
}

/* The name's addresses are known, old ones perhaps, or it has none; why, says the reason then. */
static void go_on(struct relay_client *client, const char *reason) NO_LOCK_HELD
{
    struct relay *relay = client->relay;
    struct endpoint address;
    if (relay_targets_address(relay->targets, client->target, 0, &address) == 0)
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN, "cannot find %s: %s",
                    relay->targets->all[client->target].name, reason);
    if (!connect_to_target(client))
        connect_next(client);
}

static void hear_lookup(struct channel_post *post, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = container_of(post, struct relay_client, waiter.post);
    channel_cancel_timer(facade, &client->timer);
    go_on(client, gai_strerror(relay_targets_error(client->relay->targets, client->target)));
}

/* The client has gone meanwhile. */
static void drop_lookup(struct channel_post *post)
{
    struct relay_client *client = container_of(post, struct relay_client, waiter.post);
    relay_targets_give_back(client->relay->targets, client->target);
}

/* The lookup takes too long. If it is over just now, hear_lookup() comes. */
static void give_up_lookup(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = container_of(timer, struct relay_client, timer);
    (void)facade;
    if (relay_targets_stop_waiting(client->relay->targets, &client->waiter))
        go_on(client, strerror(ETIMEDOUT));
}

/* In the client's context. The server may have sent already, and wait for this end to drain. */
static void hear_news(struct channel_post *news, struct channel_facade *facade) NO_LOCK_HELD
{
    struct relay_client *client = container_of(news, struct relay_client, news);
    if (client->error != 0) {
        report_refusal(client, client->error);
        if (!connect_to_target(client))
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
        report_refusal(client, client->error);
        relay_targets_give_back(client->relay->targets, client->target);
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

static void client_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct relay_client *client = client_of(self);
    if (relay_targets_stop_waiting(client->relay->targets, &client->waiter))
        relay_targets_give_back(client->relay->targets, client->target);
    end_both(self, facade);
}

static const struct input_handler_verbs client_verbs = {.next_message = next_bytes,
                                                        .handle_input = handle_bytes,
                                                        .refuse_input = pass_refused_bytes,
                                                        .drained = resume_other,
                                                        .duplex = true,
                                                        .starting = client_starting,
                                                        .started = client_started,
                                                        .end_of_input = pass_end,
                                                        .stopped = client_stopped};

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
    relay_targets_give_back(client->relay->targets, client->target);
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
    client->waiter.post = (struct channel_post){.run = hear_lookup, .dropped = drop_lookup};
    client->timer.fired = give_up_lookup;
    return &client->end.handler;
}

static void relay_close(struct input_handler_factory *factory)
{
    struct relay *relay = container_of(factory, struct relay, factory);
    relay_targets_close(relay->targets);
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
    relay->targets = relay_targets_open(chosen_targets, server->name);
    if (relay->targets != NULL)
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
    .needs = OFFERS_OUTPUT_FROM_ELSEWHERE | OFFERS_TIMERS | OFFERS_POST | OFFERS_CONNECTIONS,
    .descriptors = 2,
    .options = relay_options,
    .open = relay_open,
    .close = relay_close,
};
