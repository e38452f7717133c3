/* Asks two servers each question, and answers when both have answered, or half a second is over. */
#include "common/apps/application.h"
#include "common/server/channel_calls.h"
#include "common/server/host_port.h"

#include <stdio.h>
#include <string.h>

enum { SERVERS = 2, LATE_MS = 500, TEXT_SIZE = 128 };

static const char *const servers[SERVERS] = {"127.0.0.1:7001", "127.0.0.1:7002"};

struct client;

/* A question that is asked, and what has come of it. */
struct asked {
    struct input_handler_factory factory; /* makes the server's handler */
    struct client *client;
    struct channel_post news; /* brings the answer into the client's context */
    char answer[TEXT_SIZE];
};

struct client {
    struct input_handler handler; /* first */
    struct channel_facade *facade;
    struct channel_hold hold;
    struct asked asked[SERVERS];
    int missing; /* so many answers */
    char question[TEXT_SIZE];
};

/* The handler of a connection to a server. */
struct server_end {
    struct input_handler handler; /* first */
    struct asked *asked;          /* with a reference to its client; NULL: it has told */
    struct channel_timer timer;
};

/* ---- A server's end: it tells once, whatever happens --------------------------------------- */

static void tell(struct server_end *end, const char *line) NO_LOCK_HELD
{
    struct asked *asked = end->asked;
    if (asked == NULL)
        return;
    end->asked = NULL;
    struct channel_facade *client = asked->client->facade;
    snprintf(asked->answer, sizeof(asked->answer), "%.*s", (int)strcspn(line, "\r\n"), line);
    channel_post(client, &asked->news);
    channel_release(client);
}

static void is_late(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD
{
    tell(container_of(timer, struct server_end, timer), "late");
    channel_close(facade);
}

static void server_started(struct input_handler *self, struct channel_facade *facade)
{
    struct server_end *end = (struct server_end *)self;
    end->timer.fired = is_late;
    channel_set_timer(facade, &end->timer, LATE_MS);
    channel_printf(facade, "%s", end->asked->client->question);
}

static bool server_answers(struct input_handler *self, struct message line,
                           struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    tell((struct server_end *)self, (const char *)line.data); /* a line has an end */
    return false;
}

static void server_stopping(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    tell((struct server_end *)self, "gone");
}

static void server_not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    (void)error;
    tell((struct server_end *)self, "not there");
}

static struct input_handler_verbs server_verbs = {.not_connected = server_not_connected,
                                                  .started = server_started,
                                                  .handle_input = server_answers,
                                                  .stopping = server_stopping};

static struct input_handler *create_server_end(struct input_handler_factory *factory, void *memory)
{
    struct server_end *end = memory;
    end->handler.verbs = input_handler_complete(&server_verbs);
    end->asked = container_of(factory, struct asked, factory);
    channel_retain(end->asked->client->facade);
    return &end->handler;
}

/* ---- The client's end: asks, holds, and counts ---------------------------------------------- */

static void hear_answer(struct channel_post *news, struct channel_facade *facade)
{
    struct client *client = container_of(news, struct asked, news)->client;
    if (--client->missing == 0)
        channel_go_on(facade, &client->hold);
}

static void has_gone(struct channel_post *news)
{
    (void)news;
}

static void answer_both(struct channel_hold *hold, struct channel_facade *facade)
{
    struct client *client = container_of(hold, struct client, hold);
    for (int i = 0; i < SERVERS; i++)
        channel_printf(facade, "%s: %s\n", servers[i], client->asked[i].answer);
}

static void ask(struct client *client, int i) NO_LOCK_HELD
{
    struct asked *asked = &client->asked[i];
    struct endpoint place;
    asked->client = client;
    asked->news.run = hear_answer;
    asked->news.dropped = has_gone;
    asked->factory.handler_size = sizeof(struct server_end);
    asked->factory.create = create_server_end;
    if (!host_port_read(servers[i], &place) ||
        channel_connect(client->facade, &place, LATE_MS, &asked->factory) != 0) {
        snprintf(asked->answer, sizeof(asked->answer), "not asked");
        channel_post(client->facade, &asked->news);
    }
}

static bool handle_input(struct input_handler *self, struct message line,
                         struct channel_facade *facade) NO_LOCK_HELD
{
    struct client *client = (struct client *)self;
    snprintf(client->question, sizeof(client->question), "%.*s", (int)line.length,
             (const char *)line.data);
    client->facade = facade;
    client->hold.went_on = answer_both;
    client->missing = SERVERS;
    channel_hold(facade, &client->hold);
    for (int i = 0; i < SERVERS; i++)
        ask(client, i);
    return true;
}

/* A client that has ended its half is answered all the same. */
static void left(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    (void)facade;
}

static const struct input_handler_verbs verbs = {.handle_input = handle_input, .left = left};

const struct application both_application = {
    .name = "both",
    .needs = OFFERS_CONNECTIONS | OFFERS_POST | OFFERS_TIMERS,
    .descriptors = 1 + SERVERS,
    .max_message = TEXT_SIZE - 1,
    .verbs = &verbs,
    .handler_size = sizeof(struct client),
};
