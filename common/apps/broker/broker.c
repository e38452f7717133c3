#include "common/apps/broker/broker.h"

#include "common/base/clock.h"
#include "common/base/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        fprintf(stderr, "%s: --broker-password-file: cannot open %s: %s\n",
                broker->chat.server->name, path, strerror(errno));
        return false;
    }
    setvbuf(file, NULL, _IONBF, 0); /* no copy of it is left in a buffer */
    bool is_read = fgets(broker->password, sizeof(broker->password), file) != NULL;
    fclose(file);
    broker->password[strcspn(broker->password, "\r\n")] = '\0';
    if (is_read && broker->password[0] != '\0')
        return true;
    fprintf(stderr, "%s: --broker-password-file: expected a password in the first line of %s\n",
            broker->chat.server->name, path);
    return false;
}

/* The name of the machine, as far as it goes, and the port. */
static void make_name(struct broker *broker)
{
    char host[65] = "";
    size_t length = 0;
    char place[ENDPOINT_TEXT_SIZE];
    endpoint_format(&broker->chat.server->listener.endpoint, place);
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
        fprintf(stderr, "%s: --broker: cannot find %s: %s\n", broker->chat.server->name, address,
                gai_strerror(error));
    return error == 0;
}

static void timer_fires(struct channel_timer *timer, struct channel_facade *facade) NO_LOCK_HELD
{
    (void)facade;
    broker_look(container_of(timer, struct broker, timer));
}

static void set_up(struct broker *broker, const struct broker_choice *choice)
{
    size_t cap = broker->chat.server->settings.output_cap / 2;
    broker->timer.fired = timer_fires;
    broker->incarnation = random_number();
    broker->random = random_number();
    broker->waiting_max = cap < BROKER_WAITING_MAX ? cap : BROKER_WAITING_MAX;
    broker->lease = choice->lease;
    broker->state = BROKER_TRYING;
    broker->pause = BROKER_PAUSE_MIN;
    if (choice->name != NULL)
        snprintf(broker->name, sizeof(broker->name), "%s", choice->name);
    else
        make_name(broker);
    broker->chat.name = broker->name;
    broker_link_open(broker);
}

bool broker_open(struct broker *broker, const struct broker_choice *choice, struct server *server)
{
    if (!chat_open(&broker->chat, server, &broker_verbs))
        return false;
    set_up(broker, choice);
    if (!read_password(broker, choice->password_file) || !look_up(broker, choice->address)) {
        errno = 0; /* it has told why */
        return false;
    }
    server->settings.max_line += (size_t)2 * BROKER_LINE_ROOM; /* the broker sends longer ones */
    broker->waiting = malloc(BROKER_COMMANDS_MAX * sizeof(*broker->waiting));
    return broker->waiting != NULL;
}

void broker_close(struct broker *broker)
{
    roster_destroy(&broker->roster);
    resp_free(&broker->early);
    free(broker->waiting);
    explicit_bzero(broker->password, sizeof(broker->password));
}

/* ---- Up and down ---------------------------------------------------------------------------- */

void broker_lines_lost(struct broker *broker, uint64_t count)
{
    broker->lost += count;
    counters_add(&broker->chat.server->counters, COUNTER_LINES_LOST, count);
}

/* Nobody is told of the lines that were said before anybody knew that they would be lost. */
static void drop_early(struct broker *broker)
{
    for (size_t i = 0; i < broker->early.length; i++) {
        if (broker->early.data[i] == '\n') {
            broker->lines++;
            broker_lines_lost(broker, 1);
        }
    }
    resp_free(&broker->early);
}

static void publish_early(struct broker *broker)
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

#define AWAY "* the other servers are out of reach; those on %s hear you"

void broker_go_down(struct broker *broker)
{
    bool is_news = broker->state != BROKER_DOWN;
    broker->state = BROKER_DOWN;
    drop_early(broker);
    if (is_news)
        chat_tell_all(&broker->chat, AWAY, broker->name);
    broker_answer_overdue(broker, false);
}

static void tell_lost(struct broker *broker, const char *before) NO_LOCK_HELD
{
    chat_tell_all(&broker->chat, "* %s%" PRIu64 " line%s from here did not reach the other servers",
                  before, broker->lost, broker->lost == 1 ? "" : "s");
    broker->lost = 0;
    broker->lost_before = 0;
}

/* As many as there is room for among the commands that wait; the others at the next look. */
static void ask_for_those_who_wait(struct broker *broker)
{
    bool goes_on = true;
    for (struct broker_user *user = broker_first(broker); user != NULL && goes_on;
         user = broker_next(broker, user))
        goes_on = user->claim != CLAIM_WAITS || broker_send_claim(broker, user);
}

/* Tells the others, too, of those who came when there was nobody to tell. */
void broker_go_up(struct broker *broker)
{
    bool was_told = broker->state == BROKER_DOWN;
    broker->state = BROKER_UP;
    broker->up_since = clock_ms();
    if (was_told && broker->lost > 0)
        tell_lost(broker, "the other servers are in reach again; ");
    else if (was_told)
        chat_tell_all(&broker->chat, "* the other servers are in reach again");
    for (struct broker_user *user = broker_first(broker); user != NULL;
         user = broker_next(broker, user))
        if (!user->is_published)
            broker_publish_arrival(broker, user);
    publish_early(broker);
    broker_publish_list(broker);
    broker_renew(broker);
    ask_for_those_who_wait(broker);
    broker_ask_for_wishes(broker);
    log_write(&broker->chat.server->log, LOG_LEVEL_INFO, "event=broker_up");
}

/* ---- Looking after it ----------------------------------------------------------------------- */

/* What was lost or missed is said once, when no more is being lost. */
static void tell_of_lines(struct broker *broker) NO_LOCK_HELD
{
    if (broker->lost > 0 && broker->lost == broker->lost_before)
        tell_lost(broker, "");
    broker->lost_before = broker->lost;
    if (broker->missed > 0)
        chat_tell_all(&broker->chat, "* %" PRIu64 " line%s from other servers did not arrive",
                      broker->missed, broker->missed == 1 ? "" : "s");
    broker->missed = 0;
}

/* Whether the broker has been silent for too long, though we were not. */
static bool has_gone_silent(const struct broker *broker, int64_t now)
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

static void keep_up(struct broker *broker, int64_t now) NO_LOCK_HELD
{
    if (has_gone_silent(broker, now)) {
        broker_lose(broker, broker->attempt, "it does not answer");
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
        broker_ask_for_wishes(broker);
    }
    if (broker->list_wanted && now - broker->list_sent >= BROKER_LIST_PAUSE)
        broker_publish_list(broker);
    int64_t listening_since =
        broker->up_since > broker->awake_since ? broker->up_since : broker->awake_since;
    broker_expire(broker, listening_since);
    tell_of_lines(broker);
}

/* If this strand could not look for a while, neither could those that read what the broker says. */
static void notice_sleep(struct broker *broker, int64_t now)
{
    if (now - broker->looked > broker_patience(broker) / 2)
        broker->awake_since = now;
    broker->looked = now;
}

static int64_t between_looks(const struct broker *broker)
{
    int64_t wait = broker->lease / 20;
    return wait < 20 ? 20 : wait > 250 ? 250 : wait;
}

/* Until the server stops: then the link stays until the last user has gone. */
void broker_look(struct broker *broker)
{
    int64_t now = clock_ms();
    if (broker->chat.is_stopping)
        return;
    notice_sleep(broker, now);
    if (broker->state == BROKER_UP)
        keep_up(broker, now);
    else if (broker->is_attempted && now - broker->attempt_began > broker_patience(broker))
        broker_lose(broker, broker->attempt, "it does not answer");
    if (!broker->is_attempted && now >= broker->next_attempt)
        broker_connect(broker);
    if (broker->state == BROKER_TRYING && now - broker->trying_since >= BROKER_TRYING_MS)
        broker_go_down(broker);
    broker_answer_overdue(broker, false);
    channel_set_timer(chat_strand(&broker->chat), &broker->timer, between_looks(broker));
}

/* ---- What the chat calls -------------------------------------------------------------------- */

static struct broker *broker_of(const struct chat *chat)
{
    return container_of(chat, struct broker, chat);
}

static void came(struct chat *chat, struct chat_user *user) NO_LOCK_HELD
{
    struct broker *broker = broker_of(chat);
    struct broker_user *one = (struct broker_user *)user;
    one->is_here = true;
    if (broker->state == BROKER_UP)
        broker_publish_arrival(broker, one);
    if (broker->state == BROKER_DOWN)
        channel_printf(user->member.facade, AWAY "\n", broker->name);
    if (broker->trying_since == 0) {
        broker->trying_since = clock_ms();
        broker_look(broker);
    }
}

/* The last user of a server that stops has gone: nothing more is to be said. */
static void say_goodbye(struct broker *broker)
{
    if (broker->commands == NULL || broker->chat.users.count > 0)
        return;
    if (broker->state == BROKER_UP)
        broker_publish(broker, '!', "", 0);
    channel_close(broker->commands);
}

static void left(struct chat *chat, struct chat_user *user)
{
    struct broker *broker = broker_of(chat);
    struct broker_user *one = (struct broker_user *)user;
    one->is_here = false;
    broker->events += one->is_published;
    if (one->claim == CLAIM_WAITS)
        one->claim = CLAIM_NONE;
    if (broker->state == BROKER_UP) {
        if (one->is_leased) /* first: who hears that she has left may want her name */
            broker_release_lease(broker, user->nick.text, one->since);
        broker_publish(broker, '-', user->nick.text, strlen(user->nick.text));
    }
    if (chat->is_stopping)
        say_goodbye(broker);
}

/* Whoever waits for a name would be waited for. */
static void stops(struct chat *chat) NO_LOCK_HELD
{
    struct broker *broker = broker_of(chat);
    broker_answer_overdue(broker, true);
    say_goodbye(broker);
}

/* Puts a line aside until it is known whether there is a broker. */
static bool keep_early(struct broker *broker, const struct resp_text *line)
{
    if (broker->early.length + line->length >= BROKER_EARLY_MAX)
        return false;
    resp_add(&broker->early, line->data, line->length);
    resp_add(&broker->early, "\n", 1);
    return true;
}

static void said(struct chat *chat, const struct chat_user *user, struct message text)
{
    struct broker *broker = broker_of(chat);
    struct resp_text line = {0};
    resp_add(&line, user->nick.text, strlen(user->nick.text));
    resp_add(&line, " ", 1);
    resp_add(&line, text.data, text.length);
    bool is_early = broker->state == BROKER_TRYING && !line.failed && keep_early(broker, &line);
    if (!is_early && broker->state == BROKER_UP && !line.failed) {
        broker_publish_line(broker, line.data, line.length);
    } else if (!is_early) {
        broker->lines++;
        broker_lines_lost(broker, 1);
    }
    resp_free(&line);
}

static size_t count_others(const struct chat *chat, bool *reachable)
{
    const struct broker *broker = broker_of(chat);
    *reachable = broker->state == BROKER_UP;
    return broker->roster.user_count;
}

static size_t list_others(const struct chat *chat, char (*rows)[CHAT_ROW_SIZE], size_t count)
{
    return roster_copy(&broker_of(chat)->roster, rows, count);
}

const struct chat_link_verbs broker_verbs = {
    .came = came,
    .left = left,
    .said = said,
    .wants = broker_wants,
    .count = count_others,
    .list = list_others,
    .stops = stops,
};

/* ---- The application ------------------------------------------------------------------------ */

static struct broker_choice chosen;

static void options(struct options *options)
{
    chat_options(options);
    broker_options(options, &chosen);
}

static void finish(void *data)
{
    broker_close(data);
    free(data);
}

/* Without --broker it is the chat of one machine. */
static void *start(struct server *server)
{
    struct broker *broker = calloc(1, sizeof(*broker));
    if (broker == NULL)
        return NULL;
    if (chosen.address == NULL ? chat_open(&broker->chat, server, NULL)
                               : broker_open(broker, &chosen, server))
        return broker;
    int error = errno;
    finish(broker);
    errno = error;
    return NULL;
}

/* The chat that may have a broker. */
const struct application broker_application = {
    .name = "chat",
    .unordered_answers = true,
    .needs = OFFERS_STRANDS | OFFERS_OUTPUT_FROM_ELSEWHERE,
    .options = options,
    .verbs = &chat_verbs,
    .handler_size = sizeof(struct broker_user),
    .start = start,
    .finish = finish,
};
