/*
 * Several dispatchers and one application, seen from outside: what a user says is heard in its
 * order wherever the others are, and --log-traffic shows all of it.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/logged.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage5_outside, .timeout = 120);

/* ---- chat across dispatchers ---- */

enum { DISPATCHERS = 3, USERS = 9, SPEAKERS = 3, LINES = 250, TEXT_SIZE = 1 << 18 };

/* So that lines have to wait, and are taken in parts. */
static const struct client_buffers small = {.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT};

struct user {
    int fd;
    int number;
    pthread_t thread;
    bool good;
    char problem[200];
};

static void join_as(struct user *user, const struct server_process *server, int number)
{
    char line[32];
    char answer[64];
    *user = (struct user){.fd = client_connect_with(server, small), .number = number};
    int length = snprintf(line, sizeof line, "/nick user-%d\n", number);
    client_send(user->fd, line, (size_t)length);
    length = snprintf(answer, sizeof answer, "* you are user-%d\n", number);
    /* What comes before that is the greeting, and who else is there. */
    char seen[4096] = "";
    size_t count = 0;
    double end = test_deadline();
    while (!strstr(seen, answer) && count < sizeof seen - 1) {
        size_t got;
        cr_assert_eq(client_try_receive(user->fd, seen + count, 1, end, &got), CLIENT_GOT,
                     "user %d was told only: %s", number, seen);
        seen[++count] = '\0';
    }
}

static void *speak(void *argument)
{
    struct user *user = argument;
    user->good = true;
    for (int i = 0; i < LINES && user->good; i++) {
        char line[64];
        int length = snprintf(line, sizeof line, "speaks of %d\n", i);
        user->good =
            client_try_send(user->fd, line, (size_t)length, test_deadline()) == (size_t)length;
    }
    return NULL;
}

/** The next line that somebody has said; false if there is none in time. */
static bool next_said(struct user *user, char *text, size_t *start, size_t *end, double limit,
                      int *speaker, int *number)
{
    for (;;) {
        char *line = text + *start;
        char *found = memchr(line, '\n', *end - *start);
        if (found) {
            *start = (size_t)(found + 1 - text);
            *found = '\0';
            if (sscanf(line, "[user-%d] speaks of %d", speaker, number) == 2) {
                return true;
            }
            if (line[0] != '*') {
                snprintf(user->problem, sizeof user->problem, "heard `%.100s`", line);
                return false;
            }
            continue;
        }
        size_t got;
        if (*end == TEXT_SIZE ||
            client_try_receive(user->fd, text + *end, 1, limit, &got) != CLIENT_GOT) {
            snprintf(user->problem, sizeof user->problem, "heard no more, after `%.100s`", line);
            return false;
        }
        *end += 1;
    }
}

static void *listen_to_all(void *argument)
{
    struct user *user = argument;
    int next[SPEAKERS] = {0};
    int expected = LINES * (user->number < SPEAKERS ? SPEAKERS - 1 : SPEAKERS);
    char *text = malloc(TEXT_SIZE);
    size_t start = 0;
    size_t end = 0;
    double limit = test_deadline();
    user->good = text != NULL;
    for (int i = 0; i < expected && user->good; i++) {
        int speaker = -1;
        int number = -1;
        user->good = next_said(user, text, &start, &end, limit, &speaker, &number);
        if (user->good && (speaker < 0 || speaker >= SPEAKERS || number != next[speaker]++)) {
            snprintf(user->problem, sizeof user->problem, "heard line %d of speaker %d too %s",
                     number, speaker, "early or late");
            user->good = false;
        }
    }
    free(text);
    return NULL;
}

/* The speakers are on different dispatchers, and so are those who hear each of them. */
static void talk_across(const char *workers)
{
    static struct user users[USERS];
    pthread_t speakers[SPEAKERS];
    static struct user mouths[SPEAKERS];
    struct server_process server =
        server_start("--app chat --dispatchers %d --send-buffer 4096 %s", DISPATCHERS, workers);
    for (int i = 0; i < USERS; i++) {
        join_as(&users[i], &server, i);
    }
    for (int i = 0; i < USERS; i++) {
        cr_assert_eq(pthread_create(&users[i].thread, NULL, listen_to_all, &users[i]), 0);
    }
    for (int i = 0; i < SPEAKERS; i++) {
        mouths[i].fd = users[i].fd;
        cr_assert_eq(pthread_create(&speakers[i], NULL, speak, &mouths[i]), 0);
    }
    for (int i = 0; i < SPEAKERS; i++) {
        pthread_join(speakers[i], NULL);
    }
    for (int i = 0; i < USERS; i++) {
        pthread_join(users[i].thread, NULL);
    }
    for (int i = 0; i < USERS; i++) {
        cr_assert(users[i].good, "user %d %s", i, users[i].problem);
        cr_assert(i >= SPEAKERS || mouths[i].good, "speaker %d could not speak", i);
        client_close(users[i].fd);
    }
    server_stop(&server);
}

Test(stage5_outside, chat_across_dispatchers_keeps_each_speakers_order)
{
    talk_across("--workers 0");
}

Test(stage5_outside, chat_across_dispatchers_and_workers_keeps_each_speakers_order)
{
    talk_across("--workers 4");
}

/* ---- what is said is shown ---- */

static void await_shown(struct server_process *server, const char *event, const char *wanted)
{
    static char text[65536];
    double end = test_deadline();
    do {
        server_errors(server, text, sizeof text);
    } while (!logged(text, event, wanted) && test_left_ms(end) > 0);
    cr_assert_gt(logged(text, event, wanted), 0, "no `%s` in: %s", wanted, text);
}

ClientTest(stage5_outside, log_traffic_shows_what_passes_and_changes_nothing, "--log-traffic")
{
    client_send(client, "caf\xc3\xa9 \0\n\r\n", 10);
    client_expect(client, "caf\xc3\xa9 \0\n\r\n", 10);
    client_close(client);
    await_shown(server, "begun", " fd=");
    await_shown(server, "input", " bytes=8 text=\"caf\\xc3\\xa9 \\x00\\n\"\n");
    await_shown(server, "output", " bytes=8 text=\"caf\\xc3\\xa9 \\x00\\n\"\n");
    await_shown(server, "input", " bytes=2 text=\"\\r\\n\"\n");
    await_shown(server, "ended", " reason=\"the client has closed\"\n");
}

/* The chat keeps its users' facades, which are elements' here, and calls them from everywhere. */
ServerTest(stage5_outside, chat_behind_a_chain,
           "--app chat --dispatchers 2 --log-traffic --suspicious 127.0.0.0/8 --throttle 100000")
{
    struct user users[2];
    for (int i = 0; i < 2; i++) {
        join_as(&users[i], server, i);
    }
    client_send_text(users[1].fd, "is it you?\n");
    await_shown(server, "output", " bytes=20 text=\"[user-1] is it you?\\n\"\n");
    client_reset(users[0].fd);
    await_shown(server, "output", "\"* user-0 has left\\n\"");
    client_close(users[1].fd);
    server_await_counter(server, "closed", 2);
}

/*
 * Without the guard the acceptor waits for the selector's lock as soon as a client comes, and
 * cannot look at signals. The signal itself ends the dispatcher's sleep, so the first one is
 * enough.
 */
Test(stage5_outside, sigterm_is_heard_without_the_guard_too)
{
    if (probe_thread_sanitized()) /* for it, pthread_mutex_lock(3) is no call that blocks */
        cr_skip_test("ThreadSanitizer keeps the signal from an acceptor that waits for a lock");
    struct server_process server = server_start(
        "--guard none --idle-timeout 0 --request-timeout 0 --drain-timeout 2 --dispatchers 3");
    int client = client_connect(&server);
    client_expect_silence(client, 100);
    cr_assert(probe_await_asleep(server.pid)); /* so the acceptor has come to that lock */
    server_stop(&server);
    client_close(client);
}
