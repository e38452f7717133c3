/*
 * A relay with a client on one side and a server, played by the test, on the other.
 */
#include "support/backend.h"

#include "support/deadline.h"
#include "support/logged.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(relay, .timeout = 120);

/** A relay, a client, and the connection that the relay has made for it. */
struct scene {
    struct backend backend;
    struct server_process relay;
    int client;
    int server;
};

static struct scene open_scene(const char *options)
{
    struct scene scene = {.backend = backend_open(100)};
    scene.relay =
        server_start("--app relay --to 127.0.0.1:%d --stats %s", scene.backend.port, options);
    scene.client = client_connect(&scene.relay);
    scene.server = backend_accept(&scene.backend);
    return scene;
}

/** Of a scene whose client and server have gone: asserts that the relay holds no connection any
 * more, and stops it. */
static void end_scene(struct scene *scene)
{
    server_await_counter(&scene->relay, "closed", 2);
    server_stop(&scene->relay);
    backend_close(&scene->backend);
}

static void close_scene(struct scene *scene)
{
    client_close(scene->client);
    client_close(scene->server);
    end_scene(scene);
}

/** A test that has `scene`, a pointer, which was opened with these options. */
#define SceneTest(suite, name, options)                                                            \
    TestWith(suite, name, struct scene, scene, *scene = open_scene(options), close_scene(scene))

SceneTest(relay, bytes_pass_both_ways, "")
{
    client_pass(scene->client, scene->server, "hello, without a line's end");
    client_send(scene->server, "\0\1\2", 3);
    client_expect(scene->client, "\0\1\2", 3);
}

/** What the server says first, before the client has said anything. */
SceneTest(relay, a_greeting_comes_at_once, "")
{
    client_pass(scene->server, scene->client, "220 welcome\n");
}

SceneTest(relay, a_half_close_of_the_client_is_passed_on, "")
{
    client_send_text(scene->client, "the last question\n");
    client_half_close(scene->client);
    client_expect_text(scene->server, "the last question\n");
    client_expect_end(scene->server);
    client_pass(scene->server, scene->client, "an answer\n");
    client_expect_silence(scene->client, 100);
    client_pass(scene->server, scene->client, "and another\n");
    client_half_close(scene->server);
    client_expect_end(scene->client);
}

SceneTest(relay, a_half_close_of_the_server_is_passed_on, "")
{
    client_send_text(scene->server, "goodbye\n");
    client_half_close(scene->server);
    client_expect_text(scene->client, "goodbye\n");
    client_expect_end(scene->client);
    client_pass(scene->client, scene->server, "more\n");
    client_half_close(scene->client);
    client_expect_end(scene->server);
}

/** Expects that these bytes come, and then a reset: what has come is not all. */
static void expect_cut(int fd, const char *bytes)
{
    char byte;
    size_t length;
    double end = test_deadline();
    client_expect_text(fd, bytes);
    enum client_outcome outcome = client_try_receive(fd, &byte, 1, end, &length);
    cr_assert_eq(outcome, CLIENT_RESET, "expected a reset, not: %s", client_outcome_text(outcome));
}

SceneTest(relay, a_client_that_resets_resets_its_server, "")
{
    client_send_text(scene->client, "in the middle of");
    client_expect_text(scene->server, "in the middle");
    client_await_delivered(scene->client);
    client_reset(scene->client);
    expect_cut(scene->server, " of");
    client_close(scene->server);
    scene->client = client_connect(&scene->relay);
    scene->server = backend_accept(&scene->backend);
    server_await_counter(&scene->relay, "closed", 2);
    client_pass(scene->client, scene->server, "nothing is left of that\n");
}

SceneTest(relay, a_server_that_resets_resets_its_client, "")
{
    int witness = client_connect(&scene->relay);
    int other = backend_accept(&scene->backend);
    client_pass(scene->client, scene->server, "in the middle of");
    client_send_text(scene->server, "half an ans");
    client_expect_text(scene->client, "half");
    client_reset(scene->server);
    expect_cut(scene->client, " an ans");
    client_close(scene->client);
    client_pass(witness, other, "nothing happened here\n");
    scene->client = witness;
    scene->server = other;
}

/** It has ended its upload, and gives up while it reads the answer. */
Test(relay, a_client_that_half_closes_and_then_resets_resets_its_server)
{
    struct scene scene = open_scene("");
    client_send_text(scene.client, "the last question\n");
    client_half_close(scene.client);
    client_expect_text(scene.server, "the last question\n");
    client_expect_end(scene.server);
    client_pass(scene.server, scene.client, "an answer");
    client_reset(scene.client);
    server_await_counter(&scene.relay, "closed", 2);
    struct pollfd error = {.fd = scene.server};
    cr_assert_eq(poll(&error, 1, test_deadline_ms()), 1, "the server goes on for nobody");
    cr_assert(error.revents & POLLERR);
    client_close(scene.server);
    server_stop(&scene.relay);
    backend_close(&scene.backend);
}

/* ---- What was read before a reset ----------------------------------------------------------- */

enum {
    ANSWER = 100000, /* fits in the relay's system, but not in one read */
    MUCH = 64 << 20, /* more than all systems and the relay hold */
    PATTERN = 65536, /* what is sent, over and over */
};

static char pattern[PATTERN];

static void make_pattern(void)
{
    for (size_t i = 0; i < PATTERN; i++) {
        pattern[i] = (char)(i * 31 >> 5);
    }
}

/** Reads what comes, until the connection is reset; how much that was. */
static size_t read_until_reset(int fd)
{
    static char got[PATTERN];
    double end = test_deadline();
    for (size_t at = 0;;) {
        size_t length;
        enum client_outcome outcome =
            client_try_receive(fd, got, PATTERN - at % PATTERN, end, &length);
        cr_assert_eq(memcmp(got, pattern + at % PATTERN, length), 0, "other bytes at %zu", at);
        at += length;
        if (outcome == CLIENT_GOT) {
            continue;
        }
        cr_assert_eq(outcome, CLIENT_RESET, "after %zu bytes: %s", at,
                     client_outcome_text(outcome));
        return at;
    }
}

/**
 * The server reads a part of an upload, answers, and closes: since the rest is unread, its system
 * resets the connection. The relay finds answer and reset together, and cannot send any more.
 */
static void answers_and_resets(const char *options)
{
    struct scene scene = open_scene(options);
    make_pattern();
    client_push(scene.client, pattern, PATTERN, MUCH, 300);
    server_signal(&scene.relay, SIGSTOP);
    client_send(scene.server, pattern, PATTERN);
    client_send(scene.server, pattern, ANSWER - PATTERN);
    client_await_delivered(scene.server);
    client_reset(scene.server);
    server_signal(&scene.relay, SIGCONT);
    size_t got = read_until_reset(scene.client);
    cr_assert_eq(got, ANSWER, "%zu of %d bytes of the answer came", got, ANSWER);
    client_close(scene.client);
    end_scene(&scene);
}

Test(relay, an_answer_before_a_reset_arrives)
{
    answers_and_resets("--idle-timeout 0");
}

Test(relay, an_answer_before_a_reset_arrives_with_workers)
{
    answers_and_resets("--idle-timeout 0 --workers 3");
}

/** The client reads slowly: what the relay has read for it by the time of the reset is its own. */
static void slow_reader_gets_all_that_was_read(int from, int to, struct scene *scene)
{
    make_pattern();
    size_t sent = client_push(from, pattern, PATTERN, MUCH, 300);
    cr_assert_lt(sent, MUCH, "nothing waits in the relay");
    long long read = server_counter(&scene->relay, "bytes_in");
    client_reset(from);
    server_await_counter(&scene->relay, "closed", 1);
    cr_assert_geq(server_counter(&scene->relay, "bytes_in"), read);
    size_t got = read_until_reset(to);
    cr_assert_geq(got, (size_t)read, "%zu of %lld bytes that the relay had read", got, read);
    client_close(to);
    end_scene(scene);
}

Test(relay, a_slow_client_gets_all_that_was_read_before_a_reset)
{
    struct scene scene = open_scene("--idle-timeout 0");
    slow_reader_gets_all_that_was_read(scene.server, scene.client, &scene);
}

Test(relay, a_slow_server_gets_all_that_was_read_before_a_reset)
{
    struct scene scene = open_scene("--idle-timeout 0");
    slow_reader_gets_all_that_was_read(scene.client, scene.server, &scene);
}

/* ---- Backpressure --------------------------------------------------------------------------- */

/** One side sends and the other one does not read: the relay takes what the marks allow. */
static void push_against(int from, int to, const struct server_process *relay)
{
    static unsigned char bytes[65536];
    static unsigned char got[65536];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (unsigned char)(i * 31 >> 3);
    }
    long before = probe_resident_kib(relay->pid);
    size_t sent = client_push(from, bytes, sizeof bytes, MUCH, 300);
    cr_assert_lt(sent, MUCH, "the relay has taken %zu bytes that nobody reads", sent);
    long grown = probe_resident_kib(relay->pid) - before;
    cr_assert(probe_sanitized() || grown < 4096, "it has grown by %ld KiB", grown);
    double end = test_deadline();
    for (size_t at = 0; at < sent;) {
        size_t piece = sizeof bytes - at % sizeof bytes;
        piece = piece < sent - at ? piece : sent - at;
        size_t length;
        cr_assert_eq(client_try_receive(to, got, piece, end, &length), CLIENT_GOT,
                     "stuck after %zu of %zu bytes", at + length, sent);
        cr_assert_eq(memcmp(got, bytes + at % sizeof bytes, piece), 0, "other bytes at %zu", at);
        at += piece;
    }
}

SceneTest(relay, a_server_that_does_not_read_stops_its_client, "--idle-timeout 0")
{
    push_against(scene->client, scene->server, &scene->relay);
    client_pass(scene->server, scene->client, "it goes on\n");
    push_against(scene->client, scene->server, &scene->relay);
}

SceneTest(relay, a_client_that_does_not_read_stops_its_server, "--idle-timeout 0")
{
    push_against(scene->server, scene->client, &scene->relay);
    push_against(scene->server, scene->client, &scene->relay);
}

/** A client that sends all before it reads anything, and a server that does the same. */
SceneTest(relay, a_direction_that_is_stopped_does_not_stop_the_other, "--idle-timeout 0")
{
    static char bytes[65536];
    memset(bytes, 'x', sizeof bytes);
    size_t stuck = client_push(scene->server, bytes, sizeof bytes, MUCH, 300);
    cr_assert_lt(stuck, MUCH);
    for (int i = 0; i < 64; i++) {
        static char got[sizeof bytes];
        size_t length;
        client_send(scene->client, bytes, sizeof bytes);
        double end = test_deadline();
        cr_assert_eq(client_try_receive(scene->server, got, sizeof got, end, &length), CLIENT_GOT,
                     "what the client sends does not arrive while it does not read");
    }
}

/**
 * Both directions are full, and then the client resets. The server reads nothing before it has sent
 * all, so the relay has to read that, although nobody wants it any more: else each waits for the
 * other.
 */
static void a_reset_passes_full_directions(const char *options)
{
    struct scene scene = open_scene(options);
    static char bytes[65536];
    memset(bytes, 'x', sizeof bytes);
    size_t sent = client_push(scene.client, bytes, sizeof bytes, MUCH, 300);
    cr_assert_lt(sent, MUCH);
    cr_assert_lt(client_push(scene.server, bytes, sizeof bytes, MUCH, 300), MUCH);
    client_reset(scene.client);
    for (size_t i = 0; i < MUCH; i += sizeof bytes) { /* each piece has a deadline of its own */
        cr_assert_eq(client_try_send(scene.server, bytes, sizeof bytes, test_deadline()),
                     sizeof bytes, "the relay does not read any more");
    }
    enum client_outcome outcome = CLIENT_GOT;
    size_t length;
    while (outcome == CLIENT_GOT) {
        outcome = client_try_receive(scene.server, bytes, sizeof bytes, test_deadline(), &length);
    }
    cr_assert_eq(outcome, CLIENT_RESET, "expected a reset, not: %s", client_outcome_text(outcome));
    close_scene(&scene);
}

Test(relay, a_reset_passes_when_both_directions_are_full)
{
    a_reset_passes_full_directions("--idle-timeout 0");
}

Test(relay, a_reset_passes_when_both_directions_are_full_with_workers)
{
    a_reset_passes_full_directions("--idle-timeout 0 --workers 2");
}

/*
 * Bytes in both directions, in pieces of all sizes, with marks that are reached all the time. Each
 * piece has a deadline of its own, because so many of them take a busy machine long.
 */
static void exchange_much(const char *options)
{
    struct scene scene = open_scene(options);
    size_t length;
    char *lines =
        lines_numbered("through the relay and back, and not one of them lost", 100000, &length);
    size_t sent[2] = {0, 0};
    size_t seen[2] = {0, 0};
    int fds[2] = {scene.client, scene.server};
    static char got[30000];
    double end = test_deadline();
    while ((seen[0] < length || seen[1] < length) && test_left_ms(end) > 0) {
        size_t before = sent[0] + sent[1] + seen[0] + seen[1];
        for (int i = 0; i < 2; i++) {
            size_t piece = 1 + (sent[i] * 7919) % 20000;
            piece = piece < length - sent[i] ? piece : length - sent[i];
            sent[i] += client_try_send(fds[i], lines + sent[i], piece, test_now());
            size_t more = 0;
            client_try_receive(fds[i], got, 1 + (seen[i] * 104729) % sizeof got, test_now(), &more);
            cr_assert_eq(memcmp(got, lines + seen[i], more), 0, "other bytes at %zu", seen[i]);
            seen[i] += more;
        }
        if (sent[0] + sent[1] + seen[0] + seen[1] > before) {
            end = test_deadline();
        } else {
            struct pollfd ends[2];
            for (int i = 0; i < 2; i++) {
                short events = sent[i] < length ? POLLIN | POLLOUT : POLLIN;
                ends[i] = (struct pollfd){.fd = fds[i], .events = events};
            }
            poll(ends, 2, test_left_ms(end));
        }
    }
    cr_assert(seen[0] == length && seen[1] == length, "%zu and %zu of %zu bytes", seen[0], seen[1],
              length);
    free(lines);
    close_scene(&scene);
}

Test(relay, every_byte_arrives_in_order)
{
    exchange_much("");
}

Test(relay, every_byte_arrives_in_order_with_marks_that_are_low)
{
    exchange_much("--output-high-mark 3000 --output-low-mark 1000 --send-buffer 4096");
}

Test(relay, every_byte_arrives_in_order_with_workers)
{
    exchange_much("--workers 3 --output-high-mark 10000 --output-low-mark 5000");
}

/** No worker is free for a message: bytes are not refused. */
Test(relay, every_byte_arrives_in_order_when_workers_are_saturated)
{
    exchange_much("--workers 1 --queue direct --output-high-mark 10000 --output-low-mark 5000");
}

Test(relay, with_all_that_passes_in_the_log)
{
    if (!server_has_option("--log-traffic")) {
        cr_skip_test("no chain in this stage");
    }
    struct scene scene = open_scene("--log-traffic");
    client_pass(scene.client, scene.server, "question\n");
    client_pass(scene.server, scene.client, "answer\n");
    char errors[8192];
    char wanted[128];
    server_errors(&scene.relay, errors, sizeof errors);
    snprintf(wanted, sizeof wanted, "peer=127.0.0.1:%d fd=", scene.backend.port);
    cr_assert_eq(logged(errors, "output", wanted), 1, "%s", errors);
    cr_assert_eq(logged(errors, "input", wanted), 1, "%s", errors);
    close_scene(&scene);
}

/* ---- The end -------------------------------------------------------------------------------- */

/** What was asked before the relay is told to stop is answered. */
Test(relay, an_answer_that_is_under_way_arrives_when_the_relay_stops)
{
    struct scene scene = open_scene("--drain-timeout 30");
    client_pass(scene.client, scene.server, "a question that takes its time\n");
    server_signal(&scene.relay, SIGTERM);
    client_expect_end(scene.server); /* no more questions */
    client_send_text(scene.server, "the answer\n");
    client_half_close(scene.server);
    client_expect_text(scene.client, "the answer\n");
    client_expect_end(scene.client);
    server_expect_exit(&scene.relay);
    client_close(scene.client);
    client_close(scene.server);
    backend_close(&scene.backend);
}

Test(relay, a_server_that_stays_is_cut_off_when_the_relay_stops)
{
    struct scene scene = open_scene("--drain-timeout 0.3");
    server_signal(&scene.relay, SIGTERM);
    server_expect_exit(&scene.relay);
    client_expect_gone(scene.client);
    client_expect_gone(scene.server);
    client_close(scene.client);
    client_close(scene.server);
    backend_close(&scene.backend);
}

/* ---- a slow reader on the other side ---- */

enum {
    WHOLE = 16 << 20, /* more than all buffers on the way take */
    SIP = 40000, /* and so much at a time, for the slow one: its system asks for 100 KB at a time */
};

struct sender {
    int fd;
    size_t sent;
};

static void *send_whole(void *argument)
{
    struct sender *sender = argument;
    char *bytes = calloc(1, WHOLE);
    if (bytes != NULL) {
        sender->sent = client_try_send(sender->fd, bytes, WHOLE, test_now() + 50);
        shutdown(sender->fd, SHUT_WR);
    }
    free(bytes);
    return NULL;
}

/* Reads steadily, but so slowly that the other end of the pair rests for longer than its timeout.
 */
static size_t read_whole(int fd)
{
    static char bytes[1 << 16];
    size_t all = 0;
    size_t got = 1;
    double slow = test_now() + 3.5;
    while (got > 0) {
        bool slowly = test_now() < slow;
        client_try_receive(fd, bytes, slowly ? SIP : sizeof bytes, test_now() + 20, &got);
        all += got;
        test_pause_ms(slowly ? 50 : 0);
    }
    return all;
}

/*
 * The end that receives is suspended until the other one's output has drained. Nobody is idle
 * meanwhile: bytes leave all the time.
 */
static void check_whole(struct scene *scene, int from, int to)
{
    struct sender sender = {.fd = from};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, send_whole, &sender), 0);
    size_t got = read_whole(to);
    pthread_join(thread, NULL);
    cr_assert_eq(got, (size_t)WHOLE, "%zu of %d bytes arrived, and then the end; %zu were sent",
                 got, WHOLE, sender.sent);
    close_scene(scene);
}

Test(relay, a_server_that_reads_slowly_gets_all_of_an_upload)
{
    struct scene scene = open_scene("--idle-timeout 1");
    check_whole(&scene, scene.client, scene.server);
}

Test(relay, a_client_that_reads_slowly_gets_all_of_a_download)
{
    struct scene scene = open_scene("--idle-timeout 1");
    check_whole(&scene, scene.server, scene.client);
}

/* Whoever has connected is accepted at a stop, and its server's connection may still come about. */
Test(relay, clients_that_were_not_accepted_yet_are_relayed)
{
    enum { CLIENTS = 20 };
    struct backend backend = backend_open(100);
    struct server_process relay =
        server_start("--app relay --to 127.0.0.1:%d --drain-timeout 30", backend.port);
    int clients[CLIENTS];
    server_signal(&relay, SIGSTOP);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_send(&relay, "in time\n");
    }
    server_signal(&relay, SIGTERM);
    server_signal(&relay, SIGCONT);
    for (int i = 0; i < CLIENTS; i++) {
        int server = backend_accept(&backend);
        client_expect_text(server, "in time\n");
        client_expect_end(server);
        client_send_text(server, "answered\n");
        client_close(server);
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "answered\n");
        client_expect_end(clients[i]);
        client_close(clients[i]);
    }
    server_expect_exit(&relay);
    backend_close(&backend);
}
