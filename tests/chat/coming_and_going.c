/*
 * Chat with users that come and go while others talk. Hitchens' server stopped for good within
 * seconds of this (erratum 3), and left descriptors behind (erratum 4).
 *
 * STORM_SECONDS in the environment says how long the storm lasts; 4 if it is not set.
 */
#include "chat_user.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(chat_coming_and_going, .timeout = 120);

struct storm {
    const struct server_process *server;
    double end;
    atomic_bool over; /* before its end */
    atomic_long visits;
    atomic_long failures;
};

static void take_what_is_there(int fd)
{
    static _Thread_local char text[16384];
    while (recv(fd, text, sizeof text, MSG_DONTWAIT) > 0) {
    }
}

/** Comes, is greeted, says a few lines, reads or not, and leaves in one of four ways. */
static void visit(struct storm *storm, unsigned *seed)
{
    double end = test_deadline();
    int fd = client_try_connect(storm->server, (struct client_buffers){0});
    if (fd < 0 || !test_await(fd, POLLIN, end)) {
        atomic_fetch_add(&storm->failures, 1);
        return;
    }
    int lines = rand_r(seed) % 6;
    for (int i = 0; i < lines; i++) {
        static const char *const said[] = {"hello\n", "\r\nhow are you\n", "/who\n", "/nick x\n"};
        const char *text = said[rand_r(seed) % 4];
        client_try_send(fd, text, strlen(text), end);
        take_what_is_there(fd);
    }
    switch (rand_r(seed) % 4) {
    case 0: client_reset(fd); break;
    case 1:
        client_half_close(fd);
        take_what_is_there(fd);
        client_close(fd);
        break;
    case 2:
        client_try_send(fd, "/quit\n", 6, end);
        client_close(fd);
        break;
    default: client_close(fd); break;
    }
    atomic_fetch_add(&storm->visits, 1);
}

static void *visitor(void *argument)
{
    struct storm *storm = argument;
    static atomic_uint number;
    unsigned seed = atomic_fetch_add(&number, 1) + 1;
    while (test_now() < storm->end && !atomic_load(&storm->over)) {
        visit(storm, &seed);
    }
    return NULL;
}

static double storm_seconds(void)
{
    const char *text = getenv("STORM_SECONDS");
    return text && atof(text) > 0 ? atof(text) : 2;
}

ServerTest(chat_coming_and_going, erratum_03_sixty_that_come_and_go, "--app chat")
{
    enum { VISITORS = 60 };
    pthread_t threads[VISITORS];
    long before = probe_descriptors(server->pid);
    struct storm storm = {.server = server, .end = test_now() + storm_seconds()};
    for (int i = 0; i < VISITORS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, visitor, &storm), 0);
    }
    for (int i = 0; i < VISITORS; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_eq(storm.failures, 0, "%ld connections failed", storm.failures);
    cr_assert_gt(storm.visits, VISITORS);

    double limit = probe_sanitized() ? 10 : 1;
    double begin = test_now();
    int one = client_connect(server);
    int two = client_connect(server);
    client_await_reply(one);
    client_await_reply(two);
    bool heard = chat_try_heard(one, two, "is anybody there", limit);
    double took = test_now() - begin;
    cr_assert(heard && took < limit,
              "after %ld visits of %d users at a time a new pair is served: %s, after %.2f s",
              storm.visits, VISITORS, heard ? "yes" : "no", took);
    client_close(one);
    client_close(two);
    cr_assert(probe_await_descriptors(server->pid, before),
              "%ld descriptors before %ld visits, %ld after", before, storm.visits,
              probe_descriptors(server->pid));
}

ServerTest(chat_coming_and_going, erratum_04_no_descriptor_is_left_behind, "--app chat")
{
    enum { VISITS = 3000, AT_A_TIME = 250 };
    char nick[CHAT_NICK_SIZE];
    int stays = chat_join(server, nick);
    long before = probe_descriptors(server->pid);
    for (int i = 0; i < VISITS; i++) {
        int fd = client_connect(server);
        if (i % 3 == 0) {
            client_reset(fd);
        } else {
            client_close(fd);
        }
        take_what_is_there(stays);
        if ((i + 1) % AT_A_TIME == 0) {
            server_await_counter(server, "closed", i + 1);
        }
    }
    take_what_is_there(stays);
    cr_assert(probe_await_descriptors(server->pid, before),
              "%ld descriptors before %d visits, %ld after", before, VISITS,
              probe_descriptors(server->pid));
    client_send_text(stays, "/who\n");
    chat_await_line(stays, "* 1 here");
}

/* Two talk without a pause, and lose nothing of it, while others come and go. */

struct talk {
    int fd;
    const char *lines;
    size_t length;
    bool sent;
};

static void *talker(void *argument)
{
    struct talk *talk = argument;
    talk->sent =
        client_try_send(talk->fd, talk->lines, talk->length, test_now() + 30) == talk->length;
    return NULL;
}

ServerTest(chat_coming_and_going, those_that_talk_lose_nothing, "--app chat --output-cap 16777216")
{
    enum { VISITORS = 8, LINES = 30000 };
    pthread_t threads[VISITORS + 1];
    int one = chat_join_as(server, "one");
    int two = chat_join_as(server, "two");
    struct storm storm = {.server = server, .end = test_now() + 1.5};
    for (int i = 0; i < VISITORS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, visitor, &storm), 0);
    }
    struct talk talk = {.fd = one};
    char *lines = lines_numbered("line", LINES, &talk.length);
    talk.lines = lines;
    cr_assert_eq(pthread_create(&threads[VISITORS], NULL, talker, &talk), 0);

    static struct chat_line line;
    double end = test_now() + 4 * test_deadline_ms() / 1000.0;
    char wrong[200] = "";
    for (int next = 0; next < LINES && !wrong[0];) {
        int number;
        enum client_outcome outcome = chat_try_line(two, &line, end);
        if (outcome != CLIENT_GOT) {
            snprintf(wrong, sizeof wrong, "instead of line %d: %s", next,
                     client_outcome_text(outcome));
        } else if (sscanf(line.text, "[one] line %d", &number) == 1 && number != next++) {
            snprintf(wrong, sizeof wrong, "line %d came instead of %d", number, next - 1);
        }
        take_what_is_there(one);
    }
    atomic_store(&storm.over, true);
    for (int i = 0; i <= VISITORS; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_str_empty(wrong);
    cr_assert(talk.sent);
    cr_assert_eq(storm.failures, 0, "%ld visitors were not greeted", storm.failures);
    free(lines);
}
