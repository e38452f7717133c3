/*
 * Each end touches its own fields only, and the other one's channel, whose verbs any thread may
 * call:
 *
 * - Bytes go into the other channel's output. If that is choked, this end suspends its input, and
 *   the `drained` of the other end resumes it.
 * - The end of input ends the other channel's output (channel_finish()).
 * - `stopped` closes the other channel, so either end ends both; or resets it, if this one was cut
 *   off in the middle of a stream.
 */
#include "common/apps/pair.h"

#include "common/server/input_handler_calls.h"

static struct pair_end *end_of(struct input_handler *handler)
{
    return container_of(handler, struct pair_end, handler);
}

static struct pair *pair_of(struct input_handler *handler)
{
    return container_of(handler, struct pair, client.handler);
}

/* ---- Both ends: bytes ----------------------------------------------------------------------- */

static enum framing_result next_bytes(struct channel_facade *facade, struct message *bytes)
{
    struct input_queue *input = channel_input(facade);
    size_t length = input_queue_length(input);
    if (length == 0)
        return FRAMING_INCOMPLETE;
    *bytes = input_queue_dequeue(input, length);
    return FRAMING_MESSAGE;
}

static enum framing_result next_message(struct input_handler *self, struct channel_facade *facade,
                                        struct message *message)
{
    struct pair_end *end = end_of(self);
    const struct pair_verbs *verbs = end->pair->verbs;
    if (end->other == NULL || end->has_broken)
        return FRAMING_INCOMPLETE;
    enum framing_result result = verbs->next_message != NULL
                                     ? verbs->next_message(self, facade, message)
                                     : next_bytes(facade, message);
    end->has_broken = result != FRAMING_MESSAGE && result != FRAMING_INCOMPLETE;
    return result;
}

/* Only a client is told: to a server it would be something that its client has said. */
enum framing_result pair_next_line(struct input_handler *self, struct channel_facade *facade,
                                   struct message *line)
{
    struct input_queue *input = channel_input(facade);
    return pair_is_client(end_of(self))
               ? input_handler_next_line(self, facade, line)
               : line_framing_next(input, line_framing_max_line(input), line);
}

/*
 * Between an enqueue that finds the output choked and the suspension that follows, the output may
 * drain, and then the `drained` that should resume this end comes too early. So this checks once
 * more.
 */
void pair_send(struct pair_end *from, struct piece piece)
{
    if (channel_enqueue(from->other, piece) != OUTPUT_CHOKED)
        return;
    channel_suspend(from->channel);
    if (channel_enqueue(from->other, piece_bytes("", 0)) != OUTPUT_CHOKED)
        channel_resume(from->channel);
}

static void pass(struct pair_end *end, struct message message)
{
    if (end->pair->verbs->pass != NULL)
        end->pair->verbs->pass(end->pair, end, message);
    else
        pair_send(end, piece_copy(message));
}

static bool handle_message(struct input_handler *self, struct message message,
                           struct channel_facade *facade)
{
    (void)facade;
    pass(end_of(self), message);
    return true;
}

/* It needs no worker, either. */
static void pass_refused(struct input_handler *self, struct message message,
                         struct channel_facade *facade)
{
    (void)facade;
    pass(end_of(self), message);
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

/* Of a peer that was lost something may wait here, read and not passed on. */
static void pass_rest(struct input_handler *self, struct channel_facade *facade)
{
    struct message message;
    while (next_message(self, facade, &message) == FRAMING_MESSAGE)
        pass(end_of(self), message);
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

static void end_both(struct pair_end *end)
{
    struct channel_facade *other = end->other;
    if (other == NULL)
        return;
    if (was_cut(end->channel))
        channel_reset(other);
    else
        channel_close(other);
    end->other = NULL;
    channel_release(other);
}

/* ---- The other end: tells the client's whether there is one ---------------------------------- */

static void server_starting(struct input_handler *self, struct channel_facade *facade)
{
    end_of(self)->channel = facade;
}

static void server_started(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    struct pair *pair = end_of(self)->pair;
    channel_retain(facade);
    pair->server = facade;
    pair->error = 0;
    channel_post(pair->client.channel, &pair->news);
}

static void server_not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    struct pair *pair = end_of(self)->pair;
    struct channel_facade *channel = pair->client.channel;
    pair->error = error;
    channel_post(channel, &pair->news);
    channel_release(channel);
}

static void server_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct pair *pair = end_of(self)->pair;
    (void)facade;
    if (pair->verbs->ended != NULL)
        pair->verbs->ended(pair, 0);
    end_both(end_of(self));
}

static struct input_handler_verbs server_verbs = {.next_message = next_message,
                                                  .handle_input = handle_message,
                                                  .refuse_input = pass_refused,
                                                  .drained = resume_other,
                                                  .duplex = true,
                                                  .not_connected = server_not_connected,
                                                  .starting = server_starting,
                                                  .started = server_started,
                                                  .end_of_input = pass_end,
                                                  .stopped = server_stopped};

/* In the client's context, by channel_connect(). */
static struct input_handler *create_server(struct input_handler_factory *factory, void *memory)
{
    struct pair_end *end = memory;
    struct pair *pair = container_of(factory, struct pair, factory);
    *end = (struct pair_end){.handler.verbs = input_handler_complete(&server_verbs),
                             .pair = pair,
                             .other = pair->client.channel};
    channel_retain(end->other);
    return &end->handler;
}

/* ---- The client's end ------------------------------------------------------------------------ */

/* In the client's context. The server may have sent already, and wait for this end to drain. */
static void hear_news(struct channel_post *news, struct channel_facade *facade) NO_LOCK_HELD
{
    struct pair *pair = container_of(news, struct pair, news);
    if (pair->error == 0) {
        pair->client.other = pair->server;
        channel_resume(facade);
        channel_resume(pair->server);
    } else if (pair->verbs->not_connected != NULL) {
        pair->verbs->not_connected(pair, pair->error);
    } else {
        channel_close(facade);
    }
}

/* The client has gone meanwhile. */
static void drop_news(struct channel_post *news)
{
    struct pair *pair = container_of(news, struct pair, news);
    if (pair->error == 0) {
        channel_close(pair->server);
        channel_release(pair->server);
    } else if (pair->verbs->ended != NULL) {
        pair->verbs->ended(pair, pair->error);
    }
}

static void client_starting(struct input_handler *self, struct channel_facade *facade)
{
    struct pair *pair = pair_of(self);
    const struct pairing *pairing = application_data(self);
    pair->client.pair = pair;
    pair->client.channel = facade;
    pair->verbs = pairing->verbs;
    pair->factory = (struct input_handler_factory){.handler_size = sizeof(struct pair_end),
                                                   .create = create_server};
    pair->news = (struct channel_post){.run = hear_news, .dropped = drop_news};
    channel_suspend(facade);
}

static void client_started(struct input_handler *self, struct channel_facade *facade)
{
    struct pair *pair = pair_of(self);
    (void)facade;
    pair->verbs->began(pair);
}

static void client_stopped(struct input_handler *self, struct channel_facade *facade)
{
    struct pair *pair = pair_of(self);
    (void)facade;
    if (pair->verbs->left != NULL)
        pair->verbs->left(pair);
    end_both(&pair->client);
}

static const char *fault_of(const struct application *application, const void *data)
{
    const struct pairing *pairing = data;
    if (application->start == NULL)
        return "expected a start that returns its pairing, got none";
    if (application->handler_size < sizeof(struct pair))
        return "expected the size of a struct that begins with a pair as handler_size, got less";
    if ((application->needs & PAIR_NEEDS) != PAIR_NEEDS)
        return "expected PAIR_NEEDS among its needs, got less";
    if (application->descriptors < 2)
        return "expected two descriptors or more for a pair, got less";
    if (pairing != NULL && (pairing->verbs == NULL || pairing->verbs->began == NULL))
        return "expected a began among the verbs of the pairing that start returns, got none";
    return NULL;
}

const struct input_handler_verbs pair_verbs_of_client = {.next_message = next_message,
                                                         .handle_input = handle_message,
                                                         .refuse_input = pass_refused,
                                                         .drained = resume_other,
                                                         .duplex = true,
                                                         .starting = client_starting,
                                                         .started = client_started,
                                                         .end_of_input = pass_end,
                                                         .stopped = client_stopped,
                                                         .fault = fault_of};

int pair_connect(struct pair *pair, const struct endpoint *to, int64_t timeout)
{
    return channel_connect(pair->client.channel, to, timeout, &pair->factory);
}
