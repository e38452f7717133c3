/*
 * The chat with a broker that does not do what it should, played by the test: whatever it says or
 * does not say, users on the server hear each other, and it costs bounded memory.
 */
#include "chat_user.h"

#include "support/backend.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(chat_hostile_broker, .timeout = 120);

#define SUBSCRIBE  "*2\r\n$9\r\nSUBSCRIBE\r\n$4\r\nchat\r\n"
#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$4\r\nchat\r\n:1\r\n"
#define MESSAGE    "*3\r\n$7\r\nmessage\r\n$4\r\nchat\r\n"
#define OUT        "* the other servers are out of reach; those on alpha hear you"

enum { MEGABYTE = 1 << 20, GROWTH_KIB = 16 << 10 };

/** A server, two users on it, and the broker's ends of its connections. */
struct scene {
    struct backend broker;
    struct server_process server;
    int subscriber;
    int commander;
    int ann;
    int bob;
};

static struct scene open_scene(const char *options)
{
    char nick[CHAT_NICK_SIZE];
    struct scene scene = {.broker = backend_open(100), .subscriber = -1, .commander = -1};
    scene.server = server_start("--app chat --broker 127.0.0.1:%d --broker-name alpha --stats "
                                "--idle-timeout 0 %s",
                                scene.broker.port, options);
    scene.ann = chat_join(&scene.server, nick);
    scene.bob = chat_join(&scene.server, nick);
    return scene;
}

static void close_scene(struct scene *scene)
{
    client_close(scene->ann);
    client_close(scene->bob);
    if (scene->subscriber >= 0) {
        client_close(scene->subscriber);
    }
    if (scene->commander >= 0) {
        client_close(scene->commander);
    }
    backend_close(&scene->broker);
    server_stop(&scene->server);
}

/** A test that has `scene`, a pointer, which was opened with these options. */
#define SceneTest(suite, name, options)                                                            \
    TestWith(suite, name, struct scene, scene, *scene = open_scene(options), close_scene(scene))

static void expect_local_talk(const struct scene *scene)
{
    client_send_text(scene->bob, "here I am\n");
    chat_await_line(scene->ann, "[user2~alpha] here I am");
}

/** What some text is as a bulk string. */
static void send_message(int fd, const char *text)
{
    char bulk[1024];
    snprintf(bulk, sizeof bulk, MESSAGE "$%zu\r\n%s\r\n", strlen(text), text);
    client_send_text(fd, bulk);
}

/** The server subscribes, says hello, and hears its own hello. */
static void shake_hands(struct scene *scene)
{
    static const char head[] = "*3\r\n$7\r\nPUBLISH\r\n$4\r\nchat\r\n$";
    char hello[256] = "";
    size_t length = 0;
    size_t got;
    scene->subscriber = backend_accept(&scene->broker);
    client_expect_text(scene->subscriber, SUBSCRIBE);
    client_send_text(scene->subscriber, SUBSCRIBED);
    scene->commander = backend_accept(&scene->broker);
    client_expect_text(scene->commander, head);
    double end = test_deadline();
    for (int lines = 0; lines < 2;) {
        cr_assert_lt(length, sizeof hello - 1);
        cr_assert_eq(client_try_receive(scene->commander, hello + length, 1, end, &got),
                     CLIENT_GOT);
        lines += hello[length++] == '\n';
    }
    char *text = strchr(hello, '\n') + 1;
    text[strcspn(text, "\r")] = '\0';
    cr_assert_not_null(strstr(text, " ? *"), "`%s`", text);
    send_message(scene->subscriber, text);
    client_send_text(scene->commander, ":1\r\n");
    client_await_reply(scene->commander); /* it goes on */
}

/** What is no RESP2 costs the broker its connection, and users are told once. */
Test(chat_hostile_broker, what_is_not_resp2)
{
    static const char *const nonsense[] = {"HTTP/1.1 400 Bad Request\r\n\r\n",
                                           "*3\r\n*3\r\n",
                                           "*1000000000\r\n",
                                           "+OK\r\n",
                                           "-ERR no\r\n",
                                           "$-7\r\n",
                                           ":1\r\n",
                                           "*3\r\n$3\r\nwhy\r\n",
                                           MESSAGE ":1\r\n"};
    struct scene scene = open_scene("--broker-lease 60");
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        if (i > 0 && i % 3 == 0) { /* pauses would grow too long */
            close_scene(&scene);
            scene = open_scene("--broker-lease 60");
        }
        int fd = backend_accept(&scene.broker);
        client_expect_text(fd, SUBSCRIBE);
        client_send_text(fd, nonsense[i]);
        client_expect_gone(fd);
        client_close(fd);
        if (i % 3 == 0) {
            chat_await_line(scene.ann, OUT);
        }
        client_send_text(scene.bob, "here I am\n");
        chat_expect_line(scene.ann, "[user2~alpha] here I am");
    }
    close_scene(&scene);
}

/** The same where answers are expected. */
SceneTest(chat_hostile_broker, an_answer_that_nobody_has_asked_for, "--broker-lease 60")
{
    shake_hands(scene);
    for (int i = 0; i < 100; i++) {
        client_send_text(scene->commander, ":1\r\n");
    }
    chat_await_line(scene->ann, OUT);
    expect_local_talk(scene);
}

/** Each pause may be twice as long as the one before, and half of it at least. */
SceneTest(chat_hostile_broker, attempts_come_less_and_less_often, "--broker-lease 60")
{
    enum { ATTEMPTS = 5 };
    double before = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        int fd = backend_accept(&scene->broker);
        double now = test_now();
        if (i > 0) {
            cr_assert_geq(now - before, 0.049 * (1 << (i - 1)), "attempt %d after %.3f s", i,
                          now - before);
        }
        before = test_now();
        client_reset(fd);
    }
    chat_await_line(scene->ann, OUT);
}

/** Sends so many bytes, or as many as it takes. */
static void pour(int fd, size_t bytes)
{
    static char text[MEGABYTE];
    memset(text, 'x', sizeof text);
    client_push(fd, text, sizeof text, bytes, 200);
}

SceneTest(chat_hostile_broker, lengths_without_an_end, "--broker-lease 60")
{
    shake_hands(scene);
    long before = probe_resident_kib(scene->server.pid);
    client_send_text(scene->subscriber, MESSAGE "$900000000000\r\n");
    pour(scene->subscriber, 32 * MEGABYTE);
    expect_local_talk(scene);
    if (!probe_sanitized() && !probe_thread_sanitized()) {
        cr_assert_lt(probe_resident_kib(scene->server.pid), before + GROWTH_KIB);
    }
    client_send_text(scene->commander, "+");
    pour(scene->commander, MEGABYTE);
    chat_await_line(scene->ann, OUT);
    expect_local_talk(scene);
}

/** Names are names, and what a terminal might take for an order is not passed on. */
SceneTest(chat_hostile_broker, what_it_says_is_not_trusted, "--broker-lease 60")
{
    static const char *const nothing[] = {
        "",
        "chat1",
        "chat2 beta 1 10000 1 1 L eve no",
        "chat1 be\033ta 1 10000 1 1 L eve no",
        "chat1 beta xyz 10000 1 1 L eve no",
        "chat1 beta 2 0 1 1 L eve no",
        "chat1 beta 3 10000 99999999999999999999 1 L eve no",
        "chat1 beta 4 10000 1 1 L e\033ve no",
        "chat1 beta 4 10000 2 1 L a~b~c no",
        "chat1 beta 4 10000 3 1 L eve",
        "chat1 beta 4 10000 3 2 + [eve]",
        "chat1 beta 4 10000 3 3 - nobody\n",
        "chat1 beta 4 10000 3 4 = eve e\rve",
        "chat1 beta 4 10000 3 4 A eve ~ ~~ e\ave",
        "chat1 beta 4 10000 3 4 Z",
    };
    shake_hands(scene);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        send_message(scene->subscriber, nothing[i]);
    }
    send_message(scene->subscriber, "chat1 beta 9 10000 1 0 L eve a\033[2Jb\nc\177");
    send_message(scene->subscriber, "chat1 beta 9 10000 1 0 L eve once more");
    send_message(scene->subscriber, "chat1 beta 9 10000 2 0 L eve the end");
    chat_await_line(scene->ann, "* user2~alpha is here");
    chat_expect_line(scene->ann, "[eve] a?[2Jb?c?");
    chat_expect_line(scene->ann, "[eve] the end");
    expect_local_talk(scene);
}

/** Users here read of new names elsewhere as far as the budget of news goes. */
Test(chat_hostile_broker, new_names_of_others_are_within_the_budget)
{
    enum { SAVED = 16384, RATE = 4096, USERS = 20, NAMES = 4000 }; /* common/apps/chat/news.h */
    static struct chat_line line;
    char nick[CHAT_NICK_SIZE];
    char text[100];
    int users[USERS];
    double start = test_now();
    struct scene scene = open_scene("--broker-lease 60");
    shake_hands(&scene);
    for (int i = 0; i < USERS; i++) {
        users[i] = chat_join(&scene.server, nick);
    }
    for (int i = 1; i <= NAMES; i++) {
        snprintf(text, sizeof text, "chat1 beta 9 60000 0 %d = n%d n%d", i, i - 1, i);
        send_message(scene.subscriber, text);
    }
    double end = test_deadline();
    int told = 0;
    int lines = 0;
    while (told < NAMES) {
        int count = 1;
        cr_assert_eq(chat_try_line(scene.ann, &line, end), CLIENT_GOT, "read of %d names", told);
        if (strncmp(line.text, "* n", 3) != 0 &&
            sscanf(line.text, "* %d people took another name", &count) != 1) {
            continue;
        }
        told += count;
        lines++;
    }
    cr_assert_eq(told, NAMES);
    double allowed = (SAVED + RATE * (test_now() - start)) / USERS + 1;
    cr_assert_leq(lines, allowed, "%d lines, and %.0f are allowed", lines, allowed);
    clients_close(users, USERS);
    close_scene(&scene);
}

/** What waits has a limit; what is beyond is lost, and so is what was never confirmed. */
SceneTest(chat_hostile_broker, one_that_confirms_nothing,
          "--broker-lease 60 --output-cap 67108864 --talk-rate 0")
{
    enum { LINES = 3000, LENGTH = 1000 };
    shake_hands(scene);
    long before = probe_resident_kib(scene->server.pid);
    size_t length;
    char *line = line_of(LENGTH, "\n", &length);
    for (int i = 0; i < LINES; i++) {
        client_send(scene->bob, line, length);
    }
    free(line);
    client_send_text(scene->bob, "the last one\n");
    chat_await_line(scene->ann, "[user2~alpha] the last one");
    server_await_counter(&scene->server, "lines_lost", LINES / 2);
    if (!probe_sanitized() && !probe_thread_sanitized()) {
        cr_assert_lt(probe_resident_kib(scene->server.pid), before + GROWTH_KIB);
    }
    client_reset(scene->commander);
    scene->commander = -1;
    chat_await_line(scene->ann, OUT);
    cr_assert_eq(server_counter(&scene->server, "lines_lost"), LINES + 1);
    cr_assert_eq(server_counter(&scene->server, "lines_published"), 0);
}

/* ---- Other servers ---- */

/** The next line is that one, and no notice comes before it. */
static void expect_next(int fd, const char *text)
{
    static struct chat_line line;
    double end = test_deadline();
    cr_assert_eq(chat_try_line(fd, &line, end), CLIENT_GOT, "`%s` did not come", text);
    cr_assert_str_eq(line.text, text);
}

#define BETA "chat1 beta 9 60000 "

/** Who was there before we were is no news; who comes later is, once, and not when it is repeated.
 */
SceneTest(chat_hostile_broker, only_who_comes_while_we_listen_is_announced, "--broker-lease 60")
{
    shake_hands(scene);
    chat_await_line(scene->ann, "* user2~alpha is here");
    send_message(scene->subscriber, BETA "0 2 A carl dora");
    send_message(scene->subscriber, BETA "0 3 + eve");
    expect_next(scene->ann, "* eve is here");
    send_message(scene->subscriber, BETA "0 3 A carl dora eve");
    send_message(scene->subscriber, BETA "0 4 - dora");
    expect_next(scene->ann, "* dora has left");
}

/** By a connection that the server had given up: its numbers say that it is old. */
SceneTest(chat_hostile_broker, a_change_that_comes_late_is_none, "--broker-lease 60")
{
    shake_hands(scene);
    chat_await_line(scene->ann, "* user2~alpha is here");
    send_message(scene->subscriber, BETA "0 2 A carl");
    send_message(scene->subscriber, BETA "0 3 + dora");
    send_message(scene->subscriber, BETA "0 4 - dora");
    send_message(scene->subscriber, BETA "0 3 + dora");
    send_message(scene->subscriber, BETA "0 2 + eve");
    send_message(scene->subscriber, BETA "1 4 L carl goodbye");
    expect_next(scene->ann, "* dora is here");
    expect_next(scene->ann, "* dora has left");
    expect_next(scene->ann, "[carl] goodbye");
    client_send_text(scene->ann, "/who\n");
    chat_await_line(scene->ann, "* 3 here");
}

/** A server that was not heard for a while has lost its users; when it is back, they are back. */
SceneTest(chat_hostile_broker, who_is_back_with_his_server_is_announced, "--broker-lease 60")
{
    static const char brief[] = "chat1 beta 9 200 ";
    char text[100];
    shake_hands(scene);
    chat_await_line(scene->ann, "* user2~alpha is here");
    snprintf(text, sizeof text, "%s0 1 A carl", brief);
    send_message(scene->subscriber, text);
    expect_next(scene->ann, "* carl has left");
    send_message(scene->subscriber, BETA "0 1 H ");
    send_message(scene->subscriber, BETA "0 1 A carl");
    expect_next(scene->ann, "* carl is here");
    send_message(scene->subscriber, BETA "1 1 L carl I was here all the time");
    expect_next(scene->ann, "[carl] I was here all the time");
}

/** Whoever can publish can say so in any server's name. */
SceneTest(chat_hostile_broker, an_absurd_number_of_lines_mutes_nobody, "--broker-lease 60")
{
    shake_hands(scene);
    chat_await_line(scene->ann, "* user2~alpha is here");
    send_message(scene->subscriber, BETA "1 0 L eve one");
    send_message(scene->subscriber, "chat1 beta 9 3600000 999999999999999999 0 L eve forged");
    send_message(scene->subscriber, "chat1 beta 9 3600000 1 999999999999999999 H ");
    send_message(scene->subscriber, BETA "2 0 L eve two");
    expect_next(scene->ann, "[eve] one");
    expect_next(scene->ann, "[eve] two");
}

/** Two machines that were cloned, say. One of them that only says its last words is no matter. */
SceneTest(chat_hostile_broker, a_server_of_the_same_name_is_reported_once,
          "--broker-lease 60 --log warn")
{
    static const char told[] =
        "* another server is called alpha, too: a name with ~alpha behind it may be two users'";
    char errors[4096];
    shake_hands(scene);
    chat_await_line(scene->ann, "* user2~alpha is here");
    send_message(scene->subscriber, "chat1 alpha 7 60000 0 1 A x~alpha");
    send_message(scene->subscriber, "chat1 alpha 7 60000 0 2 - x~alpha");
    expect_next(scene->ann, "* x~alpha has left");
    send_message(scene->subscriber, "chat1 alpha 9 60000 0 0 H ");
    send_message(scene->subscriber, "chat1 alpha 9 60000 0 0 H ");
    send_message(scene->subscriber, "chat1 alpha 9 60000 1 0 L eve hello");
    expect_next(scene->ann, told);
    expect_next(scene->ann, "[eve] hello");
    server_errors(&scene->server, errors, sizeof errors);
    cr_assert_not_null(strstr(errors, "give each its own --broker-name"), "`%s`", errors);
}

/* ---- Options that are meant for clients ---- */

/** The link to the broker is there, and carries lines in both directions. */
static void expect_link(const struct scene *scene, int user, int number)
{
    char text[100];
    snprintf(text, sizeof text, "chat1 beta 9 60000 %d 0 L eve line %d", number, number);
    send_message(scene->subscriber, text);
    snprintf(text, sizeof text, "[eve] line %d", number);
    chat_await_line(user, text);
    cr_assert_eq(server_counter(&scene->server, "connects"), 2, "it was cut in between");
}

/** Reads until the server has closed the connection. */
static void await_end(int fd)
{
    static struct chat_line line;
    double end = test_deadline();
    while (chat_try_line(fd, &line, end) == CLIENT_GOT) {
    }
    cr_assert_lt(test_now(), end, "it was not disconnected");
}

/** A user who says nothing, until he is disconnected. */
static void stay_until_the_end(const struct scene *scene)
{
    char nick[CHAT_NICK_SIZE];
    int user = chat_join(&scene->server, nick);
    await_end(user);
    client_close(user);
}

/** Whether somebody who comes now reads a line from elsewhere, and not his own end. */
static bool is_heard_by_somebody_new(const struct scene *scene, int number)
{
    static struct chat_line line;
    char nick[CHAT_NICK_SIZE];
    char text[100];
    int user = chat_join(&scene->server, nick);
    double end = test_deadline();
    snprintf(text, sizeof text, "chat1 beta 9 60000 %d 0 L eve line %d", number, number);
    send_message(scene->subscriber, text);
    snprintf(text, sizeof text, "[eve] line %d", number);
    enum client_outcome outcome;
    do {
        outcome = chat_try_line(user, &line, end);
        cr_assert_neq(outcome, CLIENT_LATE, "`%s` did not come", text);
    } while (outcome == CLIENT_GOT && strcmp(line.text, text) != 0);
    client_close(user);
    return outcome == CLIENT_GOT;
}

/**
 * Clients are disconnected when they are silent, or have been there for long. Redis is no client:
 * it would be "out of reach" each time.
 */
Test(chat_hostile_broker, deadlines_of_clients_do_not_end_the_link)
{
    static const char *const options[] = {"--idle-timeout 0.5", "--lifetime 0.5"};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char all[80];
        snprintf(all, sizeof all, "--broker-lease 600 %s", options[i]);
        struct scene scene = open_scene(all);
        shake_hands(&scene);
        stay_until_the_end(&scene);
        stay_until_the_end(&scene);
        int number = 1;
        while (!is_heard_by_somebody_new(&scene, number)) {
            number++; /* he was disconnected, too, on a machine that is slow just now */
        }
        cr_assert_eq(server_counter(&scene.server, "connects"), 2, "the link was cut in between");
        close_scene(&scene);
    }
}

/** What clients say may be dropped, as the policy wants it. Redis' answers and messages may not. */
Test(chat_hostile_broker, policies_that_drop_lines_drop_nothing_of_the_link)
{
    static const char *const policies[] = {"discard", "discard-oldest", "abort"};
    enum { LINES = 10 };
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char all[200];
        snprintf(all, sizeof all,
                 "--broker-lease 600 --block-ms 50 --workers 1 --max-workers 1 --queue bounded:1 "
                 "--saturation %s",
                 policies[i]);
        struct scene scene = open_scene(all);
        shake_hands(&scene);
        for (int line = 1; line <= LINES; line++) {
            client_send_text(scene.bob, "a line that occupies the worker\n");
            client_send_text(scene.ann, "one that waits\n");
            expect_link(&scene, scene.ann, line);
        }
        close_scene(&scene);
    }
}

/** The network that redis is in may be one whose clients are throttled. */
Test(chat_hostile_broker, the_link_is_not_throttled)
{
    if (!server_has_option("--throttle")) {
        cr_skip_test("this stage throttles nobody");
    }
    struct scene scene = {.broker = backend_open(100)};
    scene.server = server_start("--app chat --broker 127.0.0.1:%d --broker-name alpha --stats "
                                "--broker-lease 600 --suspicious 127.0.0.1 --throttle 1",
                                scene.broker.port);
    scene.ann = client_connect_with(&scene.server, (struct client_buffers){.source = 2});
    chat_await_line(scene.ann, "* welcome, you are user1~alpha; /help tells more");
    scene.bob = client_connect_with(&scene.server, (struct client_buffers){.source = 3});
    shake_hands(&scene);
    expect_link(&scene, scene.ann, 1);
    close_scene(&scene);
}

/** It takes the connection, and that is all. */
SceneTest(chat_hostile_broker, one_that_never_answers, "--broker-lease 60")
{
    client_send_text(scene->ann, "/nick ann\n");
    chat_await_line(scene->ann, OUT);
    chat_expect_line(scene->ann, "* you are ann~alpha");
    expect_local_talk(scene);
}

/** The same once it has answered: who asks for a name waits for a moment, and nobody else does. */
SceneTest(chat_hostile_broker, one_that_does_not_grant_names, "--broker-lease 60")
{
    shake_hands(scene);
    client_send_text(scene->ann, "/nick ann\nhello\n");
    expect_local_talk(scene);
    chat_await_line(scene->ann, "* you are ann~alpha");
    chat_await_line(scene->bob, "[ann~alpha] hello");
}
