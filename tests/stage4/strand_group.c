/*
 * The group of a strand (common/apps/strand_group.h) from inside: an application whose lines are
 * handled in a strand, with handlers in two threads.
 */
#include "framework.h"

#include "strands.h"

#include "common/apps/strand_group.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(stage4_strand_group, .timeout = 120);

#define STRAND_LEFT "strand: before it is left"

enum { MEMBERS = 8, EACH = 200 };

/* What it counts is plain, so ThreadSanitizer tells if two calls are not in order. */
struct board {
    struct strand_group group;
    struct strand_member *waits;
    int lines;
    int joined;
    int left;
    int gone;
    int wrong;
    bool is_inside;
    bool answers_gone;
    struct channel_timer alarm;
};

struct speaker {
    struct strand_member member;
    int lines;
};

static struct framework framework;
static struct strands strands;
static struct input_handler_factory *factory;
static void *memory[MEMBERS];
static size_t connected;
static struct board board;
static atomic_int waits;
static atomic_int ends;

static void enter(void)
{
    board.wrong += board.is_inside;
    board.is_inside = true;
}

/* All that there are know of the new one, and it knows how many they are. */
static void joined(struct strand_group *group, struct strand_member *member)
{
    enter();
    board.joined++;
    size_t walked = 0;
    struct strand_member *last = NULL;
    for (struct strand_member *one = strand_group_first(group); one != NULL;
         one = strand_group_next(group, one)) {
        last = one;
        walked++;
    }
    board.wrong += walked != group->count || last != member;
    board.is_inside = false;
}

static bool is(struct message line, const char *text)
{
    return line.length == strlen(text) + 1 && memcmp(line.data, text, strlen(text)) == 0;
}

static void answer_waiting(const char *text)
{
    struct strand_member *member = board.waits;
    board.waits = NULL;
    if (member == NULL)
        return;
    channel_printf(member->facade, "%s\n", text);
    strand_member_go_on(member);
}

static void rang(struct channel_timer *timer, struct channel_facade *facade)
{
    enter();
    board.wrong += facade != strand_facade(&board.group.strand) || timer != &board.alarm;
    answer_waiting("rang");
    board.is_inside = false;
}

/* "all N" goes to all with its number, so each reads each number once, in one order. */
static bool said(struct strand_group *group, struct strand_member *member, struct message line)
{
    struct speaker *speaker = container_of(member, struct speaker, member);
    bool is_answered = true;
    enter();
    speaker->lines++;
    if (is(line, "all")) {
        char text[32];
        int length = snprintf(text, sizeof text, "line %d\n", board.lines++);
        strand_group_send(group, NULL, piece_bytes(text, (size_t)length));
    } else if (is(line, "others")) {
        strand_group_send(group, member, piece_bytes("other\n", 6));
    } else if (is(line, "wait") || is(line, "alarm")) {
        board.wrong += board.waits != NULL;
        board.waits = member;
        board.alarm.fired = rang;
        if (is(line, "alarm"))
            channel_set_timer(strand_facade(&group->strand), &board.alarm, 20);
        atomic_fetch_add(&waits, 1);
        is_answered = false;
    } else if (is(line, "at once")) { /* has itself go on before it waits: so it does not */
        board.waits = member;
        answer_waiting("at once");
        is_answered = false;
    } else if (is(line, "go")) {
        answer_waiting("went");
        strand_member_go_on(member); /* which does not wait */
    } else {
        channel_printf(member->facade, "%d %.*s", speaker->lines, (int)line.length,
                       (const char *)line.data);
    }
    board.is_inside = false;
    return is_answered;
}

static void gone(struct strand_group *group, struct strand_member *member)
{
    (void)group;
    enter();
    board.gone++;
    board.wrong += board.waits != member;
    if (board.answers_gone)
        answer_waiting("gone");
    else
        channel_close(member->facade);
    board.is_inside = false;
}

static void left(struct strand_group *group, struct strand_member *member)
{
    enter();
    for (struct strand_member *one = strand_group_first(group); one != NULL;
         one = strand_group_next(group, one))
        board.wrong += one == member;
    if (board.waits == member)
        board.waits = NULL;
    strand_member_go_on(member);
    board.left++;
    board.is_inside = false;
    atomic_fetch_add(&ends, 1);
}

static const struct strand_group_verbs verbs = {
    .joined = joined, .said = said, .gone = gone, .left = left};

static void *start(struct server *server)
{
    return strand_group_open(&board.group, server, &verbs) ? &board : NULL;
}

static const struct application application = {.name = "board",
                                               .verbs = &strand_member_verbs,
                                               .handler_size = sizeof(struct speaker),
                                               .start = start};

static void begin(const char *ways)
{
    framework_open(&framework, "%s", ways);
    strands_init(&strands, &framework.server);
    factory = application_open(&application, &framework.server);
    cr_assert_not_null(factory);
    strands_host(&strands, framework_dispatchers(&framework, &(size_t){0}));
    framework_run(&framework);
    strand_host_begin(&strands.host);
}

static int connect_speaker(void)
{
    cr_assert_lt(connected, MEMBERS);
    void *place = calloc(1, sizeof(struct speaker));
    memory[connected++] = place;
    return framework_connect(&framework, factory->create(factory, place));
}

static void end(void)
{
    strand_host_stop(&strands.host);
    framework_let_go(&strands.host);
    framework_halt(&framework);
    strand_host_end(&strands.host);
    application_close(&application, factory);
    framework_end(&framework);
    cr_assert_eq(board.wrong, 0, "%d calls were wrong", board.wrong);
    cr_assert_eq((size_t)board.joined, connected);
    cr_assert_eq((size_t)board.left, connected);
    cr_assert_eq(board.group.count, 0);
    for (size_t i = 0; i < connected; i++)
        free(memory[i]);
}

/* Eight members in several threads: what one sends to all comes to all in one order. */
WaysTest(stage4_strand_group, has_one_order)
{
    static char text[EACH * 4 + 1];
    int clients[MEMBERS];
    begin(workers);
    for (int i = 0; i < MEMBERS; i++) {
        clients[i] = connect_speaker();
        client_ask(clients[i], "hello\n", "1 hello\n");
    }
    for (int i = 0; i < EACH; i++)
        strcat(text, "all\n");
    for (int i = 0; i < MEMBERS; i++)
        client_send_text(clients[i], text);
    for (int number = 0; number < MEMBERS * EACH; number++) {
        snprintf(text, sizeof text, "line %d\n", number);
        for (int i = 0; i < MEMBERS; i++)
            client_expect_text(clients[i], text);
    }
    client_ask(clients[0], "others\nlast\n", "203 last\n");
    client_expect_text(clients[MEMBERS - 1], "other\n");
    for (int i = 0; i < MEMBERS; i++)
        client_close(clients[i]);
    recorder_await_at(HERE, "ends", &ends, MEMBERS);
    end();
}

/* A thread is in the strand, and leaves it only when the test says so. */
static int client_that_is_inside(void)
{
    int inside = connect_speaker();
    client_ask(inside, "hello\n", "1 hello\n");
    framework_await_asleep(&framework); /* nobody leaves it late, or has yet to come in */
    test_point_hold(STRAND_LEFT);
    client_send_text(inside, "inside\n");
    test_point_await_held(STRAND_LEFT, 1);
    return inside;
}

/* What the others say meanwhile is copied, and they hold. One that sends no more gets its answers.
 */
WaysTest(stage4_strand_group, somebody_is_inside)
{
    begin(workers);
    int client = connect_speaker();
    int inside = client_that_is_inside();
    client_send_text(client, "one\ntwo\nthree\n");
    client_half_close(client);
    client_expect_silence(client, 50);
    cr_assert_eq(((struct speaker *)memory[0])->lines, 0);
    test_point_release(STRAND_LEFT);
    client_expect_text(inside, "2 inside\n");
    client_expect_text(client, "1 one\n2 two\n3 three\n");
    client_expect_end(client);
    client_close(client);
    client_close(inside);
    end();
}

/* It is reset while its line waits in the strand. */
WaysTest(stage4_strand_group, goes_while_its_line_waits)
{
    begin(workers);
    int client = connect_speaker();
    int inside = client_that_is_inside();
    client_send_text(client, "one\n");
    client_await_delivered(client);
    client_expect_silence(client, 50);
    client_reset(client);
    framework_await_closed(&framework, 1);
    cr_assert_eq(atomic_load(&ends), 0, "it has left while somebody else was inside");
    test_point_release(STRAND_LEFT);
    recorder_await_at(HERE, "ends", &ends, 1);
    client_close(inside);
    end();
}

/* What a member asks for waits for another one, and its next lines for that. */
WaysTest(stage4_strand_group, answers_later)
{
    begin(workers);
    int client = connect_speaker();
    int other = connect_speaker();
    client_send_text(client, "wait\nnext\nat once\nnext\nalarm\nlast\n");
    recorder_await_at(HERE, "waits", &waits, 1);
    client_expect_silence(client, 50);
    client_send_text(other, "go\n");
    client_expect_text(client, "went\n2 next\nat once\n4 next\nrang\n6 last\n");
    client_ask(other, "go\nnobody\n", "3 nobody\n");
    client_send_text(client, "wait\nagain\n");
    recorder_await_at(HERE, "waits", &waits, 3);
    client_expect_silence(client, 50);
    client_send_text(other, "go\n");
    client_expect_text(client, "went\n8 again\n");
    client_close(client);
    client_close(other);
    end();
}

/* It waits, and ends its stream: it hears so once, and may still be answered. */
WaysTest(stage4_strand_group, goes_while_it_waits)
{
    begin(workers);
    int client = connect_speaker();
    client_send_text(client, "wait\nnext\n");
    client_half_close(client);
    client_expect_end(client);
    client_close(client);
    recorder_await_at(HERE, "ends", &ends, 1);
    cr_assert_eq(board.gone, 1);
    cr_assert_null(board.waits);
    board.answers_gone = true;
    client = connect_speaker();
    client_send_text(client, "wait\nnext\n");
    client_half_close(client);
    client_expect_text(client, "gone\n2 next\n");
    client_expect_end(client);
    client_close(client);
    recorder_await_at(HERE, "ends", &ends, 2);
    cr_assert_eq(board.gone, 2);
    end();
}

/* The server stops, and one waits: nobody waits for it. */
WaysTest(stage4_strand_group, stops_while_one_waits)
{
    begin(workers);
    int client = connect_speaker();
    client_ask(client, "one\nwait\nnext\n", "1 one\n");
    framework_await_asleep(&framework);
    end();
    cr_assert_eq(board.gone, 1);
    client_expect_end(client);
    client_close(client);
}
