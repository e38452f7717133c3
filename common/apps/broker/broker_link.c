/*
 * The two connections to the broker: a connection that has subscribed may not send any other
 * command, so a second one sends all of them. The first one opens the second when its subscription
 * is confirmed, and when either ends, both do: then the next attempt begins after a pause, which
 * grows while attempts fail, and is not the same for two servers.
 *
 * Both are members of a group in the chat's strand: there they join, are heard, and leave. What
 * comes out of their input is found by the connection's own handler.
 *
 * When the server stops, the subscription ends like any connection. The other one is duplex and
 * stays until the last user has gone, so that what he said last is passed on.
 */
#include "common/apps/broker/broker.h"
#include "common/base/clock.h"
#include "common/base/log_value.h"

#include <stdio.h>
#include <string.h>

/* What the handlers of both begin with. What they hear is never refused (connection_must_run()). */
struct broker_end {
    struct strand_member member; /* first */
    struct broker *broker;
    unsigned attempt;
    bool is_subscriber;
    struct resp_reader reader;
    struct resp_value value; /* the one that is handed over */
    int64_t left;            /* values of this answer, or message, that are still to come */

    /* The subscription's. */
    bool is_known;      /* the broker has the password, or wants none */
    bool is_message;    /* what comes now is one; otherwise it confirms the subscription */
    bool is_subscribed; /* once */

    /* The commands'. */
    bool is_renewal; /* that is what is answered */
};

static struct broker_end *end_of(struct strand_member *member)
{
    return container_of(member, struct broker_end, member);
}

static struct broker_end *end_behind(struct input_handler *handler)
{
    return end_of(container_of(handler, struct strand_member, handler));
}

static bool is_present(const struct broker_end *end)
{
    return end->broker->is_attempted && end->attempt == end->broker->attempt;
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
static void drop_commands(struct broker *broker) NO_LOCK_HELD
{
    struct broker_command command;
    while (take_command(broker, &command)) {
        if (command.kind == COMMAND_LINE)
            broker_lines_lost(broker, 1);
        if (command.kind == COMMAND_CLAIM)
            broker_claim_answered(broker, command.user, BROKER_AWAY);
    }
}

/* ---- Losing it ------------------------------------------------------------------------------ */

/* xorshift64 */
static uint64_t next_random(struct broker *broker)
{
    broker->random ^= broker->random << 13;
    broker->random ^= broker->random >> 7;
    broker->random ^= broker->random << 17;
    return broker->random;
}

/* From half of the pause to all of it; the next one is twice as long. */
static int64_t choose_pause(struct broker *broker, int64_t now)
{
    if (broker->state == BROKER_UP && now - broker->up_since >= broker->lease)
        broker->pause = BROKER_PAUSE_MIN;
    int64_t pause = broker->pause;
    broker->pause = 2 * pause < BROKER_PAUSE_MAX ? 2 * pause : BROKER_PAUSE_MAX;
    return pause / 2 + (int64_t)(next_random(broker) % (uint64_t)(pause / 2 + 1));
}

static void close_end(struct channel_facade **facade)
{
    if (*facade != NULL)
        channel_close(*facade);
    *facade = NULL;
}

void broker_lose(struct broker *broker, unsigned attempt, const char *reason)
{
    int64_t now = clock_ms();
    if (!broker->is_attempted || attempt != broker->attempt)
        return;
    int64_t pause = choose_pause(broker, now);
    broker->is_attempted = false;
    broker->next_attempt = now + pause;
    broker->no_echo_since = 0;
    close_end(&broker->subscription);
    close_end(&broker->commands);
    if (!broker->chat.is_stopping) {
        log_limited(&broker->chat.server->log, &broker->log_limit, LOG_LEVEL_WARN,
                    "event=broker_down reason=\"%s\" again_ms=%d", reason, (int)pause);
        broker_go_down(broker);
    }
    drop_commands(broker);
}

/* The same for the connection that the handler is of. */
static void lose(struct broker_end *end, const char *reason) NO_LOCK_HELD
{
    broker_lose(end->broker, end->attempt, reason);
}

/* An error text of the broker's, for the log. */
static void lose_by_error(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    char reason[96];
    log_value(reason, sizeof(reason), text.data, text.length);
    lose(end, reason);
}

/* ---- The subscription ----------------------------------------------------------------------- */

static void subscribe(struct broker_end *end) NO_LOCK_HELD
{
    struct broker *broker = end->broker;
    struct resp_text text = {0};
    broker->subscription = end->member.facade;
    end->is_known = broker->password[0] == '\0';
    if (!end->is_known) {
        resp_command(&text, 2);
        resp_string(&text, "AUTH");
        resp_string(&text, broker->password);
    }
    resp_command(&text, 2);
    resp_string(&text, "SUBSCRIBE");
    resp_string(&text, BROKER_CHANNEL);
    channel_enqueue(end->member.facade,
                    piece_bytes((const char *)text.data, text.failed ? 0 : text.length));
    if (text.length > 0)
        explicit_bzero(text.data, text.length);
    resp_free(&text);
}

/* Both connections of an attempt go to one address; the next attempt tries the next one. */
static void connect_to(struct broker *broker, struct input_handler_factory *factory) NO_LOCK_HELD
{
    const struct host_port_addresses *addresses = &broker->addresses;
    int error = channel_connect(chat_strand(&broker->chat),
                                &addresses->all[(broker->attempt - 1) % addresses->count],
                                broker->chat.server->settings.connect_timeout, factory);
    if (error != 0)
        broker_lose(broker, broker->attempt, strerror(error));
}

static bool is_word(struct message text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.data, word, text.length) == 0;
}

/* A value that is no part of an array. */
static bool begin_push(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    const struct resp_value *value = &end->value;
    if (value->type == RESP_STRING && !end->is_known) {
        end->is_known = true;
        return true;
    }
    if (value->type == RESP_ERROR) {
        lose_by_error(end, text);
        return true;
    }
    end->left = 3;
    return value->type == RESP_ARRAY && value->number == 3;
}

/* `message CHANNEL TEXT`, or `subscribe CHANNEL 1`, after which the other one is connected. */
static bool hear_push(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    enum resp_type type = end->value.type;
    if (end->left == 0)
        return begin_push(end, text);
    switch (end->left--) {
    case 3:
        end->is_message = is_word(text, "message");
        return type == RESP_BULK && (end->is_message || is_word(text, "subscribe"));
    case 2: return type == RESP_BULK;
    default: break;
    }
    if (!end->is_message && !end->is_subscribed)
        connect_to(end->broker, &end->broker->commander);
    if (!end->is_message) {
        end->is_subscribed = true;
        return type == RESP_INTEGER;
    }
    if (type == RESP_BULK)
        broker_hear(end->broker, text);
    return type == RESP_BULK || type == RESP_LONG; /* which counts as missed */
}

/* ---- The commands --------------------------------------------------------------------------- */

/* The password, and a first message, whose echo tells that all is well. */
static void say_hello(struct broker_end *end)
{
    struct broker *broker = end->broker;
    struct resp_text text = {0};
    broker->commands = end->member.facade;
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

/* An answer, or the head of one. */
static void answer(struct broker *broker, const struct broker_command *command,
                   const struct resp_value *value) NO_LOCK_HELD
{
    switch (command->kind) {
    case COMMAND_LINE:
        if (value->type == RESP_INTEGER)
            counters_add(&broker->chat.server->counters, COUNTER_LINES_PUBLISHED, 1);
        else
            broker_lines_lost(broker, 1);
        break;
    case COMMAND_CLAIM:
        broker_claim_answered(broker, command->user,
                              value->type != RESP_ARRAY ? BROKER_AWAY
                              : value->number == 0      ? BROKER_GRANTED
                                                        : BROKER_TAKEN);
        break;
    case COMMAND_RENEW:
    case COMMAND_OTHER: break;
    }
}

/* False: nobody has asked for that. */
static bool take_answer(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    const struct resp_value *value = &end->value;
    struct broker_command command;
    if (end->left > 0) {
        end->left--;
        if (value->type == RESP_BULK && end->is_renewal)
            broker_lease_lost(end->broker, text);
        return value->type != RESP_ARRAY;
    }
    if (!take_command(end->broker, &command))
        return false;
    answer(end->broker, &command, value);
    end->left = value->type == RESP_ARRAY ? value->number : 0;
    end->is_renewal = command.kind == COMMAND_RENEW;
    return end->left <= BROKER_RENEWED_AT_ONCE;
}

static bool hear_answer(struct broker_end *end, struct message text) NO_LOCK_HELD
{
    bool is_refused = end->broker->state != BROKER_UP && end->value.type == RESP_ERROR;
    bool is_right = take_answer(end, text);
    if (is_refused)
        lose_by_error(end, text);
    return is_refused || is_right;
}

/* ---- Both, in the strand -------------------------------------------------------------------- */

/* One that comes too late is closed: there is another attempt, or the server stops. */
static void joined(struct strand_group *group, struct strand_member *member) NO_LOCK_HELD
{
    struct broker_end *end = end_of(member);
    (void)group;
    if (!is_present(end) || end->broker->chat.is_stopping)
        channel_close(member->facade);
    else if (end->is_subscriber)
        subscribe(end);
    else
        say_hello(end);
}

static bool said(struct strand_group *group, struct strand_member *member,
                 struct message text) NO_LOCK_HELD
{
    struct broker_end *end = end_of(member);
    (void)group;
    if (is_present(end) && !(end->is_subscriber ? hear_push(end, text) : hear_answer(end, text)))
        lose(end, "it does not speak RESP2");
    return true;
}

/* While the server stops the subscription ends, and the other one stays. */
static void left(struct strand_group *group, struct strand_member *member) NO_LOCK_HELD
{
    struct broker_end *end = end_of(member);
    struct broker *broker = end->broker;
    (void)group;
    if (broker->subscription == member->facade)
        broker->subscription = NULL;
    if (broker->commands == member->facade)
        broker->commands = NULL;
    if (!broker->chat.is_stopping || broker->commands == NULL)
        lose(end, end->is_subscriber ? "the subscription has ended" : "the connection has ended");
}

static void hear_not_connected(struct channel_post *post,
                               struct channel_facade *facade) NO_LOCK_HELD
{
    struct broker *broker = container_of(post, struct broker, not_connected);
    uint64_t failure = atomic_load(&broker->failure);
    (void)facade;
    broker_lose(broker, (unsigned)(failure >> 32), strerror((int)(uint32_t)failure));
}

/* The server is over. */
static void is_dropped(struct channel_post *post)
{
    (void)post;
}

/* ---- Both, in the connection ---------------------------------------------------------------- */

static enum framing_result next_value(struct input_handler *self, struct channel_facade *facade,
                                      struct message *message)
{
    struct broker_end *end = end_behind(self);
    enum resp_result result = resp_next(&end->reader, channel_input(facade), &end->value);
    *message = end->value.text;
    switch (result) {
    case RESP_VALUE: return FRAMING_MESSAGE;
    case RESP_MORE: return FRAMING_INCOMPLETE;
    case RESP_BAD: break;
    }
    return FRAMING_TOO_LONG; /* nothing more is read, and it is closed */
}

/* Whatever the attempt before has to say does not matter any more. */
static void not_connected(struct input_handler *self, int error) NO_LOCK_HELD
{
    struct broker_end *end = end_behind(self);
    struct broker *broker = end->broker;
    atomic_store(&broker->failure, (uint64_t)end->attempt << 32 | (uint32_t)error);
    channel_post(chat_strand(&broker->chat), &broker->not_connected);
}

static void end_of_input(struct input_handler *self, struct channel_facade *facade)
{
    (void)self;
    channel_close(facade);
}

/* In the strand, which connects. */
static void begin_end(struct broker_end *end, struct broker *broker,
                      struct input_handler_verbs *verbs)
{
    end->member.handler.verbs = input_handler_complete(verbs);
    end->member.group = &broker->ends;
    end->broker = broker;
    end->attempt = broker->attempt;
    end->reader.max_bulk = broker->chat.max_line + BROKER_LINE_ROOM;
}

static struct input_handler *create_subscriber(struct input_handler_factory *factory, void *memory)
{
    static struct input_handler_verbs verbs = {.next_message = next_value,
                                               .handle_input = strand_member_handle_input,
                                               .not_connected = not_connected,
                                               .started = strand_member_started,
                                               .left = strand_member_left,
                                               .stopping = strand_member_stopping};
    struct broker_end *end = memory;
    begin_end(end, container_of(factory, struct broker, subscriber), &verbs);
    end->is_subscriber = true;
    return &end->member.handler;
}

static struct input_handler *create_commander(struct input_handler_factory *factory, void *memory)
{
    static struct input_handler_verbs verbs = {.next_message = next_value,
                                               .handle_input = strand_member_handle_input,
                                               .duplex = true,
                                               .not_connected = not_connected,
                                               .started = strand_member_started,
                                               .end_of_input = end_of_input,
                                               .left = strand_member_left,
                                               .stopping = strand_member_stopping};
    struct broker_end *end = memory;
    begin_end(end, container_of(factory, struct broker, commander), &verbs);
    return &end->member.handler;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

void broker_link_open(struct broker *broker)
{
    static const struct strand_group_verbs verbs = {.joined = joined, .said = said, .left = left};
    strand_group_open_in(&broker->ends, &broker->chat.users, &verbs);
    broker->not_connected = (struct channel_post){.run = hear_not_connected, .dropped = is_dropped};
    broker->subscriber = (struct input_handler_factory){.handler_size = sizeof(struct broker_end),
                                                        .create = create_subscriber};
    broker->commander = (struct input_handler_factory){.handler_size = sizeof(struct broker_end),
                                                       .create = create_commander};
}

void broker_connect(struct broker *broker)
{
    broker->is_attempted = true;
    broker->attempt++;
    broker->attempt_began = clock_ms();
    connect_to(broker, &broker->subscriber);
}
