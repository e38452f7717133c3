/*
 * The store as its clients see it. What each command answers is compared with redis' answers
 * (differential.py), and what a client may do to others is graded (grader.py); here is what these
 * two do not look at.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"
#include "support/server_process.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(store, .timeout = 120);

struct scene {
    struct server_process store;
    int ann;
    int bob;
};

static struct scene open_scene(const char *options)
{
    struct scene scene = {.store = server_start("--app store --stats %s", options)};
    scene.ann = client_connect(&scene.store);
    scene.bob = client_connect(&scene.store);
    return scene;
}

static void close_scene(struct scene *scene)
{
    client_close(scene->ann);
    client_close(scene->bob);
    server_await_counter(&scene->store, "closed", 2);
    server_stop(&scene->store);
}

/** A test that has `scene`, a pointer, which was opened with these options. */
#define SceneTest(suite, name, options)                                                            \
    TestWith(suite, name, struct scene, scene, *scene = open_scene(options), close_scene(scene))

/** Sends a line and expects that answer. */
static void ask(int client, const char *line, const char *answer)
{
    client_ask(client, line, answer);
}

SceneTest(store, all_clients_see_the_same_store, "")
{
    ask(scene->ann, "SET name Ann\r\n", "+OK\r\n");
    ask(scene->bob, "GET name\r\n", "$3\r\nAnn\r\n");
    ask(scene->bob, "DEL name\r\n", ":1\r\n");
    ask(scene->ann, "GET name\r\n", "$-1\r\n");
}

/* More than a batch has, and the end of the stream right behind them. */
SceneTest(store, what_came_before_a_half_close_is_answered, "")
{
    for (int i = 0; i < 1000; i++)
        client_send_text(scene->ann, "INCR n\r\n");
    client_half_close(scene->ann);
    for (int i = 1; i <= 1000; i++) {
        char answer[16];
        snprintf(answer, sizeof answer, ":%d\r\n", i);
        client_expect_text(scene->ann, answer);
    }
    client_expect_end(scene->ann);
}

SceneTest(store, requests_behind_a_quit_are_not_carried_out, "")
{
    client_ask(scene->ann, "SET a 1\r\nQUIT\r\nSET a 2\r\n", "+OK\r\n+OK\r\n");
    client_expect_end(scene->ann);
    ask(scene->bob, "GET a\r\n", "$1\r\n1\r\n");
}

SceneTest(store, what_is_no_request_costs_only_its_sender, "")
{
    client_send_text(scene->ann, "SET a 1\r\n*1\r\nSET\r\nSET a 2\r\n");
    client_expect_text(scene->ann, "+OK\r\n-ERR Protocol error: expected '$', got 'S'\r\n");
    client_expect_end(scene->ann);
    ask(scene->bob, "GET a\r\n", "$1\r\n1\r\n");
}

static const char *info_for(int client)
{
    static char info[2048];
    size_t got;
    client_send_text(client, "INFO\r\n");
    client_await_reply(client);
    client_try_receive(client, info, sizeof info - 1, test_now() + 0.5, &got);
    info[got] = '\0';
    return info;
}

static void expect_info(int client, const char *line)
{
    const char *info = info_for(client);
    cr_assert_not_null(strstr(info, line), "expected %s in %s", line, info);
}

/** Expects that nothing is kept for anybody. */
static void expect_empty(int client)
{
    expect_info(client, "blocked_clients:0\r\n");
    expect_info(client, "used_memory:0\r\n");
}

/* A browser can be made to send it, and its body is for whoever listens here. */
SceneTest(store, what_comes_in_a_request_of_http_is_not_carried_out, "")
{
    client_ask(scene->ann, "SET a 1\r\nPOST / HTTP/1.1\r\nSET a 2\r\n", "+OK\r\n");
    client_expect_end(scene->ann);
    int eve = client_connect_send(&scene->store, "GET / HTTP/1.1\r\nHost: here\r\n\r\nSET a 3\r\n");
    client_expect_text(eve, "-ERR wrong number of arguments for 'get' command\r\n");
    client_expect_end(eve);
    client_close(eve);
    server_await_counter(&scene->store, "closed", 1);
    ask(scene->bob, "GET a\r\n", "$1\r\n1\r\n");
}

/** Sends a command with that many words behind it: c0, c1, ... */
static void send_many(int client, const char *command, int count)
{
    char text[64];
    snprintf(text, sizeof text, "*%d\r\n$%zu\r\n%s\r\n", count + 1, strlen(command), command);
    client_send_text(client, text);
    for (int i = 0; i < count; i++) {
        int length = snprintf(NULL, 0, "c%d", i);
        snprintf(text, sizeof text, "$%d\r\nc%d\r\n", length, i);
        client_send_text(client, text);
    }
}

/* Each channel is compared with those before: with 60,000 that would be minutes, for all clients.
 */
SceneTest(store, one_who_subscribes_to_many_channels_holds_up_nobody, "")
{
    enum { CHANNELS = 60000 };
    static const char *const commands[] = {"SUBSCRIBE", "UNSUBSCRIBE"};
    static const char *const words[] = {"$9\r\nsubscribe", "$11\r\nunsubscribe"};
    for (int which = 0; which < 2; which++) {
        send_many(scene->ann, commands[which], CHANNELS);
        for (int i = 0; i < CHANNELS; i++) {
            char answer[96];
            snprintf(answer, sizeof answer, "*3\r\n%s\r\n$%d\r\nc%d\r\n:%d\r\n", words[which],
                     snprintf(NULL, 0, "c%d", i), i, which == 0 ? i + 1 : CHANNELS - 1 - i);
            client_expect_text(scene->ann, answer);
        }
    }
    expect_empty(scene->bob);
}

/** Sends SET with a value of so many bytes. */
static void send_set(int client, const char *key, size_t length)
{
    char *value = malloc(length + 2);
    char head[64];
    cr_assert_not_null(value);
    memset(value, 'v', length);
    memcpy(value + length, "\r\n", 2);
    snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$1\r\n%s\r\n$%zu\r\n", key, length);
    client_send_text(client, head);
    client_send(client, value, length + 2);
    free(value);
}

static const char full[] = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";

/* Memory that is given back counts again, so nothing is counted twice, or forgotten. */
SceneTest(store, a_full_store_refuses_what_grows_and_nothing_else, "--store-memory 1000000")
{
    for (int round = 0; round < 3; round++) {
        send_set(scene->ann, "a", 400000);
        client_expect_text(scene->ann, "+OK\r\n");
        ask(scene->ann, "RPUSH list one two\r\n", ":2\r\n");
        send_set(scene->ann, "b", 400000);
        client_expect_text(scene->ann, "+OK\r\n");
        send_set(scene->bob, "c", 400000);
        client_expect_text(scene->bob, full);
        ask(scene->bob, "EXISTS a b c\r\n", ":2\r\n");
        ask(scene->bob, "EXPIRE a 1000\r\n", ":1\r\n");
        ask(scene->bob, "LPOP list\r\n", "$3\r\none\r\n");
        ask(scene->bob, "DEL a b list\r\n", ":3\r\n");
    }
    ask(scene->bob, "CONFIG GET maxmemory\r\n", "*2\r\n$9\r\nmaxmemory\r\n$7\r\n1000000\r\n");
    expect_empty(scene->bob);
}

/* Its answers are 64 MB, more than the kernel keeps for it, and more than --output-cap. */
SceneTest(store, a_client_that_does_not_read_is_not_worked_for, "")
{
    enum { SIZE = 1 << 20, GETS = 64 };
    send_set(scene->ann, "a", SIZE);
    client_expect_text(scene->ann, "+OK\r\n");
    for (int i = 0; i < GETS; i++)
        client_send_text(scene->ann, "GET a\r\n");
    client_send_text(scene->ann, "SET done 1\r\n");
    client_await_reply(scene->ann);
    ask(scene->bob, "GET done\r\n", "$-1\r\n");
    char *value = malloc(SIZE);
    cr_assert_not_null(value);
    memset(value, 'v', SIZE);
    for (int i = 0; i < GETS; i++) {
        client_expect_text(scene->ann, "$1048576\r\n");
        client_expect(scene->ann, value, SIZE);
        client_expect_text(scene->ann, "\r\n");
    }
    client_expect_text(scene->ann, "+OK\r\n");
    ask(scene->bob, "GET done\r\n", "$1\r\n1\r\n");
    free(value);
}

/* They are in the strand's hands then, or on their way to it. */
ServerTest(store, clients_come_and_go_in_the_middle, "--app store --stats")
{
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++) {
        int client = client_connect(server);
        client_send_text(client, "SET a 1\r\nGET a\r\nRPUSH list x\r\nGET a\r\nSET a");
        if (i % 2 == 0)
            client_reset(client);
        client_close(client);
    }
    server_await_counter(server, "closed", ROUNDS);
    int ann = client_connect(server);
    ask(ann, "PING\r\n", "+PONG\r\n");
}

/* Also of two lists that one request has filled, and of an element that nobody else gets. */
SceneTest(store, who_waits_for_several_lists_gets_one_element, "")
{
    client_send_text(scene->ann, "BLPOP a b 0\r\nPING\r\n");
    WAIT_FOR(strstr(info_for(scene->bob), "blocked_clients:1\r\n") != NULL);
    client_expect_silence(scene->ann, 100);
    expect_info(scene->bob, "blocked_clients:1\r\n");
    ask(scene->bob, "MULTI\r\n", "+OK\r\n");
    ask(scene->bob, "RPUSH b one two\r\n", "+QUEUED\r\n");
    ask(scene->bob, "LPUSH a three\r\n", "+QUEUED\r\n");
    ask(scene->bob, "EXEC\r\n", "*2\r\n:2\r\n:1\r\n");
    client_expect_text(scene->ann, "*2\r\n$1\r\nb\r\n$3\r\none\r\n+PONG\r\n");
    ask(scene->bob, "LLEN b\r\n", ":1\r\n");
    ask(scene->bob, "LLEN a\r\n", ":1\r\n");
    ask(scene->ann, "BRPOP a b 0\r\n", "*2\r\n$1\r\na\r\n$5\r\nthree\r\n");
    ask(scene->ann, "DEL b\r\n", ":1\r\n");
    expect_empty(scene->bob);
}

/* The request behind it is carried out when its time is over, and what it has sent is answered. */
SceneTest(store, a_time_that_is_over_ends_the_wait, "")
{
    client_send_text(scene->ann, "BLPOP a 0.05\r\nRPUSH a x\r\nBLPOP a 0\r\nBLPOP a b 0.01\r\n");
    client_expect_text(scene->ann, "*-1\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\nx\r\n*-1\r\n");
    expect_empty(scene->bob);
}

/* As with redis: it has to stay until it has its element. */
SceneTest(store, one_who_ends_its_half_waits_no_more, "")
{
    client_send_text(scene->ann, "BLPOP a 0\r\nSET behind 1\r\n");
    client_half_close(scene->ann);
    client_expect_end(scene->ann);
    ask(scene->bob, "RPUSH a x\r\n", ":1\r\n");
    ask(scene->bob, "EXISTS behind\r\n", ":0\r\n");
    ask(scene->bob, "DEL a\r\n", ":1\r\n");
    expect_empty(scene->bob);
}

SceneTest(store, a_transaction_that_is_left_costs_nothing, "")
{
    ask(scene->ann, "MULTI\r\n", "+OK\r\n");
    ask(scene->ann, "SET a 1\r\n", "+QUEUED\r\n");
    ask(scene->ann, "SUBSCRIBE news\r\n", "+QUEUED\r\n");
    ask(scene->ann, "EXEC\r\n", "*2\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    ask(scene->bob, "PUBLISH news hello\r\n", ":1\r\n");
    client_expect_text(scene->ann, "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n");
    ask(scene->ann, "RESET\r\n", "+RESET\r\n");
    ask(scene->bob, "PUBLISH news hello\r\n", ":0\r\n");
    ask(scene->ann, "MULTI\r\n", "+OK\r\n");
    ask(scene->ann, "SET a 2\r\n", "+QUEUED\r\n");
    client_half_close(scene->ann);
    client_expect_end(scene->ann);
    server_await_counter(&scene->store, "closed", 1);
    ask(scene->bob, "GETDEL a\r\n", "$1\r\n1\r\n");
    expect_empty(scene->bob);
}

/* redis names a command of two words in full, in whatever error. */
SceneTest(store, errors_name_both_words_of_a_command, "")
{
    ask(scene->ann, "CLIENT SETNAME\r\n",
        "-ERR wrong number of arguments for 'client|setname' command\r\n");
    ask(scene->ann, "SUBSCRIBE news\r\n", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    ask(scene->ann, "client GETNAME\r\n",
        "-ERR Can't execute 'client|getname': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT "
        "/ RESET are allowed in this context\r\n");
    ask(scene->ann, "GET a\r\n",
        "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "
        "are allowed in this context\r\n");
}

/* They are served, time out, leave and are found at the same moments. */
ServerTest(store, those_who_wait_come_and_go, "--app store --stats")
{
    enum { WAITERS = 40, ROUNDS = 30 };
    int pusher = client_connect(server);
    for (int round = 0; round < ROUNDS; round++) {
        int waiters[WAITERS];
        for (int i = 0; i < WAITERS; i++) {
            waiters[i] = client_connect(server);
            client_send_text(waiters[i], i % 4 == 3 ? "BRPOP a b 0.002\r\n" : "BLPOP b a 0\r\n");
        }
        for (int i = 0; i < WAITERS; i++) {
            client_send_text(pusher,
                             i % 2 == 0 ? "RPUSH a x\r\n" : "MULTI\r\nLPUSH b y z\r\nEXEC\r\n");
            if (i % 3 == 0)
                client_reset(waiters[i]);
            client_close(waiters[i]);
        }
    }
    server_await_counter(server, "closed", ROUNDS * WAITERS);
}

Test(store, memory_is_a_number_within_its_limits)
{
    struct program_result result = program_run("--app store --port 0 --store-memory 65535");
    cr_assert_eq(result.exit_status, 2);
    cr_assert_not_null(strstr(result.err, "--store-memory: expected"), "%s", result.err);
}
