/*
 * What the broker's client remembers, without connections: for what depends on the moment at which
 * an answer comes.
 */
#include "common/apps/broker/broker.h"

#include "common/base/clock.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

TestSuite(chat_broker_state, .timeout = 120);

enum { LEASE = 10000 /* ms */ };

static struct server server = {.name = "test", .settings.output_cap = 1 << 20};
static struct broker broker;
static struct channel_facade commands;
static struct channel_facade facade; /* of all users */
static struct broker_user user;
static char sent[4096];  /* to the broker, since the last look */
static char heard[4096]; /* by users, since the last look */

static enum output_result enqueue(struct channel_facade *self, struct piece piece)
{
    char *text = self == &commands ? sent : heard;
    cr_assert_lt(strlen(text) + piece.bytes.length, sizeof sent);
    strncat(text, (const char *)piece.bytes.data, piece.bytes.length);
    return OUTPUT_FLOWING;
}

static void ignore(struct channel_facade *self)
{
    (void)self;
}

static void ignore_timer(struct channel_facade *self, struct channel_timer *timer,
                         int64_t milliseconds)
{
    (void)self;
    (void)timer;
    (void)milliseconds;
}

static int find_no_way(struct channel_facade *self, const struct endpoint *to, int64_t timeout,
                       struct input_handler_factory *factory)
{
    (void)self;
    (void)to;
    (void)timeout;
    (void)factory;
    return ENETUNREACH;
}

static const struct channel_facade_verbs verbs = {.enqueue = enqueue,
                                                  .close = ignore,
                                                  .retain = ignore,
                                                  .release = ignore,
                                                  .connect = find_no_way,
                                                  .set_timer = ignore_timer};

/** He comes, and is called so. */
static void comes(struct broker_user *one, const char *name)
{
    struct strand_group *users = &broker.chat.users;
    *one = (struct broker_user){.user.member = {.facade = &facade, .group = users}};
    list_append(&users->members, &one->user.member.link);
    users->count++;
    users->verbs->joined(users, &one->user.member);
    cr_assert(chat_rename(&broker.chat, &one->user, name));
}

static void leaves(struct broker_user *one)
{
    struct strand_group *users = &broker.chat.users;
    list_remove(&one->user.member.link);
    users->count--;
    broker_verbs.left(&broker.chat, &one->user);
}

/** A server that reaches its broker, and Ann on it, who is called `name`. */
static void begin(const char *name)
{
    static struct strand_host host;
    static const struct broker_choice choice = {
        .address = "127.0.0.1:1", .name = "alpha", .lease = LEASE};
    server.log.level = LOG_LEVEL_ERROR;
    server.strands = &host;
    cr_assert(broker_open(&broker, &choice, &server));
    commands.verbs = facade.verbs = broker.chat.users.strand.facade.verbs = &verbs;
    comes(&user, name);
    broker.commands = &commands;
    broker.state = BROKER_UP;
    broker.is_attempted = true;
    broker.attempt = 1;
    broker.up_since = clock_ms();
    sent[0] = heard[0] = '\0';
}

/** A test with Ann on such a server. */
#define BrokerTest(suite, name, called)                                                            \
    static void suite##_##name##_reached(void);                                                    \
    Test(suite, name)                                                                              \
    {                                                                                              \
        begin(called);                                                                             \
        suite##_##name##_reached();                                                                \
        broker_close(&broker);                                                                     \
    }                                                                                              \
    static void suite##_##name##_reached(void)

/** What users have read since the last call has that in it; NULL: they have read nothing. */
static void expect_heard(const char *text)
{
    cr_assert(text != NULL ? strstr(heard, text) != NULL : heard[0] == '\0', "`%s`", heard);
    heard[0] = '\0';
}

static void expect_sent(const char *text)
{
    cr_assert(text != NULL ? strstr(sent, text) != NULL : sent[0] == '\0', "`%s`", sent);
}

/** Asks for what users wish. */
static void ask_for_wishes(void)
{
    sent[0] = '\0';
    broker_ask_for_wishes(&broker);
}

/* It would be asked for once more, and the answer to the first question would be a surprise. */
BrokerTest(chat_broker_state, a_wish_is_not_asked_for_while_an_answer_is_on_its_way, "ann~alpha")
{
    strcpy(user.wish, "ann");
    user.claim = CLAIM_ASKED;
    ask_for_wishes();
    expect_sent(NULL);
    user.claim = CLAIM_NONE;
    ask_for_wishes();
    expect_sent("chat:nick:ann");
}

/* The broker would grant it, because it is this server's, and count the lease from now on. */
BrokerTest(chat_broker_state, a_wish_for_the_name_of_somebody_here_is_refused, "bob~alpha")
{
    struct broker_user bob;
    comes(&bob, "Bob");
    heard[0] = '\0';
    strcpy(user.wish, "bob");
    ask_for_wishes();
    expect_heard("ERR somebody else is called bob\n* you stay bob~alpha\n");
    cr_assert_str_empty(user.wish);
    expect_sent(NULL);
}

/** Ann waits for a claim, and her lease of another name is lost. Whether she is told. */
static bool is_told_of_lost_lease(void)
{
    static const char key[] = "chat:nick:ann";
    heard[0] = '\0';
    broker_lease_lost(&broker, (struct message){(const unsigned char *)key, sizeof key - 1});
    return strstr(heard, "somebody on another server has been Ann for longer") != NULL;
}

/* She would be told of a name that she is about to give up. */
BrokerTest(chat_broker_state, a_lost_lease_is_told_when_no_other_answer_is_to_come, "Ann")
{
    user.is_leased = true;
    user.claim = CLAIM_ASKED;
    cr_assert_not(is_told_of_lost_lease());
    cr_assert(user.is_leased, "the next renewal tells it again");
    user.claim = CLAIM_NONE;
    cr_assert(is_told_of_lost_lease());
    cr_assert_not(user.is_leased);
    cr_assert_str_eq(user.user.nick.text, "Ann~alpha");
}

/* Carl wished to be x, and has said meanwhile that he would rather be y. */
BrokerTest(chat_broker_state, the_answer_to_a_wish_that_is_over_is_given_back, "y~alpha")
{
    strcpy(user.wanted, "x");
    strcpy(user.wish, "y");
    user.is_wish = true;
    user.claim = CLAIM_ASKED;
    broker_claim_answered(&broker, &user, BROKER_GRANTED);
    expect_heard(NULL);
    expect_sent("chat:nick:x");
    expect_sent("DEL");
    cr_assert_str_eq(user.wish, "y");
}

/** Ann says a name. Whether she waits for what becomes of it. */
static bool says(struct broker_user *one, const char *nick)
{
    sent[0] = heard[0] = '\0';
    return !broker_verbs.wants(&broker.chat, &one->user, nick);
}

/* An answer to a wish may be left out, but who has said a name waits for what becomes of it. */
BrokerTest(chat_broker_state, who_says_a_name_is_told_though_he_had_wished_for_another, "ann~alpha")
{
    strcpy(user.wish, "ann");
    ask_for_wishes();
    broker_claim_answered(&broker, &user, BROKER_TAKEN);
    expect_heard("ERR somebody else is called ann");
    cr_assert(says(&user, "eve"));
    broker_claim_answered(&broker, &user, BROKER_TAKEN);
    expect_heard("ERR somebody else is called eve");
    cr_assert(says(&user, "eve"));
    broker_claim_answered(&broker, &user, BROKER_AWAY);
    expect_heard("* you are eve~alpha");
}

/* Or nobody could have the name until the lease has expired. */
BrokerTest(chat_broker_state, a_name_that_was_granted_to_one_who_has_gone_is_given_back,
           "user1~alpha")
{
    cr_assert(says(&user, "Ann"));
    expect_sent("chat:nick:ann");
    leaves(&user);
    sent[0] = heard[0] = '\0';
    broker_claim_answered(&broker, &user, BROKER_GRANTED);
    expect_sent("DEL");
    expect_sent("chat:nick:ann");
    expect_heard(NULL);
}

/** A name is given back before others hear that nobody has it: one of them may want it at once. */
static void expect_free_before(const char *published)
{
    const char *freed = strstr(sent, "DEL");
    const char *told = strstr(sent, published);
    cr_assert(freed && told && freed < told, "`%s`", sent);
}

BrokerTest(chat_broker_state, a_name_is_free_when_it_is_heard_that_she_has_left, "ann")
{
    user.is_leased = true;
    sent[0] = '\0';
    leaves(&user);
    expect_free_before(" - ann");
}

BrokerTest(chat_broker_state, a_name_is_free_when_it_is_heard_that_she_is_called_otherwise, "ann")
{
    user.is_leased = true;
    cr_assert(says(&user, "anna"));
    sent[0] = '\0';
    broker_claim_answered(&broker, &user, BROKER_GRANTED);
    expect_free_before(" = ann anna");
}

/* His own name is his in whichever capitals, and its lease is as old as it was. */
BrokerTest(chat_broker_state, who_writes_his_name_otherwise_keeps_his_lease, "ann")
{
    user.is_leased = true;
    user.since = 4711;
    cr_assert_not(says(&user, "Ann"));
    expect_heard("* you are Ann");
    expect_sent(" = ann Ann");
    cr_assert_null(strstr(sent, "DEL"));
    cr_assert(user.is_leased && user.since == 4711);
    broker_renew(&broker);
    expect_sent("chat:nick:ann");
}

/*
 * After a restart everybody says his name at once, and no more than so many bytes wait for the
 * broker. Those behind wait for those ahead, and need not go by another name meanwhile.
 */
BrokerTest(chat_broker_state, a_claim_waits_until_there_is_room_for_it, "user1~alpha")
{
    struct broker_user other;
    comes(&other, "user2~alpha");
    broker.waiting_max = broker.waiting_bytes + 1000;
    cr_assert(says(&user, "ann"));
    cr_assert_eq(user.claim, CLAIM_ASKED);
    expect_sent("chat:nick:ann");
    cr_assert(says(&other, "bob"), "nobody says that there is nobody to ask");
    cr_assert_eq(other.claim, CLAIM_WAITS);
    expect_sent(NULL);
    broker.count = 0; /* all is answered */
    broker.waiting_bytes = 0;
    broker.waiting_max = 1 << 16;
    broker_look(&broker);
    cr_assert_eq(other.claim, CLAIM_ASKED);
    expect_sent("chat:nick:bob");
}

/*
 * Ann was granted a name that somebody else here has: the lease is his, and as young as her claim
 * now. So all leases are renewed at the next look, before an older one can take the name from him.
 */
BrokerTest(chat_broker_state, the_lease_of_a_name_that_is_declined_has_its_age_again, "ann")
{
    struct broker_user other;
    comes(&other, "user2~alpha");
    user.is_leased = true;
    user.since = 4711;
    strcpy(other.wanted, "ann");
    other.claim = CLAIM_ASKED;
    broker.next_renewal = INT64_MAX;
    heard[0] = sent[0] = '\0';
    broker_claim_answered(&broker, &other, BROKER_GRANTED);
    expect_heard("ERR somebody else is called ann");
    broker_look(&broker);
    expect_sent("renew");
    expect_sent("4711");
}

/** Another server publishes its beat or a line; how many of its lines have been missed. */
static uint64_t hear(char kind, int lines)
{
    char text[100];
    int length = snprintf(text, sizeof text, "chat1 beta 1 %d %d 0 %c %s", LEASE, lines, kind,
                          kind == 'L' ? "bob hello" : "");
    broker_hear(&broker, (struct message){(const unsigned char *)text, (size_t)length});
    uint64_t missed = broker.missed;
    return missed;
}

/** The server has said something that does not follow; that was long ago. */
static void make_behind_for_long(void)
{
    struct roster_server *beta = roster_find(&broker.roster, 1);
    cr_assert_not_null(beta);
    beta->behind_since -= beta->behind_since != 0 ? LEASE : 0;
}

/*
 * What comes late by a connection that the server had given up does not follow, and is ignored.
 * Only if nothing else comes for a while our count is wrong. Two that come late are no such while.
 */
BrokerTest(chat_broker_state, what_comes_late_now_and_then_is_ignored_each_time, "ann")
{
    cr_assert_eq(hear('H', 7), 0);
    cr_assert_eq(hear('H', 3), 0);
    cr_assert_eq(hear('H', 7), 0);
    make_behind_for_long();
    cr_assert_eq(hear('H', 3), 0);
    cr_assert_eq(hear('H', 7), 0, "what came late was believed, and the rest has gone missing");
}

/* But not for longer than anybody waits for an answer: the broker may be slow for all of them. */
BrokerTest(chat_broker_state, who_stands_in_line_for_too_long_goes_by_another_name, "user1~alpha")
{
    struct broker_user other;
    comes(&other, "user2~alpha");
    broker.waiting_max = broker.waiting_bytes + 1000;
    cr_assert(says(&user, "ann"));
    cr_assert(says(&other, "bob"));
    cr_assert_eq(other.claim, CLAIM_WAITS);
    other.asked -= BROKER_CLAIM_MS;
    broker_look(&broker);
    expect_heard("* you are bob~alpha");
    cr_assert_eq(other.claim, CLAIM_NONE);
    cr_assert_eq(user.claim, CLAIM_ASKED);
}

/* Somebody has published in its name: what it says is ignored for a while, and then it counts. */
BrokerTest(chat_broker_state, lines_that_were_ignored_have_been_missed, "ann")
{
    cr_assert_eq(hear('H', 7), 0);
    uint64_t forged = hear('H', 100);
    cr_assert_eq(hear('L', 8), forged);
    cr_assert_eq(hear('L', 9), forged);
    make_behind_for_long();
    cr_assert_eq(hear('L', 10), forged + 2);
    cr_assert_eq(hear('L', 11), forged + 2);
}

/** Whether the other server is taken for one that has gone, if we have listened since that moment.
 */
static bool is_gone(int64_t listening_since)
{
    broker_expire(&broker, listening_since);
    bool gone = roster_find(&broker.roster, 1)->is_gone;
    return gone;
}

/* Or after a pause of ours all others would have left, and come again. */
BrokerTest(chat_broker_state, silence_that_we_could_not_have_heard_through_does_not_count, "ann")
{
    cr_assert_eq(hear('H', 1), 0);
    roster_find(&broker.roster, 1)->heard -= LEASE + 1;
    cr_assert_not(is_gone(clock_ms() - LEASE / 2));
    cr_assert(is_gone(1));
}

/** So many lines more are lost, and then it is looked after; how many users are to be told of. */
static uint64_t lose_lines(uint64_t count)
{
    broker_lines_lost(&broker, count);
    broker_look(&broker);
    uint64_t untold = broker.lost;
    return untold;
}

/* Or a broker that is too slow would have users told at each look, as long as it is. */
BrokerTest(chat_broker_state, lost_lines_are_told_when_no_more_are_lost, "ann")
{
    cr_assert_eq(lose_lines(2), 2);
    cr_assert_eq(lose_lines(1), 3);
    cr_assert_eq(lose_lines(0), 0);
}

/** The pause until the next attempt, when the link ends that was up for so long. */
static int64_t pause_after(int64_t up_for)
{
    int64_t now = clock_ms();
    broker.is_attempted = true;
    broker.state = BROKER_UP;
    broker.up_since = now - up_for;
    broker.commands = NULL;
    broker_lose(&broker, broker.attempt, "a test");
    int64_t pause = broker.next_attempt - now;
    return pause;
}

/*
 * A broker that takes connections and ends them again is not asked ten times a second by each
 * server: only a link that has lasted for a lease makes the pause short again.
 */
BrokerTest(chat_broker_state, a_broker_that_flaps_is_asked_less_and_less_often, "ann")
{
    for (int64_t longest = BROKER_PAUSE_MIN; longest < BROKER_PAUSE_MAX; longest *= 2) {
        cr_assert_geq(pause_after(LEASE / 10), longest / 2);
    }
    cr_assert_geq(pause_after(LEASE / 10), BROKER_PAUSE_MAX / 2);
    cr_assert_lt(pause_after(LEASE + 1000), BROKER_PAUSE_MAX / 2);
}
