/*
 * Chat with users that do not read, and with users that only read; and its end.
 */
#include "crowd.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(chat_silent_users, .timeout = 120);

/* 16 MB of talk, in rounds that a listener may well have waiting, while he gets no time to read. */
enum { TEXT = 8000, LINES = 50, ROUNDS = 40 };

static bool hear_talk(struct crowd *crowd, int member, const char *line, size_t length)
{
    (void)member;
    if (length == 0 || line[0] != '[') {
        *(bool *)crowd->book |= length > 11 && memcmp(line + length - 9, " has left", 9) == 0;
        return false;
    }
    return length == strlen("[talker] ") + TEXT;
}

/* What waits for him is bounded, then he is let go; the others hear all, and nobody waits. */
ServerTest(chat_silent_users, one_that_never_reads_is_let_go_and_slows_nobody,
           "--app chat --idle-timeout 0 --output-cap 1048576 --send-buffer 65536 --talk-rate 0")
{
    int talker = chat_join_as(server, "talker");
    int sleeper = client_connect_with(server, (struct client_buffers){.receive = 16384});
    client_await_reply(sleeper);
    bool told = false;
    struct crowd listeners = crowd_gather(server, 3);
    listeners.hear = hear_talk;
    listeners.book = &told;
    for (int i = 0; i < 3; i++) {
        client_await_reply(listeners.members[i].fd);
    }
    long memory = probe_resident_kib(server->pid);
    size_t length;
    char *line = line_of(TEXT, "\n", &length);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < LINES; i++) {
            client_send(talker, line, length);
        }
        cr_assert(crowd_receive(&listeners, 3L * LINES * round, test_deadline()),
                  "the others heard %ld of %d lines (%d were let go)", listeners.heard,
                  3 * LINES * round, listeners.ended);
    }
    free(line);
    long grown = probe_resident_kib(server->pid) - memory;
    cr_assert(told, "one that never reads was not let go after %d MB of talk",
              TEXT * LINES * ROUNDS / 1000000);
    cr_assert(probe_sanitized() || grown < 12L * 1024, "the server grew by %ld KiB", grown);
    server_await_counter(server, "closed", 1);
    crowd_leave(&listeners);
}

/*
 * A talker who says more than others read would have all of them let go at the cap. He is slowed
 * down, and reads why; a line of somebody else does not wait behind his.
 */
ServerTest(chat_silent_users, a_flooder_is_slowed_and_told_and_nobody_is_let_go,
           "--app chat --idle-timeout 0 --send-buffer 65536 --talk-rate 65536")
{
    int flooder = chat_join_as(server, "flooder");
    int other = chat_join_as(server, "other");
    int listener = client_connect_with(server, (struct client_buffers){.receive = 16384});
    client_await_reply(listener);
    size_t length;
    char *line = line_of(100, "\n", &length);
    client_push(flooder, line, length, 8 << 20, 100);
    free(line);
    chat_await_line(flooder,
                    "* you say more than 65536 bytes a second, so the others hear you later");
    client_send_text(other, "hello\n");
    chat_await_line(listener, "[other] hello");
    chat_await_line(flooder, "[other] hello");
    cr_assert_eq(server_counter(server, "closed"), 0);
}

/* What another user's handler has queued leaves as he reads it, also when nobody does anything
 * else. */
ServerTest(chat_silent_users, one_that_reads_late_gets_it_all, "--app chat --send-buffer 16384")
{
    enum { SAID = 40 }; /* less than the cap, and more than the socket takes */
    static struct chat_line heard;
    int talker = chat_join_as(server, "talker");
    int late = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_await_reply(late);
    long long before = server_counter(server, "messages");
    size_t length;
    char *line = line_of(TEXT, "\n", &length);
    for (int i = 0; i < SAID; i++) {
        client_send(talker, line, length);
    }
    server_await_counter(server, "messages", before + SAID);
    double end = test_deadline();
    for (int count = 0; count < SAID;) {
        enum client_outcome outcome = chat_try_line(late, &heard, end);
        cr_assert_eq(outcome, CLIENT_GOT, "of %d lines he heard %d: %s", SAID, count,
                     client_outcome_text(outcome));
        count += heard.length == strlen("[talker] ") + TEXT;
    }
    free(line);
}

/*
 * He has so much waiting that the server does not read from him until he has read, although all of
 * it was said by somebody else. What he sends are bare line ends, which no one hears.
 */
ServerTest(chat_silent_users, one_that_has_much_waiting_is_not_read,
           "--app chat --idle-timeout 0 --output-high-mark 100000 --send-buffer 16384")
{
    enum { SAID = 60, MOST = 16 << 20 };
    static char line_ends[65536];
    int talker = chat_join_as(server, "talker");
    int sleeper = client_connect_with(
        server, (struct client_buffers){.receive = 4096, .segment = CLIENT_ETHERNET_SEGMENT});
    client_await_reply(sleeper);
    long long before = server_counter(server, "messages");
    size_t length;
    char *line = line_of(TEXT, "\n", &length);
    for (int i = 0; i < SAID; i++) {
        client_send(talker, line, length);
    }
    server_await_counter(server, "messages", before + SAID);
    memset(line_ends, '\n', sizeof line_ends);
    size_t taken = client_push(sleeper, line_ends, sizeof line_ends, MOST, 200);
    cr_assert_lt(taken, MOST, "the server reads on, although %d bytes wait for that client",
                 SAID * TEXT);
    free(line);
}

enum { IDLE_MS = 1000, PAUSE_MS = 100 };

/* Who sends nothing but is sent something is not idle. */
ServerTest(chat_silent_users, one_that_only_listens_is_not_idle, "--app chat --idle-timeout %d",
           IDLE_MS / 1000)
{
    int one = chat_join_as(server, "one");
    char nick[CHAT_NICK_SIZE];
    int listens = chat_join(server, nick);
    double end = test_now() + 2 * IDLE_MS / 1000.0;
    while (test_now() < end) {
        chat_expect_heard(one, "one", listens);
        test_pause_ms(PAUSE_MS);
    }
    client_close(one);
    chat_await_line(listens, "* one has left");
    /* And when nobody says anything any more, he is, and reads why. */
    client_expect_text(listens, "* you heard and typed nothing for 1 s; goodbye\n");
    client_expect_end(listens);
}

enum { PROGRESS_MS = 500 };

/*
 * Output that another user's handler has queued counts for the progress timeout as one's own, but
 * only from then on: a user to whom nobody has said anything for a while has taken nothing either.
 */
ServerTest(chat_silent_users, one_that_takes_nothing_is_closed_by_the_progress_timeout,
           "--app chat --idle-timeout 0 --progress-timeout 0.%d --send-buffer 16384", PROGRESS_MS)
{
    int talker = chat_join_as(server, "talker");
    int sleeper = client_connect_with(server, (struct client_buffers){.receive = 4096});
    client_await_reply(sleeper);
    test_pause_ms(PROGRESS_MS * 3 / 2);
    size_t length;
    char *line = line_of(TEXT, "\n", &length);
    double begin = test_now();
    for (int i = 0; i < 40; i++) { /* less than the cap */
        client_send(talker, line, length);
    }
    server_await_counter(server, "closed", 1);
    double took = test_now() - begin;
    cr_assert_geq(took, PROGRESS_MS / 1000.0, "closed after %.3f s", took);
    free(line);
}

/* Half a line, and then nothing: the user reads why that is the end. */
ServerTest(chat_silent_users, one_that_does_not_end_a_line_is_told,
           "--app chat --idle-timeout 0 --request-timeout 0.3")
{
    int one = chat_join_as(server, "one");
    client_ask(one, "half a li", "ERR your line did not end within 0.3 s; goodbye\n");
    client_expect_end(one);
}

static bool hear_departure(struct crowd *crowd, int member, const char *line, size_t length)
{
    (void)crowd;
    (void)member;
    return length > 9 && memcmp(line + length - 9, " has left", 9) == 0;
}

/*
 * All leave when the server stops, and if each of N users were told of each departure, that would
 * be N * N / 2 lines: 8 million, and a minute, with 4,000 users. They are told of one that leaves
 * before.
 */
ServerTest(chat_silent_users, server_stops_and_tells_nobody_of_departures, "--app chat")
{
    enum { USERS = 100 };
    struct crowd crowd = crowd_gather(server, USERS);
    crowd.hear = hear_departure;
    for (int i = 0; i < USERS; i++) {
        client_await_reply(crowd.members[i].fd);
    }
    int leaves = chat_join_as(server, "leaves");
    client_close(leaves);
    double end = test_deadline();
    cr_assert(crowd_receive(&crowd, USERS, end), "%ld of %d users were told that one has left",
              crowd.heard, USERS);
    server_signal(server, SIGTERM);
    crowd_receive(&crowd, USERS + 1, end); /* until all have read their end of stream */
    cr_assert_eq(crowd.heard, USERS, "at the server's end users were told of %ld departures",
                 crowd.heard - USERS);
    cr_assert_eq(crowd.ended, USERS, "%d of %d users saw the end", crowd.ended, USERS);
    server_expect_exit(server);
    crowd_leave(&crowd);
}

ServerTest(chat_silent_users, server_stops_and_tells_users_to_come_again, "--app chat")
{
    int ann = chat_join_as(server, "ann");
    int bob = chat_join_as(server, "bob");
    chat_expect_heard(ann, "ann", bob);
    server_signal(server, SIGTERM);
    chat_await_line(bob, "* this server stops; come again");
    client_expect_end(bob);
    chat_await_line(ann, "* this server stops; come again");
    client_expect_end(ann);
    client_close(ann);
    client_close(bob);
    server_expect_exit(server);
}

ServerTest(chat_silent_users, server_stops_with_users, "--app chat")
{
    enum { USERS = 50 };
    struct crowd crowd = crowd_gather(server, USERS);
    for (int i = 0; i < USERS; i++) {
        client_await_reply(crowd.members[i].fd);
        client_send_text(crowd.members[i].fd, "hello\n/who\nhalf a li");
    }
    server_stop(server);
    for (int i = 0; i < USERS; i++) {
        static char text[1 << 17];
        size_t got;
        enum client_outcome outcome =
            client_try_receive(crowd.members[i].fd, text, sizeof text, test_now() + 10, &got);
        cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET, "user %d: %s", i,
                  client_outcome_text(outcome));
    }
    crowd_leave(&crowd);
}

/* One that does not read holds the end up for the drain timeout, and no longer. */
ServerTest(chat_silent_users, server_stops_with_one_that_never_reads,
           "--app chat --drain-timeout 0.5 --send-buffer 16384")
{
    int talker = chat_join_as(server, "talker");
    int sleeper = client_connect_with(server, (struct client_buffers){.receive = 4096});
    client_await_reply(sleeper);
    size_t length;
    char *line = line_of(TEXT, "\n", &length);
    for (int i = 0; i < 40; i++) {
        client_send(talker, line, length);
    }
    client_send_text(talker, "/who\n");
    chat_await_line(talker, "* 2 here");
    double begin = test_now();
    server_stop(server);
    double took = test_now() - begin;
    cr_assert(took > 0.4 && took < 5, "the server took %.2f s to stop", took);
    free(line);
}
