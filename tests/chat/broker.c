/*
 * The chat on several servers, over redis: what crosses, and what becomes of it when redis or one
 * of the servers does not answer.
 */
#include "chat_user.h"
#include "redis.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(chat_broker, .timeout = 120);

enum { SERVERS = 2 };

static const char *const names[SERVERS] = {"alpha", "beta"};

/** Redis, and two servers that know it. */
struct scene {
    struct redis redis;
    struct server_process servers[SERVERS];
};

static struct server_process start(int port, int i, const char *options)
{
    return server_start("--app chat --broker 127.0.0.1:%d --broker-name %s --stats "
                        "--output-cap 4194304 %s",
                        port, names[i], options);
}

static struct scene open_scene(const char *options)
{
    struct scene scene = {.redis = redis_start()};
    for (int i = 0; i < SERVERS; i++) {
        scene.servers[i] = start(scene.redis.port, i, options);
    }
    return scene;
}

static void close_scene(struct scene *scene)
{
    for (int i = 0; i < SERVERS; i++) {
        server_close_all(&scene->servers[i]);
    }
    redis_kill(&scene->redis);
}

/** A test that has `scene`, a pointer, which was opened with these options. */
#define SceneTest(suite, name, options)                                                            \
    TestWith(suite, name, struct scene, scene, *scene = open_scene(options), close_scene(scene))

/** Takes lines until one is that, and asserts that none of them is this. */
static void await_without(int fd, const char *text, const char *unwanted)
{
    static struct chat_line line;
    double end = test_deadline();
    do {
        cr_assert_eq(chat_try_line(fd, &line, end), CLIENT_GOT, "`%s` did not come", text);
        cr_assert_null(strstr(line.text, unwanted), "unwanted: `%s`", line.text);
    } while (strcmp(line.text, text) != 0);
}

/** Takes lines until both have come, in whichever order, and asserts that none of them is this. */
static void await_both(int fd, const char *one, const char *other, const char *unwanted)
{
    static struct chat_line line;
    const char *wanted[] = {one, other};
    double end = test_deadline();
    while (wanted[0] != NULL || wanted[1] != NULL) {
        cr_assert_eq(chat_try_line(fd, &line, end), CLIENT_GOT, "`%s` did not come",
                     wanted[0] != NULL ? one : other);
        cr_assert_null(strstr(line.text, unwanted), "unwanted: `%s`", line.text);
        for (int i = 0; i < 2; i++) {
            if (wanted[i] != NULL && strcmp(line.text, wanted[i]) == 0) {
                wanted[i] = NULL;
            }
        }
    }
}

/** So many servers hear what is published. */
static void await_subscribers(const struct redis *redis, int count)
{
    char wanted[16];
    snprintf(wanted, sizeof wanted, ":%d", count);
    redis_await(redis, "EVAL \"return redis.call('PUBSUB','NUMSUB','chat')[2]\" 0", wanted);
}

/** Ann on alpha and Bob on beta, who know of each other. */
static void join_both(struct scene *scene, int *ann, int *bob)
{
    *ann = chat_join_as(&scene->servers[0], "ann");
    *bob = chat_join_as(&scene->servers[1], "bob");
    chat_await_line(*ann, "* user1~beta is now bob");
}

/* The same with the two of them. */
#define BothTest(suite, name, options)                                                             \
    static void suite##_##name##_of(struct scene *scene, int ann, int bob);                        \
    SceneTest(suite, name, options)                                                                \
    {                                                                                              \
        int ann;                                                                                   \
        int bob;                                                                                   \
        join_both(scene, &ann, &bob);                                                              \
        suite##_##name##_of(scene, ann, bob);                                                      \
    }                                                                                              \
    static void suite##_##name##_of(struct scene *scene, int ann, int bob)

BothTest(chat_broker, lines_cross_once_in_order_and_not_to_the_speaker, "")
{
    enum { LINES = 500 };
    int carl = chat_join_as(&scene->servers[0], "carl");
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    client_send(ann, lines, length);
    for (int i = 0; i < LINES; i++) {
        char wanted[64];
        snprintf(wanted, sizeof wanted, "[ann] line %06d", i);
        chat_expect_line(bob, wanted);
        chat_expect_line(carl, wanted);
    }
    free(lines);
    chat_expect_heard(bob, "bob", carl);
    chat_expect_line(ann, "[bob] do you hear me");
    cr_assert_eq(server_counter(&scene->servers[0], "lines_lost"), 0);
    cr_assert_eq(server_counter(&scene->servers[1], "lines_missed"), 0);
    cr_assert_eq(server_counter(&scene->servers[1], "lines_heard"), LINES);
}

/** Asks who is there until the list begins so. */
static void await_list(int fd, const char *first)
{
    static struct chat_line line;
    double end = test_deadline();
    do {
        client_send_text(fd, "/who\n");
        do {
            cr_assert_eq(chat_try_line(fd, &line, end), CLIENT_GOT, "never `%s`", first);
        } while (strstr(line.text, " here") == NULL || strstr(line.text, " is here") != NULL);
    } while (strcmp(line.text, first) != 0);
}

BothTest(chat_broker, who_comes_who_goes_and_who_is_where, "")
{
    client_send_text(ann, "/who\n");
    chat_expect_line(ann, "* 2 here");
    chat_expect_line(ann, "* ann on alpha");
    chat_expect_line(ann, "* bob on beta");
    int carl = chat_join_as(&scene->servers[1], "carl");
    chat_await_line(ann, "* user2~beta is here");
    chat_await_line(ann, "* user2~beta is now carl");
    client_close(carl);
    chat_await_line(ann, "* carl has left");
    chat_await_line(bob, "* carl has left");
    /* One who comes later learns who is there. */
    server_stop(&scene->servers[0]);
    chat_await_line(bob, "* ann has left");
    client_close(ann);
    scene->servers[0] = start(scene->redis.port, 0, "");
    ann = chat_join_as(&scene->servers[0], "ann");
    await_list(ann, "* 2 here");
    chat_expect_line(ann, "* ann on alpha");
    chat_expect_line(ann, "* bob on beta");
}

Test(chat_broker, a_nickname_is_one_user_s_on_all_servers)
{
    struct scene scene = open_scene("--broker-lease 60"); /* nothing is given back by itself */
    int ann;
    int bob;
    join_both(&scene, &ann, &bob);
    client_send_text(bob, "/nick ann\n/nick bob\nstill bob\n");
    chat_await_line(bob, "ERR somebody else is called ann");
    chat_expect_line(bob, "* you are bob");
    chat_expect_line(ann, "[bob] still bob");
    /* What is given back, by another name or by leaving, is another's. */
    client_send_text(ann, "/nick anna\n");
    chat_await_line(bob, "* ann is now anna");
    client_send_text(bob, "/nick ann\nhello\n");
    chat_await_line(bob, "* you are ann");
    chat_await_line(ann, "[ann] hello");
    client_close(ann);
    redis_await(&scene.redis, "EXISTS chat:nick:anna", ":0");
    client_close(bob);
    close_scene(&scene);
}

/** Each of its users is told to have left, once; and his name is free. */
SceneTest(chat_broker, a_server_that_dies_is_mourned_once, "--broker-lease 3")
{
    enum { USERS = 3 };
    int ann = chat_join_as(&scene->servers[0], "ann");
    for (int i = 0; i < USERS; i++) {
        char nick[CHAT_NICK_SIZE];
        char text[80];
        snprintf(nick, sizeof nick, "b%d", i);
        chat_join_as(&scene->servers[1], nick);
        snprintf(text, sizeof text, "* user%d~beta is now %s", i + 1, nick);
        chat_await_line(ann, text);
    }
    server_signal(&scene->servers[1], SIGKILL);
    server_await_end(&scene->servers[1], test_now() + 10);
    server_forget(&scene->servers[1]);
    static struct chat_line line;
    double end = test_deadline();
    int departures[USERS] = {0};
    for (int i = 0; i < USERS; i++) {
        int who = -1;
        cr_assert_eq(chat_try_line(ann, &line, end), CLIENT_GOT, "only %d departures", i);
        cr_assert_eq(sscanf(line.text, "* b%d has left", &who), 1, "`%s`", line.text);
        cr_assert_eq(departures[who]++, 0, "a second departure of b%d", who);
    }
    redis_await(&scene->redis, "EXISTS chat:nick:b0 chat:nick:b1 chat:nick:b2", ":0");
    scene->servers[1] = start(scene->redis.port, 1, "--broker-lease 3");
    chat_join_as(&scene->servers[1], "b0");
    await_without(ann, "* user1~beta is now b0", "left");
}

/** Two users here talk, at once. */
static void expect_local_talk(int one, int two, const char *text)
{
    char said[80];
    char heard[100];
    snprintf(said, sizeof said, "%s\n", text);
    snprintf(heard, sizeof heard, "[ann] %s", text);
    client_send_text(one, said);
    chat_await_line(two, heard);
}

Test(chat_broker, without_redis_the_chat_goes_on_and_it_is_told_once)
{
    struct redis redis = redis_start();
    redis_kill(&redis);
    struct server_process server = start(redis.port, 0, "");
    char nick[CHAT_NICK_SIZE];
    int ann = chat_join(&server, nick);
    cr_assert_str_eq(nick, "user1~alpha");
    chat_await_line(ann, "* the other servers are out of reach; those on alpha hear you");
    client_send_text(ann, "/nick ann\n");
    chat_expect_line(ann, "* you are ann~alpha");
    int carl = chat_join(&server, nick);
    chat_expect_line(carl, "* the other servers are out of reach; those on alpha hear you");
    client_send_text(ann, "lost\n");
    chat_expect_line(carl, "[ann~alpha] lost");
    redis_start_again(&redis);
    await_both(ann,
               "* the other servers are in reach again; 1 line from here did not reach the other "
               "servers",
               "* you are ann", "out of reach");
    chat_await_line(carl, "* ann~alpha is now ann");
    expect_local_talk(ann, carl, "as before");
    server_await_counter(&server, "lines_published", 1);
    server_close_all(&server);
    redis_kill(&redis);
}

/** The one whose name is another one's by now keeps the name that he has. */
Test(chat_broker, a_name_that_is_taken_when_redis_comes_back)
{
    struct redis redis = redis_start();
    redis_kill(&redis);
    struct server_process alpha = start(redis.port, 0, "");
    char nick[CHAT_NICK_SIZE];
    int ann = chat_join(&alpha, nick);
    chat_await_line(ann, "* the other servers are out of reach; those on alpha hear you");
    redis_start_again(&redis);
    redis_expect(&redis, "SET chat:nick:ann somebody PX 60000", "+OK");
    redis_signal(&redis, SIGSTOP);
    client_send_text(ann, "/nick ann\n");
    chat_await_line(ann, "* you are ann~alpha");
    redis_signal(&redis, SIGCONT);
    chat_await_line(ann, "ERR somebody else is called ann");
    chat_expect_line(ann, "* you stay ann~alpha");
    server_close_all(&alpha);
    redis_kill(&redis);
}

/* On a busy machine they may be without redis for long: nobody may be given up meanwhile. */
BothTest(chat_broker, lines_that_redis_takes_along_are_counted_and_said_on_both_sides,
         "--broker-lease 30")
{
    client_send_text(ann,
                     "zero\n"); /* beta knows alpha: what it missed before that, nobody counts */
    chat_await_line(bob, "[ann] zero");
    server_await_counter(&scene->servers[0], "lines_published", 1); /* else that is lost, too */
    redis_kill(&scene->redis);
    chat_await_line(ann, "* the other servers are out of reach; those on alpha hear you");
    chat_await_line(bob, "* the other servers are out of reach; those on beta hear you");
    client_send_text(ann, "one\ntwo\n/who\n");
    chat_expect_line(ann, "* 2 here; the other servers are out of reach");
    redis_start_again(&scene->redis);
    chat_await_line(ann, "* the other servers are in reach again; 2 lines from here did not reach "
                         "the other servers");
    await_without(bob, "* 2 lines from other servers did not arrive", "[ann]");
    client_send_text(ann, "three\n");
    await_without(bob, "[ann] three", "left");
    cr_assert_eq(server_counter(&scene->servers[0], "lines_lost"), 2);
    cr_assert_eq(server_counter(&scene->servers[1], "lines_missed"), 2);
    redis_await(&scene->redis, "EXISTS chat:nick:ann chat:nick:bob", ":2");
}

BothTest(chat_broker, a_redis_that_is_stopped_stops_nobody, "--broker-lease 2")
{
    int carl = chat_join_as(&scene->servers[0], "carl");
    redis_signal(&scene->redis, SIGSTOP);
    expect_local_talk(ann, carl, "at once");
    client_send_text(carl, "/nick carlo\n");
    chat_await_line(ann, "* the other servers are out of reach; those on alpha hear you");
    expect_local_talk(ann, carl, "and later");
    redis_signal(&scene->redis, SIGCONT);
    await_without(ann,
                  "* the other servers are in reach again; 2 lines from here did not reach the "
                  "other servers",
                  "out of reach");
    chat_await_line(carl, "* you are carlo");
    await_subscribers(&scene->redis, 2); /* beta is back, too */
    client_send_text(ann, "hello\n");
    await_without(bob, "[ann] hello", "[ann] and later");
}

/** Redis ends the connection of a subscriber that does not keep up: its output buffer limit. */
SceneTest(chat_broker, a_subscriber_that_redis_cuts_off_knows_what_it_has_missed,
          "--broker-lease 60 --output-cap 67108864 --talk-rate 0")
{
    enum { LINES = 3500, LENGTH = 4000, AT_A_TIME = 50 };
    int ann;
    int bob;
    join_both(scene, &ann, &bob);
    redis_expect(&scene->redis, "CONFIG SET client-output-buffer-limit \"pubsub 65536 0 0\"",
                 "+OK");
    server_signal(&scene->servers[1], SIGSTOP);
    size_t length;
    char *said = line_of(LENGTH, "\n", &length);
    for (int i = 1; i <= LINES; i++) {
        client_send(ann, said, length);
        if (i % AT_A_TIME == 0) { /* alpha keeps only so many for a redis that is slow */
            server_await_counter(&scene->servers[0], "lines_published", i);
        }
    }
    free(said);
    await_subscribers(&scene->redis, 1);
    server_signal(&scene->servers[1], SIGCONT);
    await_subscribers(&scene->redis, 2);
    client_send_text(ann, "the last one\n");
    static struct chat_line line;
    double end = test_deadline();
    int heard = 0;
    do {
        cr_assert_eq(chat_try_line(bob, &line, end), CLIENT_GOT, "heard %d", heard);
        heard += line.text[0] == '[';
    } while (strcmp(line.text, "[ann] the last one") != 0);
    cr_assert_eq(server_counter(&scene->servers[1], "lines_missed"), LINES + 1 - heard);
    cr_assert_gt(server_counter(&scene->servers[1], "lines_missed"), 0);
}

/** Of two users with one name, it stays with the one who has had it for longer. */
BothTest(chat_broker, the_older_lease_keeps_the_name, "--broker-lease 1")
{
    /* A younger one: another server has granted it while this one could not renew its own. */
    redis_expect(&scene->redis, "SET chat:nick:ann \"gamma.1 9999999999999\" PX 60000", "+OK");
    redis_await(&scene->redis,
                "EVAL \"return #redis.call('GET','chat:nick:ann')>20 and "
                "string.sub(redis.call('GET','chat:nick:ann'),1,6)\" 0",
                "alpha.");
    redis_expect(&scene->redis, "SET chat:nick:ann \"gamma.1 1\" PX 60000", "+OK");
    chat_await_line(ann, "* somebody on another server has been ann for longer");
    chat_expect_line(ann, "* you are ann~alpha");
    chat_await_line(bob, "* ann is now ann~alpha");
}

/* ---- Names, when redis was away ---- */

/** Redis is gone, and everybody knows. */
static void kill_redis(struct scene *scene, int ann, int bob)
{
    redis_kill(&scene->redis);
    chat_await_line(ann, "* the other servers are out of reach; those on alpha hear you");
    chat_await_line(bob, "* the other servers are out of reach; those on beta hear you");
}

/** So many renewals of leases have come since the call. */
static void await_renewals(const struct redis *redis, const char *nick, int count)
{
    char command[64];
    char answer[REDIS_ANSWER_SIZE];
    for (int i = 0; i < count; i++) {
        snprintf(command, sizeof command, "DEL chat:nick:%s", nick);
        redis_ask(redis, command, answer);
        snprintf(command, sizeof command, "EXISTS chat:nick:%s", nick);
        redis_await(redis, command, ":1");
    }
}

/**
 * A name that a user of the same server has is taken, whether or not anybody can be asked. If the
 * server asked for it again later, redis would say that it is its own, with a younger lease.
 */
BothTest(chat_broker, a_name_of_somebody_here_is_refused_once, "--broker-lease 2")
{
    char before[REDIS_ANSWER_SIZE];
    int carl = chat_join_as(&scene->servers[1], "carl");
    redis_ask(&scene->redis, "GET chat:nick:bob", before);
    kill_redis(scene, ann, bob);
    client_send_text(carl, "/nick bob\n");
    chat_await_line(carl, "ERR somebody else is called bob");
    redis_start_again(&scene->redis);
    chat_await_line(bob, "* the other servers are in reach again");
    redis_await(&scene->redis, "EXISTS chat:nick:carl", ":1");
    await_renewals(&scene->redis, "carl", 4);
    redis_await(&scene->redis, "GET chat:nick:bob", before);
    client_send_text(bob, "still here\n");
    await_without(carl, "[bob] still here", "ERR");
}

/**
 * Who has to give up his name goes by one with his server behind it. If somebody has that, he gets
 * another one: the name that he has lost he must not keep.
 */
SceneTest(chat_broker, who_loses_his_name_gets_another_one_in_any_case, "--broker-lease 1")
{
    int ann = chat_join_as(&scene->servers[0], "ann");
    int carl = chat_join_as(&scene->servers[0], "carl");
    redis_expect(&scene->redis, "SET chat:nick:x gamma.1 PX 60000", "+OK");
    redis_signal(&scene->redis, SIGSTOP);
    client_send_text(carl, "/nick x\n");
    chat_await_line(carl, "* you are x~alpha");
    redis_signal(&scene->redis, SIGCONT);
    chat_await_line(carl, "ERR somebody else is called x");
    chat_expect_line(carl, "* you stay x~alpha");
    redis_expect(&scene->redis, "DEL chat:nick:x", ":1");
    client_send_text(ann, "/nick x\n");
    chat_await_line(ann, "* you are x");
    redis_expect(&scene->redis, "SET chat:nick:x \"gamma.1 1\" PX 60000", "+OK");
    chat_await_line(ann, "* somebody on another server has been x for longer");
    chat_await_line(ann, "* you are user3~alpha");
    client_send_text(ann, "hello\n");
    chat_await_line(carl, "[user3~alpha] hello");
}

/**
 * Whoever can publish can do so in the name of a server. Its next lines seem to be old ones then;
 * but when nothing newer comes, they are heard again, and not only after the lease that was forged.
 */
BothTest(chat_broker, a_forged_message_does_not_mute_a_server, "--broker-lease 3")
{
    static struct chat_line line;
    char owner[REDIS_ANSWER_SIZE];
    char incarnation[64];
    char command[200];
    chat_expect_heard(ann, "ann", bob);
    redis_ask(&scene->redis, "GET chat:nick:ann", owner);
    cr_assert_eq(sscanf(owner, "alpha.%63[0-9a-f]", incarnation), 1, "`%s`", owner);
    snprintf(command, sizeof command, "PUBLISH chat \"chat1 alpha %s 3600000 1001 100 H \"",
             incarnation);
    redis_ask(&scene->redis, command, owner);
    chat_await_line(bob, "* 1000 lines from other servers did not arrive");
    double end = test_deadline();
    for (int i = 0; strncmp(line.text, "[ann] again ", 12) != 0; i++) {
        char text[32];
        snprintf(text, sizeof text, "again %d\n", i);
        client_send_text(ann, text);
        enum client_outcome outcome = chat_try_line(bob, &line, test_now() + 0.05);
        cr_assert(outcome == CLIENT_GOT || test_now() < end, "nothing is heard of ann");
        cr_assert_null(strstr(line.text, "has left"), "`%s`", line.text);
    }
}

static void write_password(char *path, const char *password)
{
    FILE *file = fdopen(mkstemp(path), "w");
    fprintf(file, "%s\n", password);
    fclose(file);
}

Test(chat_broker, with_a_password)
{
    char right[] = "/tmp/password-XXXXXX";
    char wrong[] = "/tmp/password-XXXXXX";
    char options[80];
    write_password(right, "sesame");
    write_password(wrong, "simsim");
    struct redis redis = redis_start();
    redis_expect(&redis, "CONFIG SET requirepass sesame", "+OK");
    snprintf(options, sizeof options, "--broker-password-file %s", right);
    struct server_process alpha = start(redis.port, 0, options);
    snprintf(options, sizeof options, "--broker-password-file %s", wrong);
    struct server_process beta = start(redis.port, 1, options);
    chat_join_as(&alpha, "ann");
    char nick[CHAT_NICK_SIZE];
    int bob = chat_join(&beta, nick);
    chat_await_line(bob, "* the other servers are out of reach; those on beta hear you");
    char errors[4096];
    server_errors(&beta, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, "event=broker_down reason=\"WRONGPASS"), "`%s`", errors);
    cr_assert_null(strstr(errors, "simsim"));
    server_close_all(&alpha);
    server_close_all(&beta);
    redis_kill(&redis);
    remove(right);
    remove(wrong);
}

Test(chat_broker, bad_usage)
{
    static const struct {
        const char *options;
        int status;
        const char *error;
    } cases[] = {
        {"--app chat --broker here", 2,
         "--broker: expected HOST:PORT, with an IPv6 address in brackets, or none, got 'here'"},
        {"--app chat --broker [:80", 2,
         "--broker: expected HOST:PORT, with an IPv6 address in brackets, or none, got '[:80'"},
        {"--app chat --broker-name a~b", 2,
         "--broker-name: expected 1 to 23 letters, digits, - and _, got 'a~b'"},
        {"--app chat --broker-lease 0.1", 2,
         "--broker-lease: expected seconds, from 0.5 to 3600, got '0.1'"},
        {"--app chat --port 0 --broker 127.0.0.1:1 --broker-password-file /nowhere", 1,
         "--broker-password-file: cannot open /nowhere: No such file or directory"},
        {"--app chat --port 0 --broker 127.0.0.1:1 --broker-password-file /dev/null", 1,
         "--broker-password-file: expected a password in the first line of /dev/null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct program_result result = program_run("%s", cases[i].options);
        cr_assert_eq(result.exit_status, cases[i].status, "%s: %d, `%s`", cases[i].options,
                     result.exit_status, result.err);
        cr_assert_not_null(strstr(result.err, cases[i].error), "%s: `%s`", cases[i].options,
                           result.err);
    }
}
