/*
 * A relay: each client is connected to one of several servers, and bytes pass both ways until
 * either side ends (pair.h). It reads nothing of what passes.
 *
 * The client's end asks for the server's: it connects to the target with the fewest connections,
 * to one address of it after the other, and to the next target if none of them answers. Until one
 * has, nothing is read from the client. --connect-timeout is the time for a target, its name
 * included.
 *
 * Interface: --to names the targets. A name is looked up when a client needs it, and again when its
 * addresses are half a minute old (relay_targets.h).
 */
#include "common/apps/pair.h"
#include "common/apps/relay/relay_targets.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/base/options.h"
#include "common/server/server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relay {
    struct pairing pairing; /* first */
    struct server *server;
    struct log_limit log_limit;
    struct relay_targets *targets;
};

struct relay_client {
    struct pair pair; /* first */
    struct relay *relay;
    size_t target;    /* the one that was tried last */
    uint32_t tried;   /* bits: targets */
    size_t addresses; /* so many of that one's were tried */
    int64_t until;    /* when its time is over; ms of clock_ms() */

    /* A name that is looked up: */
    struct relay_waiter waiter;
    struct channel_timer timer;
};

static struct relay_client *client_of(struct pair *pair)
{
    return container_of(pair, struct relay_client, pair);
}

/* ---- Looking for a server -------------------------------------------------------------------- */

/* A target that is a name has several addresses, so it is said which one. */
static void report_refusal(const struct relay_client *client, int error)
{
    struct relay *relay = client->relay;
    const struct relay_target *target = &relay->targets->all[client->target];
    struct endpoint address;
    char place[ENDPOINT_TEXT_SIZE];
    char who[CHANNEL_TEXT_SIZE];
    channel_describe(client->pair.client.channel, who);
    if (target->is_name && relay_targets_address(relay->targets, client->target,
                                                 client->addresses - 1, &address) > 0) {
        endpoint_format(&address, place);
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN,
                    "event=connect_failed %s to=%s at=%s reason=\"%s\"", who, target->name, place,
                    strerror(error));
    } else {
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN,
                    "event=connect_failed %s to=%s reason=\"%s\"", who, target->name,
                    strerror(error));
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
        int error = pair_connect(&client->pair, &address, time_for_address(client, left));
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
        channel_set_timer(client->pair.client.channel, &client->timer,
                          has_old ? timeout / 2 : timeout);
}

/* Begins to connect to the next target, or to look its name up, until one lets it begin. */
static void connect_next(struct relay_client *client) NO_LOCK_HELD
{
    struct relay *relay = client->relay;
    do {
        client->target = relay_targets_choose(relay->targets, client->tried);
        if (client->target == RELAY_NO_TARGET) {
            channel_close(client->pair.client.channel);
            return;
        }
        client->tried |= UINT32_C(1) << client->target;
        client->addresses = 0;
        client->until = clock_ms() + relay->server->settings.connect_timeout;
        if (!relay_targets_find(relay->targets, client->target, &client->waiter,
                                client->pair.client.channel)) {
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
    if (relay_targets_address(relay->targets, client->target, 0, &address) == 0) {
        char who[CHANNEL_TEXT_SIZE];
        channel_describe(client->pair.client.channel, who);
        log_limited(&relay->server->log, &relay->log_limit, LOG_LEVEL_WARN,
                    "event=lookup_failed %s to=%s reason=\"%s\"", who,
                    relay->targets->all[client->target].name, reason);
    }
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

/* ---- What the pair tells --------------------------------------------------------------------- */

static void begin(struct pair *pair) NO_LOCK_HELD
{
    struct relay_client *client = client_of(pair);
    client->relay = application_data(&pair->client.handler);
    client->waiter.post = (struct channel_post){.run = hear_lookup, .dropped = drop_lookup};
    client->timer.fired = give_up_lookup;
    connect_next(client);
}

static void try_next(struct pair *pair, int error) NO_LOCK_HELD
{
    struct relay_client *client = client_of(pair);
    report_refusal(client, error);
    if (!connect_to_target(client))
        connect_next(client);
}

static void leave(struct pair *pair)
{
    struct relay_client *client = client_of(pair);
    struct relay_targets *targets = client->relay->targets;
    if (relay_targets_stop_waiting(targets, &client->waiter))
        relay_targets_give_back(targets, client->target);
}

static void end(struct pair *pair, int error)
{
    struct relay_client *client = client_of(pair);
    if (error != 0)
        report_refusal(client, error);
    relay_targets_give_back(client->relay->targets, client->target);
}

static const struct pair_verbs verbs = {
    .began = begin, .not_connected = try_next, .left = leave, .ended = end};

/* ---- The application ------------------------------------------------------------------------ */

static void finish(void *data)
{
    struct relay *relay = data;
    relay_targets_close(relay->targets);
    free(relay);
}

/* --to; NULL: not given. */
static const char *chosen_targets;

static void *start(struct server *server)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL)
        return NULL;
    relay->pairing.verbs = &verbs;
    relay->server = server;
    relay->targets = relay_targets_open(chosen_targets, server->name);
    if (relay->targets != NULL)
        return relay;
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
    .needs = PAIR_NEEDS | OFFERS_TIMERS,
    .descriptors = 2,
    .options = relay_options,
    .verbs = &pair_verbs_of_client,
    .handler_size = sizeof(struct relay_client),
    .start = start,
    .finish = finish,
};
