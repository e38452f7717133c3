/*
 * What servers tell each other: a line of text for each message, whose first words are those of
 * all,
 *
 *   chat1 SERVER INCARNATION LEASE LINES EVENTS KIND ...
 *
 * the time in ms after which the server is gone if nothing more comes, how many lines its users
 * have said, this one included, and how often one has come, left or changed his name. The rest:
 *
 *   L NICK TEXT         a line              + NICK   has come        = NICK NICK   is now called
 *   H                   I am here           - NICK   has left        !             the server goes
 *   ? INCARNATION or *  who is there?       F NICK ... a list of users: F is its first part, M one
 *                                           in the middle, E the last, and A all of it in one
 */
#include "common/apps/broker/broker.h"
#include "common/apps/chat/printable.h"
#include "common/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEAD_SIZE = 160,
    INCARNATION_SIZE = 17,
    LEASE_MIN = 100,
    LEASE_MAX = 3600 * 1000,
    COUNT_STEP_MAX = 1 << 30, /* what a server does not say while it is not heard */
};

/* ---- Telling -------------------------------------------------------------------------------- */

static bool publish(struct broker *broker, char kind, const void *rest, size_t length,
                    struct broker_command command)
{
    struct resp_text payload = {0};
    struct resp_text text = {0};
    char head[HEAD_SIZE];
    int size = snprintf(
        head, sizeof(head), "chat1 %s %" PRIx64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %c ",
        broker->name, broker->incarnation, broker->lease, broker->lines, broker->events, kind);
    resp_add(&payload, head, (size_t)size);
    resp_add(&payload, rest, length);
    resp_command(&text, 3);
    resp_string(&text, "PUBLISH");
    resp_string(&text, BROKER_CHANNEL);
    resp_word(&text, payload.data, payload.length);
    bool is_sent = !payload.failed && broker_send(broker, command, &text);
    resp_free(&payload);
    resp_free(&text);
    return is_sent;
}

bool broker_publish(struct broker *broker, char kind, const void *text, size_t length)
{
    return publish(broker, kind, text, length, (struct broker_command){.kind = COMMAND_OTHER});
}

void broker_publish_arrival(struct broker *broker, struct broker_user *user)
{
    user->is_published = true;
    broker->events++;
    broker_publish(broker, '+', user->user.nick.text, strlen(user->user.nick.text));
}

void broker_publish_line(struct broker *broker, const void *text, size_t length)
{
    broker->lines++;
    if (!publish(broker, 'L', text, length, (struct broker_command){.kind = COMMAND_LINE}))
        broker_lines_lost(broker, 1);
}

void broker_publish_list(struct broker *broker)
{
    struct broker_user *user = broker_first(broker);
    bool is_first = true;
    bool is_last;
    broker->list_wanted = false;
    broker->list_sent = clock_ms();
    do {
        char names[BROKER_LIST_SIZE];
        size_t length = 0;
        for (; user != NULL && length + NICKNAME_TEXT_SIZE < sizeof(names);
             user = broker_next(broker, user))
            length += (size_t)snprintf(names + length, sizeof(names) - length, "%s ",
                                       user->user.nick.text);
        is_last = user == NULL;
        broker_publish(broker, is_first ? is_last ? 'A' : 'F' : is_last ? 'E' : 'M', names, length);
        is_first = false;
    } while (!is_last);
}

/* ---- Reading -------------------------------------------------------------------------------- */

/* Takes the next word, which ends at a space or at the end, and has to fit. */
static bool next_word(struct message *rest, char *word, size_t size)
{
    const unsigned char *space = memchr(rest->data, ' ', rest->length);
    size_t length = space != NULL ? (size_t)(space - rest->data) : rest->length;
    if (length == 0 || length >= size || memchr(rest->data, '\0', length) != NULL)
        return false;
    memcpy(word, rest->data, length);
    word[length] = '\0';
    size_t used = length + (space != NULL ? 1 : 0);
    rest->data += used;
    rest->length -= used;
    return true;
}

/* A number that fits an int64_t. */
static bool next_number(struct message *rest, int base, uint64_t *number)
{
    char word[20];
    char *end;
    if (!next_word(rest, word, base == 16 ? INCARNATION_SIZE : sizeof(word) - 1) ||
        strspn(word, "0123456789abcdef") != strlen(word))
        return false;
    *number = strtoull(word, &end, base);
    return *end == '\0';
}

static bool next_nick(struct message *rest, char nick[NICKNAME_TEXT_SIZE])
{
    return next_word(rest, nick, NICKNAME_TEXT_SIZE) && nickname_is_whole(nick);
}

struct heard {
    char name[SERVER_NAME_SIZE];
    uint64_t incarnation;
    uint64_t lease;
    uint64_t lines;
    uint64_t events;
    char kind;
    struct message rest;
};

static bool read_head(struct message message, struct heard *heard)
{
    char word[8];
    heard->rest = message;
    if (!next_word(&heard->rest, word, sizeof(word)) || strcmp(word, "chat1") != 0 ||
        !next_word(&heard->rest, heard->name, sizeof(heard->name)) ||
        !nickname_is_possible(heard->name) || !next_number(&heard->rest, 16, &heard->incarnation) ||
        !next_number(&heard->rest, 10, &heard->lease) ||
        !next_number(&heard->rest, 10, &heard->lines) ||
        !next_number(&heard->rest, 10, &heard->events) || !next_word(&heard->rest, word, 2) ||
        heard->lease < LEASE_MIN || heard->lease > LEASE_MAX)
        return false;
    heard->kind = word[0];
    return true;
}

/* ---- Hearing -------------------------------------------------------------------------------- */

static void tell_left(void *broker, const char *name) NO_LOCK_HELD
{
    news_left(&((struct broker *)broker)->chat.news, name);
}

static void hear_line(struct broker *broker, struct message rest) NO_LOCK_HELD
{
    char nick[NICKNAME_TEXT_SIZE];
    if (next_nick(&rest, nick) && rest.length > 0 && chat_say(&broker->chat, NULL, nick, rest))
        counters_add(&broker->chat.server->counters, COUNTER_LINES_HEARD, 1);
}

static void hear_change(struct broker *broker, struct roster_server *server,
                        struct heard *heard) NO_LOCK_HELD
{
    char nick[NICKNAME_TEXT_SIZE];
    char now[NICKNAME_TEXT_SIZE];
    if (!next_nick(&heard->rest, nick))
        return;
    if (heard->kind == '+' && roster_user_came(&broker->roster, server, nick))
        news_came(&broker->chat.news, nick, NULL);
    bool was_there = heard->kind != '+' && roster_user_left(&broker->roster, server, nick);
    bool is_news = was_there || !server->is_known; /* its list has not come yet */
    if (heard->kind == '-' && is_news)
        news_left(&broker->chat.news, nick);
    if (heard->kind != '=' || !next_nick(&heard->rest, now))
        return;
    roster_user_came(&broker->roster, server, now);
    if (is_news)
        news_renamed(&broker->chat.news, nick, now, NULL);
}

/*
 * Who came before we knew the server is not told one by one: /who tells it. But who is on one that
 * was away for a while was said to have left, so that he is here is told again.
 */
static void hear_list(struct broker *broker, struct roster_server *server,
                      struct heard *heard) NO_LOCK_HELD
{
    char nick[NICKNAME_TEXT_SIZE];
    if (heard->kind == 'F' || heard->kind == 'A')
        server->round++;
    while (next_nick(&heard->rest, nick))
        if (roster_user_came(&broker->roster, server, nick) && server->was_known)
            news_came(&broker->chat.news, nick, NULL);
    if (heard->kind != 'E' && heard->kind != 'A')
        return;
    roster_sweep(&broker->roster, server, tell_left, broker);
    server->is_known = true;
    server->was_known = true;
}

/* Asks a server who is there, if what it says does not fit what we know. */
static void ask_for_list(struct broker *broker, struct roster_server *server, int64_t now)
{
    char text[INCARNATION_SIZE];
    if (server->is_known || (server->asked != 0 && now - server->asked < broker_beat(broker)))
        return;
    server->asked = now;
    int length = snprintf(text, sizeof(text), "%" PRIx64, server->incarnation);
    if (broker->commands != NULL)
        broker_publish(broker, '?', text, (size_t)length);
}

/* Somebody asks all, or us. Those who ask at the same time get one list. */
static void hear_question(struct broker *broker, struct message rest)
{
    uint64_t who;
    bool is_for_all = rest.length == 1 && rest.data[0] == '*';
    if (!is_for_all && (!next_number(&rest, 16, &who) || who != broker->incarnation))
        return;
    broker->list_wanted = true;
    if (broker->state == BROKER_UP && clock_ms() - broker->list_sent >= BROKER_LIST_PAUSE)
        broker_publish_list(broker);
}

static bool is_change(char kind)
{
    return kind == '+' || kind == '-' || kind == '=';
}

static bool is_list(char kind)
{
    return kind == 'F' || kind == 'M' || kind == 'E' || kind == 'A';
}

/* Nobody trusts the broker, and one absurd number would make all that follow too small. */
static bool is_plausible(const struct roster_server *server, const struct heard *heard)
{
    return heard->lines < server->lines + COUNT_STEP_MAX &&
           heard->events < server->events + COUNT_STEP_MAX;
}

/*
 * Compares what the server has counted with what has come. False: this came before, by a connection
 * that the server had given up; or it is nothing that the server would say.
 */
static bool follows(struct broker *broker, struct roster_server *server, const struct heard *heard)
{
    uint64_t lines = server->lines + (heard->kind == 'L');
    uint64_t events = server->events + is_change(heard->kind);
    if (heard->lines < lines || heard->events < events || !is_plausible(server, heard))
        return false;
    broker->missed += heard->lines - lines;
    counters_add(&broker->chat.server->counters, COUNTER_LINES_MISSED, heard->lines - lines);
    server->lines = heard->lines;
    server->events = heard->events;
    if (heard->events != events && !is_list(heard->kind))
        server->is_known = false;
    return true;
}

/* What came before this message nobody has missed. */
static void count_from(struct roster_server *server, const struct heard *heard)
{
    server->lines = heard->lines - (heard->kind == 'L' && heard->lines > 0);
    server->events = heard->events - (is_change(heard->kind) && heard->events > 0);
    server->is_known = false;
}

static struct roster_server *meet(struct broker *broker, const struct heard *heard)
{
    struct roster_server *server = roster_add(&broker->roster, heard->name, heard->incarnation);
    if (server != NULL)
        count_from(server, heard);
    else
        log_limited(&broker->chat.server->log, &broker->log_limit, LOG_LEVEL_WARN,
                    "event=broker_crowded server=%s known=%d", heard->name, ROSTER_SERVERS_MAX);
    return server;
}

/*
 * A message does not follow what we have counted, so it is ignored. But if nothing else has come
 * for a while, the server goes on, and our count is wrong: somebody has published in its name, and
 * its users would never be heard again.
 */
static bool begins_anew(struct broker *broker, struct roster_server *server,
                        const struct heard *heard)
{
    int64_t now = clock_ms();
    if (server->behind_since == 0)
        server->behind_since = now;
    if (!server->is_gone && now - server->behind_since < broker_patience(broker)) {
        server->ignored += heard->kind == 'L';
        return false;
    }
    broker->missed += server->ignored;
    counters_add(&broker->chat.server->counters, COUNTER_LINES_MISSED, server->ignored);
    count_from(server, heard);
    return follows(broker, server, heard);
}

/* Its beat says that it goes on. One that stops is only the one that this server replaces. */
static void look_for_namesake(struct broker *broker, struct roster_server *server,
                              const struct heard *heard) NO_LOCK_HELD
{
    if (heard->kind != 'H' || server->is_namesake || !nickname_is_same(server->name, broker->name))
        return;
    server->is_namesake = true;
    chat_tell_all(&broker->chat,
                  "* another server is called %s, too: a name with ~%s behind it may be two users'",
                  broker->name, broker->name);
    log_write(&broker->chat.server->log, LOG_LEVEL_WARN,
              "event=broker_namesake server=%s reason=\"give each its own --broker-name\"",
              broker->name);
}

static void hear_other(struct broker *broker, struct heard *heard) NO_LOCK_HELD
{
    struct roster_server *server = roster_find(&broker->roster, heard->incarnation);
    if (server == NULL)
        server = meet(broker, heard);
    if (server == NULL || (!follows(broker, server, heard) && !begins_anew(broker, server, heard)))
        return;
    server->is_gone = false;
    server->behind_since = 0;
    server->ignored = 0;
    server->heard = clock_ms();
    server->lease = (int64_t)heard->lease;
    look_for_namesake(broker, server, heard);
    if (heard->kind == 'L')
        hear_line(broker, heard->rest);
    else if (is_change(heard->kind))
        hear_change(broker, server, heard);
    else if (is_list(heard->kind))
        hear_list(broker, server, heard);
    else if (heard->kind == '?')
        hear_question(broker, heard->rest);
    else if (heard->kind == '!')
        roster_remove(&broker->roster, server, tell_left, broker);
    if (heard->kind != '!')
        ask_for_list(broker, server, server->heard);
}

/* What we say comes back: so both connections work, and the broker between them. */
static void hear_echo(struct broker *broker) NO_LOCK_HELD
{
    broker->no_echo_since = 0;
    if (broker->state != BROKER_UP && broker->commands != NULL)
        broker_go_up(broker);
}

void broker_hear(struct broker *broker, struct message message)
{
    struct heard heard;
    if (!read_head(message, &heard))
        return;
    if (heard.incarnation == broker->incarnation)
        hear_echo(broker);
    else
        hear_other(broker, &heard);
}

void broker_expire(struct broker *broker, int64_t listening_since)
{
    int64_t now = clock_ms();
    struct roster_server *next = broker->roster.servers;
    while (next != NULL) {
        struct roster_server *server = next;
        int64_t heard = server->heard > listening_since ? server->heard : listening_since;
        next = server->next;
        if (!server->is_gone && now - heard > server->lease)
            roster_silence(&broker->roster, server, tell_left, broker);
    }
}
