#include "common/apps/chat/broker.h"

#include "common/apps/chat/broker_parts.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"
#include "common/server/host_port.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void look_after(void *self, struct channel_facade *facade) NO_LOCK_HELD;

/* ---- Times ---------------------------------------------------------------------------------- */

/* The others hear from each server so often, ... */
int64_t broker_beat(const struct broker *broker)
{
    return broker->lease / 4;
}

/* ... and the broker is given up when it has not answered for so long. */
int64_t broker_patience(const struct broker *broker)
{
    return broker->lease / 2;
}

static int64_t between_looks(const struct broker *broker)
{
    int64_t wait = broker->lease / 20;
    return wait < 20 ? 20 : wait > 250 ? 250 : wait;
}

/* ---- Opening -------------------------------------------------------------------------------- */

static uint64_t random_number(void)
{
    uint64_t number;
    return getentropy(&number, sizeof(number)) == 0 && number != 0 ? number
                                                                   : (uint64_t)clock_ns() | 1;
}

/* The first line of a file, without its end. */
static bool read_password(struct broker *broker, const char *path)
{
    if (path == NULL)
        return true;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fprintf(stderr, "%s: --broker-password-file: cannot open %s: %s\n", broker->server->name,
                path, strerror(errno));
        return false;
    }
    setvbuf(file, NULL, _IONBF, 0); /* no copy of it is left in a buffer */
    bool is_read = fgets(broker->password, sizeof(broker->password), file) != NULL;
    fclose(file);
    broker->password[strcspn(broker->password, "\r\n")] = '\0';
    if (is_read && broker->password[0] != '\0')
        return true;
    fprintf(stderr, "%s: --broker-password-file: expected a password in the first line of %s\n",
            broker->server->name, path);
    return false;
}

/* The name of the machine, as far as it goes, and the port. */
static void make_name(struct broker *broker)
{
    char host[65] = "";
    size_t length = 0;
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(&broker->server->listener.endpoint, place);
    gethostname(host, sizeof(host) - 1);
    while (length < SERVER_NAME_SIZE - 7 &&
           (isalnum((unsigned char)host[length]) || host[length] == '-'))
        length++;
    snprintf(broker->name, sizeof(broker->name), "%.*s-%s", (int)length,
             length > 0 ? host : "server", strrchr(place, ':') + 1);
}

static bool look_up(struct broker *broker, const char *address)
{
    int error = host_port_look_up(address, &broker->addresses);
    if (error != 0)
        fprintf(stderr, "%s: --broker: cannot find %s: %s\n", broker->server->name, address,
                gai_strerror(error));
    return error == 0;
}

static bool init_state(struct broker *broker)
{
    mutex_init(&broker->lock);
    mutex_lock(&broker->lock);
    broker->state = BROKER_TRYING;
    broker->pause = BROKER_PAUSE_MIN;
    broker->random = random_number();
    list_init(&broker->all);
    roster_init(&broker->roster);
    broker->waiting = malloc(BROKER_COMMANDS_MAX * sizeof(*broker->waiting));
    bool is_ready = broker->waiting != NULL;
    mutex_unlock(&broker->lock);
    return is_ready;
}

bool broker_open(struct broker *broker, const struct broker_choice *choice, struct server *server,
                 struct group *users, struct nicknames *nicknames, struct news *news,
                 struct clerk *clerk,
                 void (*answered)(struct channel_post *post, struct channel_facade *facade))
{
    size_t cap = server->settings.output_cap / 2;
    *broker = (struct broker){.server = server,
                              .users = users,
                              .nicknames = nicknames,
                              .news = news,
                              .clerk = clerk,
                              .incarnation = random_number(),
                              .max_line = server->settings.max_line,
                              .waiting_max = cap < BROKER_WAITING_MAX ? cap : BROKER_WAITING_MAX,
                              .lease = choice->lease,
                              .answered = answered};
    if (choice->name != NULL)
        snprintf(broker->name, sizeof(broker->name), "%s", choice->name);
    else
        make_name(broker);
    if (!read_password(broker, choice->password_file) || !look_up(broker, choice->address)) {
        errno = 0; /* it has told why */
        return false;
    }
    if (!init_state(broker)) {
        broker_close(broker);
        errno = ENOMEM;
        return false;
    }
    server->settings.max_line += (size_t)2 * BROKER_LINE_ROOM; /* the broker sends longer ones */
    broker_link_init(broker);
    clerk_learn(clerk, CHORE_BROKER, look_after, broker);
    return true;
}

void broker_close(struct broker *broker)
{
    mutex_lock(&broker->lock);
    roster_destroy(&broker->roster);
    resp_free(&broker->early);
    free(broker->waiting);
    mutex_unlock(&broker->lock);
    explicit_bzero(broker->password, sizeof(broker->password));
    mutex_destroy(&broker->lock);
}

/* ---- The outbox ----------------------------------------------------------------------------- */

void broker_put(struct broker_outbox *outbox, char what, const char *text)
{
    resp_add(&outbox->items, &what, 1);
    resp_add(&outbox->items, text, strlen(text));
    resp_add(&outbox->items, "\n", 1);
}

static void tell(struct broker *broker, const unsigned char *item, size_t length) NO_LOCK_HELD
{
    char names[2 * NICKNAME_TEXT_SIZE];
    if (item[0] == '*') {
        group_send(broker->users, NULL, piece_bytes((const char *)item + 1, length - 1));
        return;
    }
    snprintf(names, sizeof(names), "%.*s", (int)length - 2, item + 1);
    char *second = names + strcspn(names, " ");
    if (*second != '\0')
        *second++ = '\0';
    if (item[0] == '+')
        news_came(broker->news, names, NULL);
    else if (item[0] == '-')
        news_left(broker->news, names);
    else
        news_renamed(broker->news, names, second, NULL);
}

void broker_deliver(struct broker *broker, struct broker_outbox *outbox)
{
    const unsigned char *item = outbox->items.data;
    const unsigned char *end = item + (outbox->items.failed ? 0 : outbox->items.length);
    while (item < end) {
        size_t length =
            (size_t)((const unsigned char *)memchr(item, '\n', (size_t)(end - item)) - item) + 1;
        tell(broker, item, length);
        item += length;
    }
    resp_free(&outbox->items);
    while (outbox->answered != NULL) {
        struct broker_user *user = outbox->answered;
        outbox->answered = user->next_answered;
        channel_post(user->facade, &user->post);
    }
    for (size_t i = 0; i < 2; i++) {
        if (outbox->closing[i] == NULL)
            continue;
        channel_close(outbox->closing[i]);
        channel_release(outbox->closing[i]);
    }
}

/* ---- Up and down ---------------------------------------------------------------------------- */

void broker_lines_lost(struct broker *broker, uint64_t count)
{
    broker->lost += count;
    counters_add(&broker->server->counters, COUNTER_LINES_LOST, count);
}

/* Nobody is told of the lines that were said before anybody knew that they would be lost. */
static void drop_early(struct broker *broker) REQUIRES(&broker->lock)
{
    for (size_t i = 0; i < broker->early.length; i++) {
        if (broker->early.data[i] == '\n') {
            broker->lines++;
            broker_lines_lost(broker, 1);
        }
    }
    resp_free(&broker->early);
}

static void answer_those_who_wait(struct broker *broker, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    struct list_link *link = broker->all.next;
    for (; link != &broker->all; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (user->claim != CLAIM_WAITS)
            continue;
        user->claim = CLAIM_NONE;
        broker_answer(user, BROKER_AWAY, outbox);
    }
}

void broker_go_down(struct broker *broker, struct broker_outbox *outbox)
{
    char text[128];
    broker->state = BROKER_DOWN;
    drop_early(broker);
    answer_those_who_wait(broker, outbox);
    if (broker->was_told)
        return;
    broker->was_told = true;
    snprintf(text, sizeof(text), "* the other servers are out of reach; those on %s hear you",
             broker->name);
    broker_put(outbox, '*', text);
}

static void tell_lost(struct broker *broker, const char *before, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    char text[160];
    snprintf(text, sizeof(text), "* %s%" PRIu64 " line%s from here did not reach the other servers",
             before, broker->lost, broker->lost == 1 ? "" : "s");
    broker_put(outbox, '*', text);
    broker->lost = 0;
    broker->lost_before = 0;
}

/* Of those who came when there was nobody to tell. */
static void publish_arrivals(struct broker *broker) REQUIRES(&broker->lock)
{
    struct list_link *link = broker->all.next;
    for (; link != &broker->all; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (!user->is_published)
            broker_publish_arrival(broker, user);
    }
}

static void publish_early(struct broker *broker) REQUIRES(&broker->lock)
{
    const unsigned char *line = broker->early.data;
    const unsigned char *end = line + broker->early.length;
    while (line < end) {
        const unsigned char *line_end = memchr(line, '\n', (size_t)(end - line));
        broker_publish_line(broker, line, (size_t)(line_end - line));
        line = line_end + 1;
    }
    resp_free(&broker->early);
}

/* As many as there is room for among the commands that wait; the others at the next look. */
static void ask_for_those_who_wait(struct broker *broker) REQUIRES(&broker->lock)
{
    struct list_link *link = broker->all.next;
    bool goes_on = true;
    for (; link != &broker->all && goes_on; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (user->claim == CLAIM_WAITS)
            goes_on = broker_send_claim(broker, user);
    }
}

void broker_go_up(struct broker *broker, struct broker_outbox *outbox)
{
    broker->state = BROKER_UP;
    broker->up_since = clock_ms();
    broker->trying_since = 0;
    if (broker->was_told && broker->lost > 0)
        tell_lost(broker, "the other servers are in reach again; ", outbox);
    else if (broker->was_told)
        broker_put(outbox, '*', "* the other servers are in reach again");
    broker->was_told = false;
    publish_arrivals(broker);
    publish_early(broker);
    broker_publish_list(broker);
    broker_renew(broker);
    ask_for_those_who_wait(broker);
    broker_ask_for_wishes(broker, outbox);
    log_write(&broker->server->log, LOG_LEVEL_INFO, "event=broker_up");
}

/* ---- Looking after it ----------------------------------------------------------------------- */

/* What was lost or missed is said once, when no more is being lost. */
static void tell_of_lines(struct broker *broker, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    char text[128];
    if (broker->lost > 0 && broker->lost == broker->lost_before)
        tell_lost(broker, "", outbox);
    broker->lost_before = broker->lost;
    if (broker->missed == 0)
        return;
    snprintf(text, sizeof(text), "* %" PRIu64 " line%s from other servers did not arrive",
             broker->missed, broker->missed == 1 ? "" : "s");
    broker_put(outbox, '*', text);
    broker->missed = 0;
}

/* Whether the broker has been silent for too long, though we were not. */
static bool has_gone_silent(struct broker *broker, int64_t now) REQUIRES(&broker->lock)
{
    int64_t since = INT64_MAX;
    if (broker->count > 0)
        since = broker->waiting[broker->first].sent;
    if (broker->no_echo_since != 0 && broker->no_echo_since < since)
        since = broker->no_echo_since;
    if (since < broker->awake_since)
        since = broker->awake_since;
    return now > since && now - since > broker_patience(broker);
}

static void keep_up(struct broker *broker, int64_t now, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    if (has_gone_silent(broker, now)) {
        broker_lose(broker, broker->attempt, "it does not answer", outbox);
        return;
    }
    ask_for_those_who_wait(broker);
    if (now >= broker->next_beat) {
        broker->next_beat = now + broker_beat(broker);
        if (broker_publish(broker, 'H', "", 0) && broker->no_echo_since == 0)
            broker->no_echo_since = now;
    }
    if (now >= broker->next_renewal) {
        broker_renew(broker);
        broker_ask_for_wishes(broker, outbox);
    }
    if (broker->list_wanted && now - broker->list_sent >= BROKER_LIST_PAUSE)
        broker_publish_list(broker);
    int64_t listening_since =
        broker->up_since > broker->awake_since ? broker->up_since : broker->awake_since;
    broker_expire(broker, listening_since, outbox);
    tell_of_lines(broker, outbox);
}

/* Whether the broker should have answered. Until there is one, broker_go_down() does that. */
static bool is_overdue(const struct broker *broker, const struct broker_user *user, int64_t now)
    REQUIRES(&broker->lock)
{
    bool is_claim =
        user->claim == CLAIM_ASKED || (user->claim == CLAIM_WAITS && broker->state == BROKER_UP);
    return is_claim && !user->is_wish && !user->is_posted && now - user->asked >= BROKER_CLAIM_MS;
}

/* A user goes by another name rather than wait for long. */
static void answer_overdue(struct broker *broker, int64_t now, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    struct list_link *link = broker->all.next;
    for (; link != &broker->all; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (!is_overdue(broker, user, now))
            continue;
        user->claim = user->claim == CLAIM_ASKED ? CLAIM_OVERDUE : CLAIM_NONE;
        broker_answer(user, BROKER_AWAY, outbox);
    }
}

/* True: it is time to connect, and this is the attempt. */
static bool begins_attempt(struct broker *broker, int64_t now) REQUIRES(&broker->lock)
{
    if (broker->is_attempted || now < broker->next_attempt)
        return false;
    broker->is_attempted = true;
    broker->attempt++;
    broker->attempt_began = now;
    return true;
}

/* If this thread could not look for a while, neither could those that read what the broker says. */
static void notice_sleep(struct broker *broker, int64_t now) REQUIRES(&broker->lock)
{
    if (now - broker->looked > broker_patience(broker) / 2)
        broker->awake_since = now;
    broker->looked = now;
}

/* Looks at everything that is a matter of time. True: connect. */
static bool look(struct broker *broker, int64_t now, struct broker_outbox *outbox)
    REQUIRES(&broker->lock)
{
    notice_sleep(broker, now);
    if (broker->state == BROKER_TRYING && broker->trying_since == 0)
        broker->trying_since = now;
    if (broker->state == BROKER_UP)
        keep_up(broker, now, outbox);
    else if (broker->is_attempted && now - broker->attempt_began > broker_patience(broker))
        broker_lose(broker, broker->attempt, "it does not answer", outbox);
    bool connects = begins_attempt(broker, now);
    if (broker->state == BROKER_TRYING && now - broker->trying_since >= BROKER_TRYING_MS)
        broker_go_down(broker, outbox);
    answer_overdue(broker, now, outbox);
    return connects;
}

/* The clerk's chore, all the time. */
static void look_after(void *self, struct channel_facade *facade)
{
    struct broker *broker = self;
    struct broker_outbox outbox = {0};
    int64_t now = clock_ms();
    mutex_lock(&broker->lock);
    bool goes_on = !broker->is_stopping && !signals_stop_came();
    bool connects = goes_on && look(broker, now, &outbox);
    unsigned attempt = broker->attempt;
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
    if (connects)
        broker_connect(broker, facade, attempt);
    if (goes_on)
        clerk_ask(broker->clerk, CHORE_BROKER, now + between_looks(broker));
}

/* ---- What the chat calls -------------------------------------------------------------------- */

bool broker_came(struct broker *broker, struct broker_user *user, struct channel_facade *facade,
                 const char *name)
{
    user->broker = broker;
    user->facade = facade;
    user->post.run = broker->answered;
    snprintf(user->name, sizeof(user->name), "%s", name);
    mutex_lock(&broker->lock);
    user->is_here = true;
    list_insert_behind(&broker->all, &user->link);
    bool is_first = broker->user_count++ == 0;
    if (broker->state == BROKER_UP)
        broker_publish_arrival(broker, user);
    bool is_away = broker->state == BROKER_DOWN;
    mutex_unlock(&broker->lock);
    if (is_first)
        clerk_ask(broker->clerk, CHORE_BROKER, clock_ms());
    return is_away;
}

/* The last user of a server that stops has gone: nothing more is to be said. */
static void say_goodbye(struct broker *broker, struct broker_outbox *outbox) REQUIRES(&broker->lock)
{
    if (broker->commands == NULL)
        return;
    if (broker->state == BROKER_UP)
        broker_publish(broker, '!', "", 0);
    channel_retain(broker->commands);
    outbox->closing[0] = broker->commands;
}

void broker_left(struct broker *broker, struct broker_user *user)
{
    struct broker_outbox outbox = {0};
    mutex_lock(&broker->lock);
    user->is_here = false;
    list_remove(&user->link);
    broker->user_count--;
    broker->events += user->is_published;
    if (user->claim == CLAIM_WAITS)
        user->claim = CLAIM_NONE;
    if (broker->state == BROKER_UP) {
        broker_publish(broker, '-', user->name, strlen(user->name));
        if (user->is_leased)
            broker_release_lease(broker, user->name, user->since);
    }
    if (broker->is_stopping && broker->user_count == 0)
        say_goodbye(broker, &outbox);
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
}

void broker_stop(struct broker *broker)
{
    struct broker_outbox outbox = {0};
    mutex_lock(&broker->lock);
    broker->is_stopping = true;
    if (broker->user_count == 0)
        say_goodbye(broker, &outbox);
    mutex_unlock(&broker->lock);
    broker_deliver(broker, &outbox);
}

/* Puts a line aside until it is known whether there is a broker. */
static bool keep_early(struct broker *broker, const struct resp_text *line) REQUIRES(&broker->lock)
{
    if (broker->early.length + line->length >= BROKER_EARLY_MAX)
        return false;
    resp_add(&broker->early, line->data, line->length);
    resp_add(&broker->early, "\n", 1);
    return true;
}

void broker_say(struct broker *broker, const struct broker_user *user, struct message text)
{
    struct resp_text line = {0};
    resp_add(&line, user->name, strlen(user->name));
    resp_add(&line, " ", 1);
    resp_add(&line, text.data, text.length);
    mutex_lock(&broker->lock);
    bool is_early = broker->state == BROKER_TRYING && !line.failed && keep_early(broker, &line);
    if (!is_early && broker->state == BROKER_UP && !line.failed) {
        broker_publish_line(broker, line.data, line.length);
    } else if (!is_early) {
        broker->lines++;
        broker_lines_lost(broker, 1);
    }
    mutex_unlock(&broker->lock);
    resp_free(&line);
}

bool broker_claim(struct broker *broker, struct broker_user *user, const char *nick)
{
    bool is_asked = false;
    mutex_lock(&broker->lock);
    if (user->claim == CLAIM_NONE && !user->is_posted && broker->state != BROKER_DOWN) {
        snprintf(user->wanted, sizeof(user->wanted), "%s", nick);
        user->is_wish = false;
        user->asked = clock_ms();
        user->claim = CLAIM_WAITS;
        if (broker->state == BROKER_UP)
            broker_send_claim(broker, user);
        is_asked = true;
    }
    mutex_unlock(&broker->lock);
    return is_asked;
}

void broker_renamed(struct broker *broker, struct broker_user *user, const char *name,
                    const char *wish)
{
    char both[2 * NICKNAME_TEXT_SIZE];
    int length = snprintf(both, sizeof(both), "%s %s", user->name, name);
    mutex_lock(&broker->lock);
    broker->events += user->is_published;
    if (broker->state == BROKER_UP) {
        broker_publish(broker, '=', both, (size_t)length);
        if (user->is_leased)
            broker_release_lease(broker, user->name, user->since);
    }
    user->is_leased = wish == NULL;
    user->since = user->wanted_since;
    snprintf(user->wish, sizeof(user->wish), "%s", wish != NULL ? wish : "");
    snprintf(user->name, sizeof(user->name), "%s", name);
    mutex_unlock(&broker->lock);
}

void broker_declined(struct broker *broker, struct broker_user *user)
{
    mutex_lock(&broker->lock);
    if (user->is_wish)
        user->wish[0] = '\0';
    broker->next_renewal = 0; /* the other one's lease has our time now */
    mutex_unlock(&broker->lock);
}

size_t broker_who(struct broker *broker, char (*rows)[ROSTER_ROW_SIZE], size_t count,
                  bool *reachable)
{
    mutex_lock(&broker->lock);
    size_t copied = roster_copy(&broker->roster, rows, count);
    *reachable = broker->state == BROKER_UP;
    mutex_unlock(&broker->lock);
    return copied;
}

size_t broker_count(struct broker *broker)
{
    mutex_lock(&broker->lock);
    size_t count = broker->roster.user_count;
    mutex_unlock(&broker->lock);
    return count;
}
