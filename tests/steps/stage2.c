/*
 * The steps that lead to stage 2.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

/* ---- 2.1: ask each ---- */

Test(step2_1, twenty_silent_clients_cost_no_thread)
{
    step_expect_one_thread();
}

/* ---- 2.2: the first loop ---- */

/* A server that has nothing to do, with a client that has had its answer, sleeps. */
static void expect_sleep(struct server_process *server, const char *why)
{
    enum { WATCHED_MS = 300 };
    double busy = probe_busy_during(server->pid, WATCHED_MS);
    step_expect_alive(server); /* one that has ended does not sleep either */
    verdict(busy < 0.2, "%s, and the server keeps %.0f %% of a processor busy", why, 100 * busy);
}

Test(step2_2, a_server_with_nothing_to_do_sleeps)
{
    struct server_process server = step_start(0);
    client_connect_echo(&server, "hello\n");
    expect_sleep(&server, "nobody sends anything");
    step_stop(&server);
}

/* ---- 2.3: a struct each ---- */

static size_t take_all(int client, char *data, size_t size)
{
    size_t got;
    client_try_receive(client, data, size, test_now() + test_deadline_ms() / 1000.0, &got);
    return got;
}

/* Two clients, each in the middle of a line at the same time. */
Test(step2_3, each_client_is_in_the_middle_of_its_own_line)
{
    char answer[2][64] = {"", ""};
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    int bob = client_connect(&server);
    client_send_text(ann, "hel");
    step_await_read(&server, ann);
    client_send_text(bob, "good mor");
    step_await_read(&server, bob);
    client_send_text(ann, "lo\nunfinished");
    client_half_close(ann);
    client_send_text(bob, "ning\nunfinished");
    client_half_close(bob);
    take_all(ann, answer[0], sizeof(answer[0]) - 1);
    take_all(bob, answer[1], sizeof(answer[1]) - 1);
    verdict(strcmp(answer[0], "hello\n") == 0, "Ann's line came back as \"%s\"", answer[0]);
    verdict(strcmp(answer[1], "good morning\n") == 0, "Bob's line came back as \"%s\"", answer[1]);
    step_stop(&server);
}

/* ---- 2.4: short writes ---- */

/*
 * Bob sends as much as the server takes, and reads nothing. One that takes no more for a while may
 * have had no processor; one that takes no more though it has slept wants no more.
 */
static size_t push_lines(const struct server_process *server, int bob, const char *lines,
                         size_t length, size_t most)
{
    enum { QUIET_MS = 100 };
    size_t sent = 0;
    bool slept = false;
    while (sent < most) {
        size_t at = sent % length;
        size_t rest = length - at < most - sent ? length - at : most - sent;
        size_t more = client_push(bob, lines + at, rest, rest, QUIET_MS);
        sent += more;
        if (more == 0 && slept)
            break;
        slept = more < rest && probe_await_asleep(server->pid);
        if (more < rest && !slept)
            break;
    }
    return sent;
}

/*
 * Bob reads, with pauses at first, in which the server fills the socket again. Once may be just
 * behind an answer, and then nothing is left of one.
 */
static size_t take_answers(const struct server_process *server, int bob, char *answers,
                           size_t length)
{
    enum { PAUSES = 8, PIECES = 2 * PAUSES };
    size_t piece = length / PIECES;
    size_t got = 0;
    for (size_t i = 0; i < PAUSES && got == i * piece && probe_await_asleep(server->pid); i++)
        got += step_receive(bob, answers + got, piece);
    return got + step_receive(bob, answers + got, length - got);
}

/*
 * Bob sends 16 MB before he reads the first answer, or as much of it as the server takes. That is
 * more than all buffers of the kernel hold, so a server that goes on reading loses answers. When he
 * has read them he is answered as before.
 */
Test(step2_4, a_client_that_reads_late_gets_all_answers)
{
    enum { LINES = 4000, LINE = 3999, MORE = 25 * LINE };
    char prefix[LINE + 1] = "";
    size_t length, got;
    memset(prefix, '.', sizeof(prefix) - 9);
    char *lines = lines_numbered(prefix, LINES, &length);
    char *answers = malloc(length);
    cr_assert_not_null(answers);
    struct server_process server = step_start(0);
    int bob = client_connect(&server);
    size_t sent = push_lines(&server, bob, lines, length, length);
    size_t before = sent - sent % LINE;
    size_t end = length - before < MORE ? length : before + MORE;
    got = take_answers(&server, bob, answers, before);
    verdict(got == before && memcmp(answers, lines, got) == 0,
            "Bob sent %zu bytes and read later: of %zu bytes of answers he got %zu", sent, before,
            got);
    client_exchange(bob, lines + sent, end - sent, lines + before, end - before);
    client_close(bob);
    free(lines);
    free(answers);
    step_stop(&server);
}

Test(step2_4, an_end_behind_lines_comes_behind_their_answers)
{
    enum { LINES = 4000, LINE = 4000 };
    char prefix[LINE] = "";
    size_t length, got;
    memset(prefix, '.', LINE - 9);
    char *lines = lines_numbered(prefix, LINES, &length);
    char *answers = malloc(length);
    cr_assert_not_null(answers);
    struct server_process server = step_start(0);
    int bob = client_connect(&server);
    size_t sent = push_lines(&server, bob, lines, length, length);
    client_half_close(bob);
    sent -= sent % (length / LINES);
    got = take_answers(&server, bob, answers, sent);
    verdict(got == sent && memcmp(answers, lines, got) == 0,
            "Bob sent %zu bytes and said that this was all: of their answers he got %zu bytes",
            sent, got);
    client_close(bob);
    free(lines);
    free(answers);
    step_stop(&server);
}

Test(step2_4, keeps_answering_others_while_one_does_not_read)
{
    static char line[64000] = {[sizeof(line) - 1] = '\n'};
    struct server_process server = step_start(0);
    int ann = step_client(&server);
    int bob = client_connect(&server);
    push_lines(&server, bob, line, sizeof(line), 16000000);
    verdict(step_answers(ann, "hello\n"),
            "Bob does not read, and Ann waits for him: no answer in %d ms", step_patience_ms());
    step_stop(&server);
}

Test(step2_4, keeps_sleeping_while_one_does_not_read)
{
    static char line[64000] = {[sizeof(line) - 1] = '\n'};
    struct server_process server = step_start(0);
    int bob = client_connect(&server);
    push_lines(&server, bob, line, sizeof(line), 16000000);
    expect_sleep(&server, "Bob does not read");
    step_stop(&server);
}

/* Whoever reads on has to keep the answers somewhere. */
Test(step2_4, keeps_its_memory_bounded_while_one_does_not_read)
{
    enum { MOST = 64000000, BOUND_KIB = 16384 };
    static char line[64000] = {[sizeof(line) - 1] = '\n'};
    struct server_process server = step_start(0);
    int bob = step_client(&server);
    long before = probe_resident_kib(server.pid);
    size_t sent = push_lines(&server, bob, line, sizeof(line), MOST);
    long grown = probe_resident_kib(server.pid) - before;
    if (probe_sanitized())
        cr_skip("a sanitizer keeps what was freed");
    verdict(grown < BOUND_KIB,
            "Bob sent %zu bytes and reads nothing, and the server holds %ld KiB for him", sent,
            grown);
    step_stop(&server);
}

Test(step2_4, keeps_sleeping_with_nothing_to_do)
{
    struct server_process server = step_start(0);
    int ann = client_connect_echo(&server, "hello\n");
    client_echo(ann, "hello again\n");
    expect_sleep(&server, "all answers have gone out");
    step_stop(&server);
}

/* ---- 2.5: turns ---- */

enum { EVES = 10000, EVES_LINE = 6 };

/* How many of her answers Eve had when Ann, whose line came after all of Eve's, got hers. */
static int eves_when_ann_is_answered(void)
{
    static char lines[EVES * EVES_LINE], answers[sizeof lines];
    char answer[6];
    size_t got;
    int waiting = 0;
    for (int i = 0; i < EVES; i++)
        memcpy(lines + i * EVES_LINE, "hello\n", EVES_LINE);
    /* a bare step computes, a stage asks; what others write is taken to be bare */
    bool free_of_charge = step_is_known() && !step_is_bare();
    struct server_process server = step_start_with(free_of_charge ? "--work-us 20" : "");
    /* what waits for an acknowledgement is a segment, and on loopback that could be all answers */
    int eve =
        client_connect_with(&server, (struct client_buffers){.segment = CLIENT_ETHERNET_SEGMENT});
    int ann = client_connect_echo(&server, "hello\n");
    client_echo(eve,
                "hello\n"); /* epoll looks at her first, even if the server has not slept yet */
    step_freeze(&server);
    client_send(eve, lines, sizeof lines);
    client_await_delivered(eve);
    client_send_text(ann, "hello\n");
    client_await_delivered(ann);
    step_thaw(&server);
    client_try_receive(ann, answer, sizeof(answer), test_now() + 3 * test_deadline_ms() / 1000.0,
                       &got);
    ioctl(eve, FIONREAD, &waiting);
    verdict(got == sizeof(answer),
            "Ann got no answer when Eve had %d of her %d: she had to wait for all of them",
            waiting / EVES_LINE, EVES);
    got = step_receive(eve, answers, sizeof answers);
    cr_assert(got == sizeof answers && memcmp(answers, lines, got) == 0,
              "Eve got %zu of %zu bytes of answers", got, sizeof answers);
    step_stop(&server);
    return waiting / EVES_LINE;
}

/*
 * Answering Eve's 10,000 lines takes 200 ms, and they are more than a server holds back of its
 * answers. Where clients take turns, she still waits for most of them when Ann has her answer. On a
 * busy machine this process may look too late, now and then; a server without turns is late each
 * time.
 */
Test(step2_5, many_lines_of_one_client_do_not_keep_others_waiting)
{
    enum { TRIES = 3 };
    int had = EVES;
    for (int i = 0; i < TRIES && had >= EVES / 2; i++)
        had = eves_when_ann_is_answered();
    verdict(had < EVES / 2,
            "Ann got her answer when Eve had %d of her %d: she had to wait for all of them", had,
            EVES);
}

/* ---- 2.6: room for fifty ---- */

enum { DESCRIPTORS = 64, CROWD = 70 };

/* Seventy clients connect to a server with 64 descriptors; all but the last are silent then. */
Test(step2_6, a_new_client_is_served_however_many_are_silent)
{
    int clients[CROWD];
    struct server_process server = step_start(DESCRIPTORS);
    for (int i = 0; i < CROWD; i++)
        clients[i] = client_connect(&server);
    expect_sleep(&server, "seventy clients are connected and silent");
    verdict(step_answers(clients[CROWD - 1], "hello\n"),
            "the last of %d clients got no answer in %d ms", CROWD, step_patience_ms());
    step_stop(&server);
}

/* The one that has to go is the one that was silent longest, and nobody else. */
Test(step2_6, the_client_silent_longest_makes_room)
{
    enum { ROOM = 50 };
    int clients[ROOM + 1];
    char word[64]; /* the server may have one for the client that has to go */
    size_t got;
    struct server_process server = step_start(DESCRIPTORS);
    for (int i = 0; i < ROOM; i++) {
        clients[i] = client_connect_echo(&server, "hello\n");
    }
    client_echo(clients[0], "still here\n"); /* so clients[1] was silent longest */
    clients[ROOM] = client_connect_echo(&server, "hello\n");
    enum client_outcome outcome =
        client_try_receive(clients[1], word, sizeof(word), step_patience(), &got);
    verdict(outcome == CLIENT_ENDED, "one client more than there is room for, and nobody left");
    client_echo(clients[0], "still here\n");
    step_stop(&server);
}

/* ---- 2.7: the same round ---- */

/*
 * A client connects, and the one that has to make room for it has sent a line: both events are in
 * one round, the listener's first.
 */
Test(step2_7, a_client_closed_in_this_round_gets_no_event)
{
    enum { ROOM = 50 };
    int clients[ROOM + 1];
    struct server_process server = step_start(0);
    for (int i = 0; i < ROOM; i++) {
        clients[i] = client_connect_echo(&server, "hello\n");
    }
    step_freeze(&server);
    clients[ROOM] = client_connect(&server);
    client_send_text(clients[0], "I am back\n");
    client_await_delivered(clients[0]);
    step_thaw(&server);
    bool answered = step_answers(clients[ROOM], "hello\n");
    if (!answered)
        server_await_end(&server, step_patience());
    step_expect_alive(&server);
    verdict(answered, "the new client got no answer in %d ms", step_patience_ms());
    client_expect_gone(clients[0]);
    step_stop(&server);
}

/* ---- 2.9: stage 2 ---- */

Test(step2_9, a_client_that_says_nothing_is_disconnected_in_time)
{
    char word[64]; /* the server may have one */
    size_t got;
    struct server_process server = step_start_with("--idle-timeout 0.3");
    int ann = step_client(&server);
    enum client_outcome outcome =
        client_try_receive(ann, word, sizeof(word), step_patience(), &got);
    verdict(outcome == CLIENT_ENDED,
            "Ann may be silent for 300 ms, and after %d ms she is still connected",
            step_patience_ms());
    step_stop(&server);
}
