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
#include "common/apps/broker/broker.h"
#include "common/base/clock.h"

#include <ctype.h>
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

/* A name has one key, however it is written. */
static void write_key(const char *name, char key[BROKER_KEY_SIZE])
{
    size_t length = strlen(BROKER_KEY);
    memcpy(key, BROKER_KEY, length);
    for (; *name != '\0' && length < BROKER_KEY_SIZE - 1; name++)
        key[length++] = (char)tolower((unsigned char)*name);
    key[length] = '\0';
}

static void add_key(struct resp_text *text, const char *name)
{
    char key[BROKER_KEY_SIZE];
    write_key(name, key);
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

/* ---- What the user reads --------------------------------------------------------------------- */

/*
 * The user is called so by now. `wish`: what he would be called if the broker were there; NULL: the
 * name is the one that the last answer granted.
 */
static void publish_name(struct broker *broker, struct broker_user *user, const char *before,
                         const char *wish)
{
    char both[2 * NICKNAME_TEXT_SIZE];
    int length = snprintf(both, sizeof(both), "%s %s", before, user->user.nick.text);
    broker->events += user->is_published;
    if (broker->state == BROKER_UP) {
        if (user->is_leased) /* first: who hears of it may want that name */
            broker_release_lease(broker, before, user->since);
        broker_publish(broker, '=', both, (size_t)length);
    }
    user->is_leased = wish == NULL;
    user->since = user->wanted_since;
    snprintf(user->wish, sizeof(user->wish), "%s", wish != NULL ? wish : "");
}

/* Calls him so, here and elsewhere. False: another user here is called so. */
static bool rename_to(struct broker *broker, struct broker_user *user, const char *name,
                      const char *wish) NO_LOCK_HELD
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->user.nick.text);
    if (!chat_rename(&broker->chat, &user->user, name))
        return false;
    publish_name(broker, user, before, wish);
    chat_tell_name(&user->user);
    return true;
}

/* His own name, in other capitals: the lease stays his. */
static void rewrite_name(struct broker *broker, struct broker_user *user,
                         const char *name) NO_LOCK_HELD
{
    bool is_leased = user->is_leased;
    uint64_t since = user->since;
    user->is_leased = false;
    rename_to(broker, user, name, "");
    user->is_leased = is_leased;
    user->since = since;
}

/* The name is somebody else's, or may be, on another server: so his has ours behind it. */
static bool rename_apart(struct broker *broker, struct broker_user *user, const char *nick,
                         const char *wish) NO_LOCK_HELD
{
    char name[NICKNAME_TEXT_SIZE];
    snprintf(name, sizeof(name), "%.*s~%s", NICKNAME_SIZE - 1, nick, broker->name);
    bool is_renamed = rename_to(broker, user, name, wish);
    if (!is_renamed && wish[0] != '\0')
        chat_tell_taken(&user->user, name);
    return is_renamed;
}

/* What he is called has to be nobody else's, so if need be he gets a name that is made up. */
static void give_up_name(struct broker *broker, struct broker_user *user) NO_LOCK_HELD
{
    char before[NICKNAME_TEXT_SIZE];
    snprintf(before, sizeof(before), "%s", user->user.nick.text);
    channel_printf(user->user.member.facade,
                   "* somebody on another server has been %s for longer\n", before);
    if (rename_apart(broker, user, before, ""))
        return;
    chat_make_up_name(&broker->chat, &user->user);
    publish_name(broker, user, before, "");
    chat_tell_name(&user->user);
}

static void tell_refused(struct broker_user *user)
{
    chat_tell_taken(&user->user, user->wanted);
    if (user->is_wish)
        channel_printf(user->user.member.facade, "* you stay %s\n", user->user.nick.text);
    if (user->is_wish)
        user->wish[0] = '\0'; /* he is told once */
}

/*
 * Another user here may have been granted the same name before: for the broker both are ours. The
 * lease has the time of this claim now, so the other one's is renewed soon.
 */
static void take_granted(struct broker *broker, struct broker_user *user) NO_LOCK_HELD
{
    if (rename_to(broker, user, user->wanted, NULL))
        return;
    broker->next_renewal = 0;
    tell_refused(user);
}

static void hear_answer(struct broker *broker, struct broker_user *user,
                        enum broker_answer answer) NO_LOCK_HELD
{
    switch (answer) {
    case BROKER_GRANTED: take_granted(broker, user); break;
    case BROKER_TAKEN: tell_refused(user); break;
    case BROKER_AWAY: rename_apart(broker, user, user->wanted, user->wanted); break;
    case BROKER_LOST: give_up_name(broker, user); break;
    }
}

/* ---- Claims --------------------------------------------------------------------------------- */

/* The user's next message waits for the answer; nobody else does. */
bool broker_wants(struct chat *chat, struct chat_user *one, const char *nick)
{
    struct broker *broker = container_of(chat, struct broker, chat);
    struct broker_user *user = (struct broker_user *)one;
    if (nickname_is_same(one->nick.text, nick)) {
        rewrite_name(broker, user, nick);
        return true;
    }
    if (user->claim != CLAIM_NONE || broker->state == BROKER_DOWN || chat->is_stopping) {
        rename_apart(broker, user, nick, nick);
        return true;
    }
    snprintf(user->wanted, sizeof(user->wanted), "%s", nick);
    user->is_wish = false;
    user->asked = clock_ms();
    user->claim = CLAIM_WAITS;
    if (broker->state == BROKER_UP)
        broker_send_claim(broker, user);
    return false;
}

bool broker_send_claim(struct broker *broker, struct broker_user *user)
{
    struct resp_text text = {0};
    user->wanted_since = time_of_day();
    begin_take(&text, 1);
    add_key(&text, user->wanted);
    add_terms(broker, &text, "claim");
    resp_number(&text, user->wanted_since);
    channel_retain(user->user.member.facade);
    bool is_sent =
        broker_send(broker, (struct broker_command){.kind = COMMAND_CLAIM, .user = user}, &text);
    resp_free(&text);
    if (is_sent) {
        user->claim = CLAIM_ASKED;
        user->asked = clock_ms();
    } else {
        channel_release(user->user.member.facade);
    }
    return is_sent;
}

/* Nobody waits for what is only a wish. */
static bool waits(const struct broker_user *user)
{
    return user->claim == CLAIM_WAITS || (user->claim == CLAIM_ASKED && !user->is_wish);
}

/* Whether the broker should have answered. Before it is known whether there is one, nothing is. */
static bool is_overdue(const struct broker *broker, const struct broker_user *user, int64_t now)
{
    bool is_late = now - user->asked >= BROKER_CLAIM_MS;
    if (user->claim == CLAIM_WAITS)
        return broker->state == BROKER_DOWN || (broker->state == BROKER_UP && is_late);
    return is_late;
}

void broker_answer_overdue(struct broker *broker, bool all)
{
    int64_t now = clock_ms();
    for (struct broker_user *user = broker_first(broker); user != NULL;
         user = broker_next(broker, user)) {
        if (!waits(user) || !(all || is_overdue(broker, user, now)))
            continue;
        user->claim = user->claim == CLAIM_ASKED ? CLAIM_OVERDUE : CLAIM_NONE;
        hear_answer(broker, user, BROKER_AWAY);
        strand_member_go_on(&user->user.member);
    }
}

/* Nobody waits for an answer that is late, or for that to a wish, and he may want something else.
 */
static bool still_wishes(struct broker_user *user)
{
    user->is_wish = true;
    return strcmp(user->wish, user->wanted) == 0;
}

/* What was granted to one who has gone meanwhile is given back. */
void broker_claim_answered(struct broker *broker, struct broker_user *user,
                           enum broker_answer answer)
{
    bool is_waited_for = user->claim == CLAIM_ASKED && !user->is_wish;
    user->claim = CLAIM_NONE;
    bool is_wanted = user->is_here && (is_waited_for || still_wishes(user));
    if (is_wanted && !(user->is_wish && answer == BROKER_AWAY))
        hear_answer(broker, user, answer);
    else if (answer == BROKER_GRANTED)
        broker_release_lease(broker, user->wanted, user->wanted_since);
    if (is_wanted && is_waited_for)
        strand_member_go_on(&user->user.member);
    channel_release(user->user.member.facade);
}

/*
 * The broker would grant a name again that another user here has, because it is ours, and with it a
 * lease that begins now: then a server whose lease is younger than the old one could take the name.
 */
void broker_ask_for_wishes(struct broker *broker)
{
    bool goes_on = true;
    for (struct broker_user *user = broker_first(broker); user != NULL && goes_on;
         user = broker_next(broker, user)) {
        if (user->wish[0] == '\0' || user->claim != CLAIM_NONE)
            continue;
        memcpy(user->wanted, user->wish, sizeof(user->wanted));
        user->is_wish = true;
        if (nicknames_find(&broker->chat.nicknames, user->wish) != NULL)
            tell_refused(user);
        else
            goes_on = broker_send_claim(broker, user);
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

/* Renews so many leases from a user on; who comes next. */
static struct broker_user *renew_some(struct broker *broker, struct broker_user *from)
{
    struct resp_text keys = {0};
    struct resp_text times = {0};
    struct resp_text text = {0};
    size_t count = 0;
    for (; from != NULL && count < BROKER_RENEWED_AT_ONCE; from = broker_next(broker, from)) {
        if (!from->is_leased)
            continue;
        add_key(&keys, from->user.nick.text);
        resp_number(&times, from->since);
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
    struct broker_user *next = broker_first(broker);
    broker->next_renewal = clock_ms() + broker->lease / 4;
    while (next != NULL)
        next = renew_some(broker, next);
}

/* One who waits for another answer is told at the next renewal, if he has the name then. */
void broker_lease_lost(struct broker *broker, struct message key)
{
    for (struct broker_user *user = broker_first(broker); user != NULL;
         user = broker_next(broker, user)) {
        char own[BROKER_KEY_SIZE];
        write_key(user->user.nick.text, own);
        if (!user->is_leased || user->claim != CLAIM_NONE || key.length != strlen(own) ||
            memcmp(key.data, own, key.length) != 0)
            continue;
        user->is_leased = false;
        hear_answer(broker, user, BROKER_LOST);
        return;
    }
}
