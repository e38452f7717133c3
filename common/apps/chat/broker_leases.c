/*
 * Nicknames that no two servers give away. A nickname is a key, chat:nick:ann, whose value is the
 * server of its user, and it expires by itself. `SET key server NX PX 10000` would grant it to one
 * server only; and one that has died keeps no name for long, because one that lives says in time
 * that it still needs it. It cannot say so with SET, because its lease may have expired meanwhile
 * and be somebody else's by now: a script looks and sets in one step. It grants new names, too,
 * because a server that asks twice, by a connection that it had given up, has its own lease.
 *
 * A server that cannot reach the broker keeps the names that it had, though their leases expire.
 * Then two users may have one name, and when the server is back, the one who had it first keeps it.
 */
#include "common/apps/chat/broker_parts.h"
#include "common/base/clock.h"
#include "common/base/container_of.h"
#include "common/server/channel_calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * KEYS: nicknames. ARGV: the owner, the lease in ms, `claim` or `renew`, and of each since when the
 * owner has it. The answer names those that are another's; to renew one, for longer than that.
 */
static const char take_script[] =
    "local lost, own = {}, ARGV[1] .. ' ' "
    "for i, key in ipairs(KEYS) do "
    "local since, held = ARGV[i + 3], redis.call('GET', key) "
    "local other = held and string.sub(held, 1, #own) ~= own "
    "local held_since = other and tonumber(string.match(held, ' (%d+)$')) or 0 "
    "if other and (ARGV[3] == 'claim' or held_since <= tonumber(since)) then lost[#lost + 1] = key "
    "else redis.call('SET', key, own .. since, 'PX', ARGV[2]) end end "
    "return lost";

/* KEYS: nicknames. ARGV: their values, if they are still ours. */
static const char release_script[] =
    "for i, key in ipairs(KEYS) do "
    "if redis.call('GET', key) == ARGV[i] then redis.call('DEL', key) end end";

/* The time of day, which the servers' leases are compared by; ms. */
static uint64_t time_of_day(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void add_key(struct resp_text *text, const char *name)
{
    char key[sizeof(BROKER_KEY) + NICKNAME_TEXT_SIZE];
    snprintf(key, sizeof(key), BROKER_KEY "%s", name);
    resp_string(text, key);
}

/* `NAME.INCARNATION` */
static void write_owner(const struct broker *broker, char owner[BROKER_OWNER_SIZE])
{
    snprintf(owner, BROKER_OWNER_SIZE, "%s.%" PRIx64, broker->name, broker->incarnation);
}

static void write_value(const struct broker *broker, uint64_t since, char value[BROKER_LEASE_SIZE])
{
    char owner[BROKER_OWNER_SIZE];
    write_owner(broker, owner);
    snprintf(value, BROKER_LEASE_SIZE, "%s %" PRIu64, owner, since);
}

/* The script, up to its keys; add_terms() comes behind them, and then a number for each. */
static void begin_take(struct resp_text *text, size_t count)
{
    resp_command(text, 3 + count + 3 + count);
    resp_string(text, "EVAL");
    resp_string(text, take_script);
    resp_number(text, count);
}

static void add_terms(const struct broker *broker, struct resp_text *text, const char *what)
{
    char owner[BROKER_OWNER_SIZE];
    write_owner(broker, owner);
    resp_string(text, owner);
    resp_number(text, (uint64_t)broker->lease);
    resp_string(text, what);
}

/* ---- Claims --------------------------------------------------------------------------------- */

bool broker_send_claim(struct broker *broker, struct broker_user *user)
{
    struct resp_text text = {0};
    user->wanted_since = time_of_day();
    begin_take(&text, 1);
    add_key(&text, user->wanted);
    add_terms(broker, &text, "claim");
    resp_number(&text, user->wanted_since);
    channel_retain(user->facade);
    bool is_sent =
        broker_send(broker, (struct broker_command){.kind = COMMAND_CLAIM, .user = user}, &text);
    resp_free(&text);
    if (is_sent) {
        user->claim = CLAIM_ASKED;
        user->asked = clock_ms();
    } else {
        channel_release(user->facade);
    }
    return is_sent;
}

/* The user has gone meanwhile: what was granted and nobody has taken is given back. */
static void post_is_dropped(struct channel_post *post)
{
    struct broker_user *user = container_of(post, struct broker_user, post);
    struct broker *broker = user->broker;
    mutex_lock(&broker->lock);
    if (user->answer == BROKER_GRANTED && broker->state == BROKER_UP)
        broker_release_lease(broker, user->wanted, user->wanted_since);
    user->is_posted = false;
    mutex_unlock(&broker->lock);
    channel_release(user->facade);
}

void broker_answer(struct broker_user *user, enum broker_answer answer,
                   struct broker_outbox *outbox)
{
    user->answer = answer;
    user->is_posted = true;
    user->post.dropped = post_is_dropped;
    channel_retain(user->facade);
    user->next_answered = outbox->answered;
    outbox->answered = user;
}

void broker_dealt_with(struct broker *broker, struct broker_user *user)
{
    struct channel_facade *facade = user->facade;
    mutex_lock(&broker->lock);
    user->is_posted = false;
    mutex_unlock(&broker->lock);
    channel_release(facade);
}

/* Nobody waits for an answer that is late, or for that to a wish, and he may want something else.
 */
static bool still_wishes(struct broker_user *user)
{
    user->is_wish = true;
    return !user->is_posted && strcmp(user->wish, user->wanted) == 0;
}

void broker_claim_answered(struct broker *broker, struct broker_user *user,
                           enum broker_answer answer, struct broker_outbox *outbox)
{
    bool is_overdue = user->claim == CLAIM_OVERDUE;
    user->claim = CLAIM_NONE;
    bool is_waited_for = !is_overdue && !user->is_wish;
    bool is_wanted = user->is_here && (is_waited_for || still_wishes(user));
    if (is_wanted && user->is_wish && answer == BROKER_TAKEN)
        user->wish[0] = '\0'; /* he is told once */
    if (is_wanted && !(user->is_wish && answer == BROKER_AWAY))
        broker_answer(user, answer, outbox);
    else if (answer == BROKER_GRANTED)
        broker_release_lease(broker, user->wanted, user->wanted_since);
    channel_release(user->facade);
}

/*
 * The broker would grant a name again that another user here has, because it is ours, and with it a
 * lease that begins now: then a server whose lease is younger than the old one could take the name.
 */
void broker_ask_for_wishes(struct broker *broker, struct broker_outbox *outbox)
{
    struct list_link *link = broker->all.next;
    bool goes_on = true;
    for (; link != &broker->all && goes_on; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (user->wish[0] == '\0' || user->claim != CLAIM_NONE || user->is_posted)
            continue;
        memcpy(user->wanted, user->wish, sizeof(user->wanted));
        user->is_wish = true;
        if (nicknames_have(broker->nicknames, user->wish)) {
            user->wish[0] = '\0'; /* he is told once */
            broker_answer(user, BROKER_TAKEN, outbox);
        } else {
            goes_on = broker_send_claim(broker, user);
        }
    }
}

/* ---- Leases --------------------------------------------------------------------------------- */

void broker_release_lease(struct broker *broker, const char *name, uint64_t since)
{
    struct resp_text text = {0};
    char value[BROKER_LEASE_SIZE];
    write_value(broker, since, value);
    resp_command(&text, 5);
    resp_string(&text, "EVAL");
    resp_string(&text, release_script);
    resp_string(&text, "1");
    add_key(&text, name);
    resp_string(&text, value);
    broker_send(broker, (struct broker_command){.kind = COMMAND_OTHER}, &text);
    resp_free(&text);
}

/* Renews so many leases from a user on; which one comes next. */
static struct list_link *renew_some(struct broker *broker, struct list_link *from)
    REQUIRES(&broker->lock)
{
    struct resp_text keys = {0};
    struct resp_text times = {0};
    struct resp_text text = {0};
    size_t count = 0;
    for (; from != &broker->all && count < BROKER_RENEWED_AT_ONCE; from = from->next) {
        struct broker_user *user = container_of(from, struct broker_user, link);
        if (!user->is_leased)
            continue;
        add_key(&keys, user->name);
        resp_number(&times, user->since);
        count++;
    }
    begin_take(&text, count);
    resp_add(&text, keys.data, keys.length);
    add_terms(broker, &text, "renew");
    resp_add(&text, times.data, times.length);
    if (count > 0 && !keys.failed && !times.failed)
        broker_send(broker, (struct broker_command){.kind = COMMAND_RENEW}, &text);
    resp_free(&keys);
    resp_free(&times);
    resp_free(&text);
    return from;
}

void broker_renew(struct broker *broker)
{
    struct list_link *next = broker->all.next;
    broker->next_renewal = clock_ms() + broker->lease / 4;
    while (next != &broker->all)
        next = renew_some(broker, next);
}

/* One who waits for another answer is told at the next renewal, if he has the name then. */
void broker_lease_lost(struct broker *broker, struct message key, struct broker_outbox *outbox)
{
    size_t prefix = strlen(BROKER_KEY);
    struct list_link *link = broker->all.next;
    for (; link != &broker->all; link = link->next) {
        struct broker_user *user = container_of(link, struct broker_user, link);
        if (!user->is_leased || user->is_posted || user->claim != CLAIM_NONE ||
            key.length != prefix + strlen(user->name) ||
            memcmp(key.data + prefix, user->name, key.length - prefix) != 0)
            continue;
        user->is_leased = false;
        broker_answer(user, BROKER_LOST, outbox);
        return;
    }
}
