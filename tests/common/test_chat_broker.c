/*
 * What the broker's client remembers, without connections: for what depends on the moment at which
 * an answer comes.
 */
#include "common/apps/chat/broker_parts.h"

#include "common/base/clock.h"
#include "common/server/channel_calls.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(chat_broker_state, .timeout = 60);

enum { LEASE = 10000 /* ms */ };

static struct server server = {.name = "test", .settings.output_cap = 1 << 20};
static struct group group;
static struct nicknames nicknames;
static struct clerk clerk;
static struct news news;
static struct broker broker;
static struct channel_facade commands;
static struct channel_facade facade; /* of the user */
static struct broker_user user;
static char sent[4096];             /* to the broker, since the last look */
static struct channel_post *posted; /* the last one */

static enum output_result enqueue(struct channel_facade *self, struct piece piece)
{
    cr_assert_eq(self, &commands);
    cr_assert_lt(strlen(sent) + piece.bytes.length, sizeof sent);
    strncat(sent, (const char *)piece.bytes.data, piece.bytes.length);
    return OUTPUT_FLOWING;
}

static void note_post(struct channel_facade *self, struct channel_post *post)
{
    (void)self;
    posted = post;
}

static void count_reference(struct channel_facade *self)
{
    (void)self;
}

static const struct channel_facade_verbs verbs = {
    .enqueue = enqueue, .post = note_post, .retain = count_reference, .release = count_reference};

static void nobody_hears(struct channel_post *post, struct channel_facade *self)
{
    (void)post;
    (void)self;
}

/** A server that reaches its broker, and Ann on it, who is called `name`. */
static void begin(const char *name)
{
    static const struct broker_choice choice = {
        .address = "127.0.0.1:1", .name = "alpha", .lease = LEASE};
    group_init(&group);
    nicknames_init(&nicknames);
    clerk_init(&clerk, &group);
    news_init(&news, &group, &clerk);
    server.log.level = LOG_LEVEL_ERROR;
    cr_assert(
        broker_open(&broker, &choice, &server, &group, &nicknames, &news, &clerk, nobody_hears));
    commands.verbs = facade.verbs = &verbs;
    broker_came(&broker, &user, &facade, name);
    mutex_lock(&broker.lock);
    broker.commands = &commands;
    broker.state = BROKER_UP;
    broker.is_attempted = true;
    broker.attempt = 1;
    broker.up_since = clock_ms();
    mutex_unlock(&broker.lock);
}

static void end(void)
{
    broker_close(&broker);
    news_destroy(&news);
    clerk_destroy(&clerk);
    nicknames_destroy(&nicknames);
    group_destroy(&group);
}

/** Asks for what users wish; who is answered without the broker, or NULL. */
static struct broker_user *ask_for_wishes(void)
{
    struct broker_outbox outbox = {0};
    sent[0] = '\0';
    mutex_lock(&broker.lock);
    broker_ask_for_wishes(&broker, &outbox);
    mutex_unlock(&broker.lock);
    return outbox.answered;
}

/* A post that waits would be posted once more when the second answer comes. */
Test(chat_broker_state, a_wish_is_not_asked_for_while_an_answer_is_on_its_way)
{
    begin("ann~alpha");
    strcpy(user.wish, "ann");
    user.is_posted = true;
    cr_assert_null(ask_for_wishes());
    cr_assert_str_empty(sent);
    user.is_posted = false;
    user.claim = CLAIM_ASKED;
    cr_assert_null(ask_for_wishes());
    cr_assert_str_empty(sent);
    user.claim = CLAIM_NONE;
    cr_assert_null(ask_for_wishes());
    cr_assert_not_null(strstr(sent, "chat:nick:ann"), "`%s`", sent);
    end();
}

/* The broker would grant it, because it is this server's, and count the lease from now on. */
Test(chat_broker_state, a_wish_for_the_name_of_somebody_here_is_refused)
{
    struct nickname bob = {0};
    begin("bob~alpha");
    cr_assert(nicknames_take(&nicknames, &bob, "bob"));
    strcpy(user.wish, "bob");
    cr_assert_eq(ask_for_wishes(), &user);
    cr_assert_eq(user.answer, BROKER_TAKEN);
    cr_assert_str_empty(user.wish);
    cr_assert_str_empty(sent);
    end();
}

/** Ann waits for a claim, and her lease of another name is lost. Whether she is told. */
static bool is_told_of_lost_lease(void)
{
    static const char key[] = "chat:nick:ann";
    struct broker_outbox outbox = {0};
    mutex_lock(&broker.lock);
    broker_lease_lost(&broker, (struct message){(const unsigned char *)key, sizeof key - 1},
                      &outbox);
    mutex_unlock(&broker.lock);
    return outbox.answered == &user;
}

/* Both would be posted with the same post, and the second would come before the first was read. */
Test(chat_broker_state, a_lost_lease_is_told_when_no_other_answer_is_to_come)
{
    begin("ann");
    user.is_leased = true;
    user.claim = CLAIM_ASKED;
    cr_assert_not(is_told_of_lost_lease());
    cr_assert(user.is_leased, "the next renewal tells it again");
    user.claim = CLAIM_NONE;
    user.is_posted = true;
    cr_assert_not(is_told_of_lost_lease());
    user.is_posted = false;
    cr_assert(is_told_of_lost_lease());
    cr_assert_eq(user.answer, BROKER_LOST);
    cr_assert_not(user.is_leased);
    end();
}

/* Carl wished to be x, and has said meanwhile that he would rather be y. */
Test(chat_broker_state, the_answer_to_a_wish_that_is_over_is_given_back)
{
    struct broker_outbox outbox = {0};
    begin("y~alpha");
    strcpy(user.wanted, "x");
    strcpy(user.wish, "y");
    user.is_wish = true;
    user.claim = CLAIM_ASKED;
    sent[0] = '\0';
    mutex_lock(&broker.lock);
    broker_claim_answered(&broker, &user, BROKER_GRANTED, &outbox);
    mutex_unlock(&broker.lock);
    cr_assert_null(outbox.answered);
    cr_assert_not_null(strstr(sent, "chat:nick:x"), "`%s`", sent);
    cr_assert_not_null(strstr(sent, "DEL"), "`%s`", sent);
    cr_assert_str_eq(user.wish, "y");
    end();
}

/** Ann has asked for a name, or wished for one, and the broker answers. Whether she is told. */
static bool is_told(enum broker_answer answer)
{
    struct broker_outbox outbox = {0};
    mutex_lock(&broker.lock);
    broker_claim_answered(&broker, &user, answer, &outbox);
    mutex_unlock(&broker.lock);
    return outbox.answered == &user && user.answer == answer;
}

/* An answer to a wish may be left out, but who has said a name waits for what becomes of it. */
Test(chat_broker_state, who_says_a_name_is_told_though_he_had_wished_for_another)
{
    begin("ann~alpha");
    strcpy(user.wish, "ann");
    cr_assert_null(ask_for_wishes());
    cr_assert(is_told(BROKER_TAKEN));
    broker_dealt_with(&broker, &user);
    cr_assert(broker_claim(&broker, &user, "eve"));
    cr_assert(is_told(BROKER_TAKEN));
    broker_dealt_with(&broker, &user);
    cr_assert(broker_claim(&broker, &user, "eve"));
    cr_assert(is_told(BROKER_AWAY));
    end();
}

/* Or nobody could have the name until the lease has expired. */
Test(chat_broker_state, a_name_that_was_granted_to_one_who_has_gone_is_given_back)
{
    begin("user1~alpha");
    cr_assert(broker_claim(&broker, &user, "ann"));
    cr_assert(is_told(BROKER_GRANTED));
    broker_left(&broker, &user);
    sent[0] = '\0';
    channel_post_drop(&user.post);
    cr_assert_not_null(strstr(sent, "DEL"), "`%s`", sent);
    cr_assert_not_null(strstr(sent, "chat:nick:ann"), "`%s`", sent);
    end();
}

/*
 * After a restart everybody says his name at once, and no more than so many bytes wait for the
 * broker. Those behind wait for those ahead, and need not go by another name meanwhile.
 */
Test(chat_broker_state, a_claim_waits_until_there_is_room_for_it)
{
    struct broker_user other = {0};
    begin("user1~alpha");
    broker_came(&broker, &other, &facade, "user2~alpha");
    broker.waiting_max = 1000;
    sent[0] = '\0';
    cr_assert(broker_claim(&broker, &user, "ann"));
    cr_assert_eq(user.claim, CLAIM_ASKED);
    cr_assert(broker_claim(&broker, &other, "bob"), "nobody says that there is nobody to ask");
    cr_assert_eq(other.claim, CLAIM_WAITS);
    cr_assert_not_null(strstr(sent, "chat:nick:ann"));
    cr_assert_null(strstr(sent, "chat:nick:bob"));
    mutex_lock(&broker.lock);
    broker.count = 0; /* all is answered */
    broker.waiting_bytes = 0;
    mutex_unlock(&broker.lock);
    broker.waiting_max = 1 << 16;
    clerk.chores[CHORE_BROKER].run(&broker, &facade);
    cr_assert_eq(other.claim, CLAIM_ASKED);
    cr_assert_not_null(strstr(sent, "chat:nick:bob"));
    end();
}

/*
 * Ann was granted a name that somebody else here has: the lease is his, and as young as her claim
 * now. So all leases are renewed at the next look, before an older one can take the name from him.
 */
Test(chat_broker_state, the_lease_of_a_name_that_is_declined_has_its_age_again)
{
    begin("ann");
    user.is_leased = true;
    user.since = 4711;
    mutex_lock(&broker.lock);
    broker.next_renewal = INT64_MAX;
    mutex_unlock(&broker.lock);
    broker_declined(&broker, &user);
    sent[0] = '\0';
    clerk.chores[CHORE_BROKER].run(&broker, &facade);
    cr_assert_not_null(strstr(sent, "renew"), "`%s`", sent);
    cr_assert_not_null(strstr(sent, "4711"), "`%s`", sent);
    end();
}

/** Another server publishes its beat or a line; how many of its lines have been missed. */
static uint64_t hear(char kind, int lines)
{
    char text[100];
    struct broker_outbox outbox = {0};
    int length = snprintf(text, sizeof text, "chat1 beta 1 %d %d 0 %c %s", LEASE, lines, kind,
                          kind == 'L' ? "bob hello" : "");
    mutex_lock(&broker.lock);
    broker_hear(&broker, (struct message){(const unsigned char *)text, (size_t)length}, &outbox);
    uint64_t missed = broker.missed;
    mutex_unlock(&broker.lock);
    resp_free(&outbox.items);
    return missed;
}

/** The server has said something that does not follow; that was long ago. */
static void make_behind_for_long(void)
{
    mutex_lock(&broker.lock);
    struct roster_server *beta = roster_find(&broker.roster, 1);
    cr_assert_not_null(beta);
    beta->behind_since -= beta->behind_since != 0 ? LEASE : 0;
    mutex_unlock(&broker.lock);
}

/*
 * What comes late by a connection that the server had given up does not follow, and is ignored.
 * Only if nothing else comes for a while our count is wrong. Two that come late are no such while.
 */
Test(chat_broker_state, what_comes_late_now_and_then_is_ignored_each_time)
{
    begin("ann");
    cr_assert_eq(hear('H', 7), 0);
    cr_assert_eq(hear('H', 3), 0);
    cr_assert_eq(hear('H', 7), 0);
    make_behind_for_long();
    cr_assert_eq(hear('H', 3), 0);
    cr_assert_eq(hear('H', 7), 0, "what came late was believed, and the rest has gone missing");
    end();
}

/* But not for longer than anybody waits for an answer: the broker may be slow for all of them. */
Test(chat_broker_state, who_stands_in_line_for_too_long_goes_by_another_name)
{
    struct broker_user other = {0};
    begin("user1~alpha");
    broker_came(&broker, &other, &facade, "user2~alpha");
    broker.waiting_max = 1000;
    cr_assert(broker_claim(&broker, &user, "ann"));
    cr_assert(broker_claim(&broker, &other, "bob"));
    cr_assert_eq(other.claim, CLAIM_WAITS);
    other.asked -= BROKER_CLAIM_MS;
    clerk.chores[CHORE_BROKER].run(&broker, &facade);
    cr_assert_eq(posted, &other.post);
    cr_assert_eq(other.answer, BROKER_AWAY);
    cr_assert_eq(other.claim, CLAIM_NONE);
    cr_assert_eq(user.claim, CLAIM_ASKED);
    end();
}

/* Somebody has published in its name: what it says is ignored for a while, and then it counts. */
Test(chat_broker_state, lines_that_were_ignored_have_been_missed)
{
    begin("ann");
    cr_assert_eq(hear('H', 7), 0);
    uint64_t forged = hear('H', 100);
    cr_assert_eq(hear('L', 8), forged);
    cr_assert_eq(hear('L', 9), forged);
    make_behind_for_long();
    cr_assert_eq(hear('L', 10), forged + 2);
    cr_assert_eq(hear('L', 11), forged + 2);
    end();
}

/** Whether the other server is taken for one that has gone, if we have listened since that moment.
 */
static bool is_gone(int64_t listening_since)
{
    struct broker_outbox outbox = {0};
    mutex_lock(&broker.lock);
    broker_expire(&broker, listening_since, &outbox);
    bool gone = roster_find(&broker.roster, 1)->is_gone;
    mutex_unlock(&broker.lock);
    resp_free(&outbox.items);
    return gone;
}

/* Or after a pause of ours all others would have left, and come again. */
Test(chat_broker_state, silence_that_we_could_not_have_heard_through_does_not_count)
{
    begin("ann");
    cr_assert_eq(hear('H', 1), 0);
    mutex_lock(&broker.lock);
    roster_find(&broker.roster, 1)->heard -= LEASE + 1;
    mutex_unlock(&broker.lock);
    cr_assert_not(is_gone(clock_ms() - LEASE / 2));
    cr_assert(is_gone(1));
    end();
}

/** So many lines more are lost, and then the clerk looks; how many users are to be told of. */
static uint64_t lose_lines(uint64_t count)
{
    mutex_lock(&broker.lock);
    broker_lines_lost(&broker, count);
    mutex_unlock(&broker.lock);
    clerk.chores[CHORE_BROKER].run(&broker, &facade);
    mutex_lock(&broker.lock);
    uint64_t untold = broker.lost;
    mutex_unlock(&broker.lock);
    return untold;
}

/* Or a broker that is too slow would have users told at each look, as long as it is. */
Test(chat_broker_state, lost_lines_are_told_when_no_more_are_lost)
{
    begin("ann");
    cr_assert_eq(lose_lines(2), 2);
    cr_assert_eq(lose_lines(1), 3);
    cr_assert_eq(lose_lines(0), 0);
    end();
}

/** The pause until the next attempt, when the link ends that was up for so long. */
static int64_t pause_after(int64_t up_for)
{
    struct broker_outbox outbox = {0};
    int64_t now = clock_ms();
    mutex_lock(&broker.lock);
    broker.is_attempted = true;
    broker.state = BROKER_UP;
    broker.up_since = now - up_for;
    broker.commands = NULL;
    broker_lose(&broker, broker.attempt, "a test", &outbox);
    int64_t pause = broker.next_attempt - now;
    mutex_unlock(&broker.lock);
    resp_free(&outbox.items);
    return pause;
}

/*
 * A broker that takes connections and ends them again is not asked ten times a second by each
 * server: only a link that has lasted for a lease makes the pause short again.
 */
Test(chat_broker_state, a_broker_that_flaps_is_asked_less_and_less_often)
{
    begin("ann");
    for (int64_t longest = BROKER_PAUSE_MIN; longest < BROKER_PAUSE_MAX; longest *= 2) {
        cr_assert_geq(pause_after(LEASE / 10), longest / 2);
    }
    cr_assert_geq(pause_after(LEASE / 10), BROKER_PAUSE_MAX / 2);
    cr_assert_lt(pause_after(LEASE + 1000), BROKER_PAUSE_MAX / 2);
    end();
}
