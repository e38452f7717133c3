/*
 * Chat: what it costs when many lines come at once, and when many users do.
 *
 * A write to a connection that has nothing waiting is a segment of its own on loopback, so the
 * kernel of a listener knows how many writes its lines came in.
 */
#include "crowd.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

TestSuite(chat_bursts, .timeout = 120);

enum { LISTENERS = 100, LINES = 64 }; /* so few that each hears of each at once */

static int listeners[LISTENERS];

/** Segments with data that have come so far. */
static long segments(int fd)
{
    struct tcp_info info = {0};
    socklen_t length = sizeof info;
    cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length), 0);
    return info.tcpi_data_segs_in;
}

static void gather(const struct server_process *server)
{
    char nick[CHAT_NICK_SIZE];
    for (int i = 0; i < LISTENERS; i++) {
        listeners[i] = chat_join(server, nick);
    }
}

static void disperse(void)
{
    clients_close(listeners, LISTENERS);
}

static void expect_lines(int listener, const char *nick, const char *word, int count)
{
    for (int i = 0; i < count; i++) {
        char wanted[80];
        snprintf(wanted, sizeof wanted, "[%s] %s %06d", nick, word, i);
        chat_expect_line(listeners[listener], wanted);
    }
}

/** What was sent to the listeners before, they have got afterwards. */
static void settle(int talker)
{
    client_send_text(talker, "all quiet\n");
    for (int i = 0; i < LISTENERS; i++) {
        chat_expect_line(listeners[i], "[talker] all quiet");
    }
}

/** All listeners hear so many lines of one; how many segments these came in, on average. */
static double segments_of(int talker, int count)
{
    static long before[LISTENERS];
    long all = 0;
    size_t length;
    char *lines = lines_numbered("line", count, &length);
    settle(talker);
    for (int i = 0; i < LISTENERS; i++) {
        before[i] = segments(listeners[i]);
    }
    client_send(talker, lines, length);
    for (int i = 0; i < LISTENERS; i++) {
        expect_lines(i, "talker", "line", count);
        all += segments(listeners[i]) - before[i];
    }
    free(lines);
    return (double)all / LISTENERS;
}

/** The fewest of some attempts: what is held back leaves earlier if the server is slow (BURST_MS).
 */
static double best_of(int talker, int count, double wanted)
{
    double best = segments_of(talker, count);
    for (int i = 0; i < 20 && best > wanted; i++) {
        double next = segments_of(talker, count);
        best = next < best ? next : best;
    }
    return best;
}

/* Written one by one, 64 lines to 100 users are 6,400 writes. */
ServerTest(chat_bursts, lines_that_are_pasted_cost_each_listener_a_write, "--app chat")
{
    int talker = chat_join_as(server, "talker");
    gather(server);
    double most = probe_sanitized() || probe_thread_sanitized() ? 8 : 1.5;
    double pasted = best_of(talker, LINES, most);
    cr_assert_leq(pasted, most, "%d lines came in %.2f segments", LINES, pasted);
    double many = best_of(talker, 4 * LINES, 4 * most);
    cr_assert_leq(many, 4 * most, "%d lines came in %.2f segments", 4 * LINES, many);
    disperse();
}

/* Nothing follows it, so there is nothing to wait for. */
ServerTest(chat_bursts, lines_that_come_one_by_one_leave_one_by_one, "--app chat")
{
    enum { SAID = 5 };
    int talker = chat_join_as(server, "talker");
    gather(server);
    for (int i = 0; i < SAID; i++) {
        double pieces = segments_of(talker, 1);
        cr_assert(pieces >= 1 && pieces <= 1.5, "a line came in %.2f segments", pieces);
    }
    disperse();
}

/* What ends a burst: its last line takes the others along, or the run's end does. */
ServerTest(chat_bursts, lines_before_a_command_or_half_a_line_are_heard, "--app chat")
{
    static const char *const ends[] = {"/help\n", "half a line", "\n", "/nick talker\n"};
    gather(server);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        char text[100];
        int talker = chat_join_as(server, "talker");
        snprintf(text, sizeof text, "line 000000\nline 000001\n%s", ends[i]);
        client_send_text(talker, text);
        for (int j = 0; j < LISTENERS; j++) {
            expect_lines(j, "talker", "line", 2);
        }
        client_reset(talker);
        chat_await_line(listeners[0], "* talker has left");
    }
    disperse();
}

/* Those who talk at the same time hold back for the same listeners, and each one's order stays. */
ServerTest(chat_bursts, many_that_paste_at_once_are_heard_in_their_order,
           "--app chat --output-cap 16777216")
{
    enum { TALKERS = 4, ROUNDS = 20, PASTED = 30, HEARD = TALKERS * ROUNDS * PASTED };
    static struct chat_line line;
    int talkers[TALKERS];
    int listener = chat_join_as(server, "listener");
    for (int i = 0; i < TALKERS; i++) {
        char nick[CHAT_NICK_SIZE];
        snprintf(nick, sizeof nick, "%d", i);
        talkers[i] = chat_join_as(server, nick);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < TALKERS; i++) {
            char text[PASTED * 8 + 1];
            size_t length = 0;
            for (int j = 0; j < PASTED; j++) {
                length += (size_t)sprintf(text + length, "%d\n", round * PASTED + j);
            }
            client_send(talkers[i], text, length);
        }
    }
    int next[TALKERS] = {0};
    double end = test_deadline();
    for (int heard = 0; heard < HEARD;) {
        int talker = -1;
        int number = -1;
        cr_assert_eq(chat_try_line(listener, &line, end), CLIENT_GOT, "after %d lines", heard);
        if (line.text[0] != '[') {
            continue;
        }
        cr_assert_eq(sscanf(line.text, "[%d] %d", &talker, &number), 2, "`%s`", line.text);
        cr_assert(talker >= 0 && talker < TALKERS && number == next[talker]++, "`%s`, after %d",
                  line.text, next[talker] - 1);
        heard++;
    }
}

enum { BLOCK_MS = 1000 };

/* Each line takes its time, and leaves before the next one takes its own. */
ServerTest(chat_bursts, a_line_does_not_wait_for_the_next_one_that_blocks,
           "--app chat --block-ms %d --cost-every 2", BLOCK_MS)
{
    int talker = chat_join_as(server, "talker");     /* `/nick` was the first one, and has paid */
    int listener = chat_join_as(server, "listener"); /* a free one */
    client_send_text(talker, "/\n");
    chat_expect_line(talker, "ERR no such command; /help tells which there are");
    client_send_text(talker, "free\nblocks\n");
    double begin = test_now();
    chat_expect_line(listener, "[talker] free");
    double took = test_now() - begin;
    cr_assert_lt(took, BLOCK_MS / 1000.0 / 2, "the line before one that blocks came after %.2f s",
                 took);
    chat_expect_line(listener, "[talker] blocks");
}

/* ---- many that come, and many that leave ---- */

struct news {
    long came;
    long left;
};

/** What a line tells about others; false if it is about something else. */
static bool parse_news(const char *text, struct news *news)
{
    char what[8] = "";
    long count = 0;
    *news = (struct news){0};
    if (sscanf(text, "* %ld %*s %7s and %ld left", &count, what, &news->left) < 2) {
        news->came = strstr(text, " is here") != NULL;
        news->left = strstr(text, " has left") != NULL;
    } else if (strcmp(what, "came") == 0) {
        news->came = count;
    } else {
        news->left = count;
    }
    return news->came + news->left > 0;
}

/** Reads until so many have come and so many have left, no fewer and no more. */
static void await_news(int fd, long came, long left)
{
    static struct chat_line line;
    struct news all = {0};
    double end = test_now() + 4 * test_deadline_ms() / 1000.0;
    while (all.came < came || all.left < left) {
        struct news news;
        cr_assert_eq(chat_try_line(fd, &line, end), CLIENT_GOT,
                     "of %ld that come %ld were told, and of %ld that leave %ld", came, all.came,
                     left, all.left);
        parse_news(line.text, &news);
        all.came += news.came;
        all.left += news.left;
    }
    cr_assert(all.came == came && all.left == left, "%ld came and %ld left", all.came, all.left);
}

/** Counts lines. */
static bool hear_news(struct crowd *crowd, int member, const char *line, size_t length)
{
    char text[100];
    struct news news;
    (void)crowd;
    (void)member;
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    return parse_news(text, &news);
}

/* What the news may cost: what is saved up at first, what is earned since, and one line too many.
 */
static long budget(double since, int users)
{
    return 16384 + (long)(4096 * (test_now() - since)) + 2L * users;
}

/*
 * If each of N users were told of each of the others, that would be N * N / 2 lines. One who stays
 * is told of all that come, and of all that leave.
 */
ServerTest(chat_bursts, many_that_come_or_leave_at_once_are_told_in_few_lines, "--app chat")
{
    enum { USERS = 600, LEAVE = 400 };
    int stays = chat_join_as(server, "stays");
    double begin = test_now();
    struct crowd crowd = crowd_gather(server, USERS);
    crowd.hear = hear_news;
    await_news(stays, USERS, 0);
    crowd_receive(&crowd, LONG_MAX, test_now() + 0.2);
    long most = budget(begin, USERS);
    cr_assert_leq(crowd.heard, most, "%ld lines, and not %ld", crowd.heard, most);
    for (int i = 0; i < LEAVE; i++) {
        shutdown(crowd.members[i].fd, SHUT_RDWR);
    }
    await_news(stays, 0, LEAVE);
    crowd_receive(&crowd, LONG_MAX, test_now() + 0.2);
    most = budget(begin, USERS);
    cr_assert_leq(crowd.heard, most, "%ld lines, and not %ld", crowd.heard, most);
    client_send_text(stays, "/who\n");
    char wanted[32];
    snprintf(wanted, sizeof wanted, "* %d here", 1 + USERS - LEAVE);
    chat_await_line(stays, wanted);
    crowd_leave(&crowd);
}
