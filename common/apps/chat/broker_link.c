/*
 * The two connections to the broker: a connection that has subscribed may not send any other
 * command, so a second one sends all of them. The first one opens the second when its subscription
 * is confirmed, and when either ends, both do: then the next attempt begins after a pause, which
 * grows while attempts fail, and is not the same for two servers.
 *
 * When the server stops, the subscription ends like any connection. The other one is duplex and
 * stays until the last user has gone (broker_stop()), so that what he said last is passed on.
 */
#include "common/apps/chat/broker_parts.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"

#include <stdio.h>
#include <string.h>

/* The beginning of both handlers. What they hear is never refused (connection_must_run()). */
struct broker_end {
    struct input_handler handler; /* first */
    struct broker *broker;
    struct channel_facade *facade;
    unsigned attempt;
    struct resp_reader reader;
    struct resp_value value; /* the one that is handed over */
    int64_t left;            /* values of this answer that are still to come */
    bool is_renewal;         /* that is what it answers */
};

struct broker_subscriber {
    struct broker_end end;
    bool is_known;      /* the broker has the password, or wants none */
    bool is_message;    /* what comes now is one; otherwise it confirms the subscription */
    bool is_subscribed; /* once */
};

struct broker_commander {
    struct broker_end end;
};

static struct broker_end *end_of(struct input_handler *handler)
{
    return container_of(handler, struct broker_end, handler);
}

static struct broker_subscriber *subscriber_of(struct input_handler *handler)
{
    return container_of(handler, struct broker_subscriber, end.handler);
}

/* ---- Commands that wait --------------------------------------------------------------------- */

bool broker_send(struct broker *broker, struct broker_command command, const struct resp_text *text)
{
    if (broker->commands == NULL || text->failed || broker->count == BROKER_COMMANDS_MAX ||
        broker->waiting_bytes + text->length > broker->waiting_max)
        return false;
    enum output_result result =
        channel_enqueue(broker->commands, piece_bytes((const char *)text->data, text->length));
    if (result >= OUTPUT_REFUSED)
        return false;
    command.bytes = (uint32_t)text->length;
    command.sent = clock_ms();
    broker->waiting[(broker->first + broker->count++) % BROKER_COMMANDS_MAX] = command;
    broker->waiting_bytes += text->length;
    return true;
}

static bool take_command(struct broker *broker, struct broker_command *command)
    REQUIRES(&broker->lock)
{
    if (broker->count == 0)
        return false;
    *command = broker->waiting[broker->first];
    broker->first = (broker->first + 1) % BROKER_COMMANDS_MAX;
    broker->count--;
    broker->waiting_bytes -= command->bytes;
    return true;
}

/* What was not answered may have been done or not. */
static void drop_commands(struct broker *broker, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    struct broker_command command;
    while (take_command(broker, &command)) {
        if (command.kind == COMMAND_LINE)
            broker_lines_lost(broker, 1);
        if (command.kind == COMMAND_CLAIM)
            broker_claim_answered(broker, command.user, BROKER_AWAY, outbox);
    }
}

/* ---- Losing it ------------------------------------------------------------------------------ */

/* xorshift64 */
static uint64_t next_random(struct broker *broker) REQUIRES(&broker->lock)
{
    broker->random ^= broker->random << 13;
    broker->random ^= broker->random >> 7;
    broker->random ^= broker->random << 17;
    return broker->random;
}

/* From half of the pause to all of it; the next one is twice as long. */
static int64_t choose_pause(struct broker *broker, int64_t now) REQUIRES(&broker->lock)
{
    if (broker->state == BROKER_UP && now - broker->up_since >= broker->lease)
        broker->pause = BROKER_PAUSE_MIN;
    int64_t pause = broker->pause;
    broker->pause = 2 * pause < BROKER_PAUSE_MAX ? 2 * pause : BROKER_PAUSE_MAX;
    return pause / 2 + (int64_t)(next_random(broker) % (uint64_t)(pause / 2 + 1));
}

void broker_lose(struct broker *broker, unsigned attempt, const char *reason,
                 struct broker_outbox *outbox)
{
    int64_t now = clock_ms();
    if (!broker->is_attempted || attempt != broker->attempt)
        return;
    int64_t pause = choose_pause(broker, now);
    broker->is_attempted = false;
    broker->next_attempt = now + pause;
    outbox->closing[0] = broker->subscription;
    outbox->closing[1] = broker->commands;
    broker->subscription = NULL;
    broker->commands = NULL;
    broker->no_echo_since = 0;
    drop_commands(broker, outbox);
    if (broker->is_stopping || signals_stop_came())
        return;
    log_limited(&broker->server->log, &broker->log_limit, LOG_LEVEL_WARN,
                "event=broker_down reason=\"%s\" again_ms=%d", reason, (int)pause);
    if (broker->user_count > 0)
        broker_go_down(broker, outbox);
    else if (broker->state == BROKER_UP)
        broker->state = BROKER_TRYING;
}

/* The same for the connection that the handler is of. */
static void lose(struct broker_end *end, const char *reason) NO_LOCK_HELD
{
    struct broker *broker = end->broker;
    struct broker_outbox outbox = {0};
    mutex_lock(&broker->lock);
    broker_lose(broker, end->attempt, reason, &outbox);
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
}

/* ---- Both ends ------------------------------------------------------------------------------ */

static enum framing_result next_value(struct input_handler *self, struct channel_facade *facade,
                                      struct message *message)
{
    struct broker_end *end = end_of(self);
    enum resp_result result = resp_next(&end->reader, channel_input(facade), &end->value);
    *message = end->value.text;
    switch (result) {
    case RESP_VALUE: return FRAMING_MESSAGE;
    case RESP_MORE: return FRAMING_INCOMPLETE;
    case RESP_BAD: break;
    }
    return FRAMING_TOO_LONG; /* nothing more is read, and it is closed */
}

static void begin_end(struct broker_end *end, struct broker *broker,
                      const struct input_handler_verbs *verbs) REQUIRES(&broker->lock)
{
    end->handler.verbs = verbs;
    end->broker = broker;
    end->attempt = broker->attempt;
    end->reader.max_bulk = broker->max_line + BROKER_LINE_ROOM;
}

/* An error text of the broker's, for the log. */
static void lose_by_error(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    char reason[96];
    size_t length = text.length < sizeof(reason) - 1 ? text.length : sizeof(reason) - 1;
    for (size_t i = 0; i < length; i++)
        reason[i] = text.data[i] >= ' ' && text.data[i] <= '~' ? (char)text.data[i] : '?';
    reason[length] = '\0';
    lose(end, reason);
}

static void end_not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    lose(end_of(self), strerror(error));
}

static void end_stopped(struct input_handler *self, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    lose(end_of(self), "the connection has ended");
}

/* ---- The subscription ----------------------------------------------------------------------- */

static void subscriber_started(struct input_handler *self,
                               struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_subscriber *subscriber = subscriber_of(self);
    struct broker_end *end = &subscriber->end;
    struct broker *broker = end->broker;
    struct resp_text text = {0};
    end->facade = facade;
    mutex_lock(&broker->lock);
    bool is_wanted = broker->is_attempted && end->attempt == broker->attempt;
    if (is_wanted) {
        broker->subscription = facade;
        channel_retain(facade);
    }
    mutex_unlock(&broker->lock);
    if (!is_wanted) {
        channel_close(facade);
        return;
    }
    subscriber->is_known = broker->password[0] == '\0';
    if (!subscriber->is_known) {
        resp_command(&text, 2);
        resp_string(&text, "AUTH");
        resp_string(&text, broker->password);
    }
    resp_command(&text, 2);
    resp_string(&text, "SUBSCRIBE");
    resp_string(&text, BROKER_CHANNEL);
    channel_enqueue(facade, piece_bytes((const char *)text.data, text.failed ? 0 : text.length));
    if (text.length > 0)
        explicit_bzero(text.data, text.length);
    resp_free(&text);
}

/* Both connections of an attempt go to one address; the next attempt tries the next one. */
static int connect_to(struct broker *broker, struct channel_facade *facade, unsigned attempt,
                      struct input_handler_factory *factory) NO_LOCK_HELD
{
    const struct host_port_addresses *addresses = &broker->addresses;
    return channel_connect(facade, &addresses->all[(attempt - 1) % addresses->count],
                           broker->server->settings.connect_timeout, factory);
}

/* Now the other connection. */
static void go_on(struct broker_subscriber *subscriber) NO_LOCK_HELD
{
    struct broker_end *end = &subscriber->end;
    struct broker *broker = end->broker;
    if (subscriber->is_subscribed)
        return;
    subscriber->is_subscribed = true;
    int error = connect_to(broker, end->facade, end->attempt, &broker->commander);
    if (error != 0)
        lose(end, strerror(error));
}

static void hear(struct broker_end *end, struct message message) NO_LOCK_HELD
{
    struct broker *broker = end->broker;
    struct broker_outbox outbox = {0};
    mutex_lock(&broker->lock);
    if (broker->is_attempted && end->attempt == broker->attempt)
        broker_hear(broker, message, &outbox);
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
}

static bool is_word(struct message text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

/* A value that is no part of an array. */
static bool begin_push(struct broker_subscriber *subscriber) NO_LOCK_HELD
{
    const struct resp_value *value = &subscriber->end.value;
    if (value->type == RESP_STRING && !subscriber->is_known) {
        subscriber->is_known = true;
        return true;
    }
    if (value->type == RESP_ERROR) {
        lose_by_error(&subscriber->end, value->text);
        return true;
    }
    subscriber->end.left = 3;
    return value->type == RESP_ARRAY && value->number == 3;
}

/* `message CHANNEL TEXT`, or `subscribe CHANNEL 1`. */
static bool go_on_with_push(struct broker_subscriber *subscriber) NO_LOCK_HELD
{
    const struct resp_value *value = &subscriber->end.value;
    switch (subscriber->end.left--) {
    case 3:
        subscriber->is_message = is_word(value->text, "message");
        return value->type == RESP_BULK &&
               (subscriber->is_message || is_word(value->text, "subscribe"));
    case 2: return value->type == RESP_BULK;
    default: break;
    }
    if (!subscriber->is_message) {
        go_on(subscriber);
        return value->type == RESP_INTEGER;
    }
    if (value->type == RESP_BULK)
        hear(&subscriber->end, value->text);
    return value->type == RESP_BULK || value->type == RESP_LONG; /* which counts as missed */
}

static bool subscriber_hears(struct input_handler *self, struct message message,
                             struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_subscriber *subscriber = subscriber_of(self);
    (void)message;
    (void)facade;
    bool is_right =
        subscriber->end.left == 0 ? begin_push(subscriber) : go_on_with_push(subscriber);
    if (!is_right)
        lose(&subscriber->end, "it does not speak RESP2");
    return true;
}

static void subscriber_stopping(struct input_handler *self,
                                struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_end *end = end_of(self);
    (void)facade;
    if (signals_stop_came())
        broker_stop(end->broker);
    else
        lose(end, "the subscription has ended");
}

/* With nobody else to end it: the other connection stays while the server stops. */
static void subscriber_stopped(struct input_handler *self,
                               struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_end *end = end_of(self);
    mutex_lock(&end->broker->lock);
    bool is_alone = end->broker->commands == NULL;
    mutex_unlock(&end->broker->lock);
    (void)facade;
    if (is_alone)
        lose(end, "the subscription has ended");
}

static const struct input_handler_verbs subscriber_verbs = {.next_message = next_value,
                                                            .handle_input = subscriber_hears,
                                                            .not_connected = end_not_connected,
                                                            .started = subscriber_started,
                                                            .stopping = subscriber_stopping,
                                                            .stopped = subscriber_stopped};

static struct input_handler *create_subscriber(struct input_handler_factory *factory, void *memory)
{
    struct broker_subscriber *subscriber = memory;
    struct broker *broker = container_of(factory, struct broker, subscriber);
    mutex_lock(&broker->lock);
    begin_end(&subscriber->end, broker, &subscriber_verbs);
    mutex_unlock(&broker->lock);
    return &subscriber->end.handler;
}

/* ---- The commands --------------------------------------------------------------------------- */

/* The password, and a first message, whose echo tells that all is well. */
static void say_hello(struct broker *broker) REQUIRES(&broker->lock)
{
    struct resp_text text = {0};
    if (broker->password[0] != '\0') {
        resp_command(&text, 2);
        resp_string(&text, "AUTH");
        resp_string(&text, broker->password);
        broker_send(broker, (struct broker_command){.kind = COMMAND_OTHER}, &text);
        if (text.length > 0)
            explicit_bzero(text.data, text.length);
        resp_free(&text);
    }
    broker_publish(broker, '?', "*", 1);
}

static void commander_started(struct input_handler *self,
                              struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_end *end = end_of(self);
    struct broker *broker = end->broker;
    end->facade = facade;
    mutex_lock(&broker->lock);
    bool is_wanted = broker->is_attempted && end->attempt == broker->attempt;
    if (is_wanted) {
        broker->commands = facade;
        channel_retain(facade);
        say_hello(broker);
    }
    mutex_unlock(&broker->lock);
    if (!is_wanted)
        channel_close(facade);
}

/* An answer, or the head of one. */
static void answer(struct broker *broker, const struct broker_command *command,
                   const struct resp_value *value, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    switch (command->kind) {
    case COMMAND_LINE:
        if (value->type == RESP_INTEGER)
            counters_add(&broker->server->counters, COUNTER_LINES_PUBLISHED, 1);
        else
            broker_lines_lost(broker, 1);
        break;
    case COMMAND_CLAIM:
        broker_claim_answered(broker, command->user,
                              value->type != RESP_ARRAY ? BROKER_AWAY
                              : value->number == 0      ? BROKER_GRANTED
                                                        : BROKER_TAKEN,
                              outbox);
        break;
    case COMMAND_RENEW:
    case COMMAND_OTHER: break;
    }
}

/* False: nobody has asked for that. */
static bool take_answer(struct broker_end *end, struct broker *broker, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    const struct resp_value *value = &end->value;
    struct broker_command command;
    if (end->left > 0) {
        end->left--;
        if (value->type == RESP_BULK && end->is_renewal)
            broker_lease_lost(broker, value->text, outbox);
        return value->type != RESP_ARRAY;
    }
    if (!take_command(broker, &command))
        return false;
    answer(broker, &command, value, outbox);
    end->left = value->type == RESP_ARRAY ? value->number : 0;
    end->is_renewal = command.kind == COMMAND_RENEW;
    return end->left <= BROKER_RENEWED_AT_ONCE;
}

static bool commander_hears(struct input_handler *self, struct message message,
                            struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker_end *end = end_of(self);
    struct broker *broker = end->broker;
    struct broker_outbox outbox = {0};
    (void)message;
    (void)facade;
    mutex_lock(&broker->lock);
    bool is_present = broker->is_attempted && end->attempt == broker->attempt;
    bool is_right = !is_present || take_answer(end, broker, &outbox);
    bool is_refused = is_present && broker->state != BROKER_UP && end->value.type == RESP_ERROR;
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
    if (is_refused)
        lose_by_error(end, end->value.text);
    else if (!is_right)
        lose(end, "it does not speak RESP2");
    return true;
}

static void commander_end_of_input(struct input_handler *self,
                                   struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    lose(end_of(self), "the connection was closed");
}

static const struct input_handler_verbs commander_verbs = {.next_message = next_value,
                                                           .handle_input = commander_hears,
                                                           .duplex = true,
                                                           .not_connected = end_not_connected,
                                                           .started = commander_started,
                                                           .end_of_input = commander_end_of_input,
                                                           .stopped = end_stopped};

static struct input_handler *create_commander(struct input_handler_factory *factory, void *memory)
{
    struct broker_commander *commander = memory;
    struct broker *broker = container_of(factory, struct broker, commander);
    mutex_lock(&broker->lock);
    begin_end(&commander->end, broker, &commander_verbs);
    mutex_unlock(&broker->lock);
    return &commander->end.handler;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

void broker_link_init(struct broker *broker)
{
    broker->subscriber = (struct input_handler_factory){
        .handler_size = sizeof(struct broker_subscriber), .create = create_subscriber};
    broker->commander = (struct input_handler_factory){
        .handler_size = sizeof(struct broker_commander), .create = create_commander};
}

void broker_connect(struct broker *broker, struct channel_facade *facade, unsigned attempt)
{
    struct broker_outbox outbox = {0};
    int error = connect_to(broker, facade, attempt, &broker->subscriber);
    if (error == 0)
        return;
    mutex_lock(&broker->lock);
    broker_lose(broker, attempt, strerror(error), &outbox);
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
}
