/*
 * The steps that lead to stage 1.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/* ---- 1.1: one client ---- */

Test(step1_1, one_client_after_the_other_is_answered)
{
    struct server_process server = step_start(0);
    for (int i = 0; i < 3; i++) {
        int ann = client_connect_echo(&server, "hello\n");
        client_echo(ann, "and good bye\n");
        client_half_close(ann);
        client_expect_end(ann);
        client_close(ann);
    }
    step_stop(&server);
}

/* ---- 1.2: a thread each ---- */

/* Ann is connected and silent; Bob wants an answer. */
Test(step1_2, a_silent_client_keeps_nobody_waiting)
{
    struct server_process server = step_start(0);
    client_connect_echo(&server, "I am thinking\n");
    int bob = client_connect(&server);
    verdict(step_answers(bob, "hello\n"),
            "Bob got no answer in %d ms, because Ann is connected and says nothing",
            step_patience_ms());
    step_stop(&server);
}

static const char EVES_WORDS[] = "I am leaving, and it does not matter to me what becomes of the "
                                 "answers to these lines, of which "
                                 "I send so many that your first send is not your last one, each "
                                 "of them long enough for a chain";

/*
 * Eve sends and leaves before she is served. The server reads what she has sent, and its second
 * send finds nobody: with plain send(2), that is a SIGPIPE. Ann, who came first, holds Eve's
 * connection back where there is one thread, and the others do not run until Eve has left. Her
 * lines are so long that the answers of one turn are in several pieces, which is a writev(2).
 */
Test(step1_2, a_client_that_leaves_early_hurts_nobody_else)
{
    struct server_process server = step_start(0);
    long descriptors = probe_descriptors(server.pid);
    int ann = client_connect_echo(&server, "I am thinking\n");
    size_t length;
    char *lines = lines_numbered(EVES_WORDS, 100, &length);
    step_freeze(&server);
    int eve = client_connect(&server);
    client_send(eve, lines, length);
    client_await_delivered(eve);
    client_close(eve);
    step_thaw(&server);
    client_close(ann);
    free(lines);

    int bob = client_try_connect(&server, (struct client_buffers){0}); /* it may be gone already */
    bool answered = bob != -1 && step_answers(bob, "hello\n");
    if (answered)
        step_await_done(&server, descriptors + 1); /* Bob's; another thread serves Eve */
    else
        server_await_end(&server, step_patience());
    step_expect_alive(&server);
    verdict(answered, "Bob got no answer in %d ms, because Eve left early", step_patience_ms());
    step_stop(&server);
}

/* ---- 1.3: lines ---- */

/* What comes before the end of stream, at most so many bytes. */
static size_t take_all(int client, char *data, size_t size)
{
    size_t got;
    client_try_receive(client, data, size, test_now() + test_deadline_ms() / 1000.0, &got);
    return got;
}

/* "hel" is no line; a server that answers lines has nothing to say to it. */
Test(step1_3, half_a_line_is_not_answered)
{
    char answer[64] = "";
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, "hel");
    client_half_close(ann);
    size_t got = take_all(ann, answer, sizeof(answer) - 1);
    verdict(got == 0, "Ann sent half a line, \"hel\", and got the answer \"%s\"", answer);
    step_stop(&server);
}

/* Three pieces, with the rest of one line and half of the next in each that follows. */
Test(step1_3, a_line_may_come_in_pieces)
{
    char answer[64] = "";
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, "hel");
    step_await_read(&server, ann);
    client_send_text(ann, "lo\ngood");
    step_await_read(&server, ann);
    client_send_text(ann, " morning\nand");
    client_half_close(ann);
    take_all(ann, answer, sizeof(answer) - 1);
    verdict(strcmp(answer, "hello\ngood morning\n") == 0,
            "Ann sent \"hel\", \"lo\\ngood\" and \" morning\\nand\", and got \"%s\"", answer);
    step_stop(&server);
}

/* ---- 1.4: the connection ---- */

/* What the client hears first, at most as long as what is wanted. */
static void expect_word(int client, const char *wanted, const char *why)
{
    char answer[64] = "";
    size_t length = strlen(wanted), got;
    client_try_receive(client, answer, length, step_patience(), &got);
    verdict(got == length && strcmp(answer, wanted) == 0, "%s, and all that she heard was \"%s\"",
            why, answer);
}

/* A client whose line is too long learns why the connection ends. */
static void expect_word_for_a_long_line(void)
{
    size_t length;
    char *line = line_of(70000, "", &length);
    struct server_process server = step_start(0);
    int eve = client_connect(&server);
    client_try_send(eve, line, length, step_patience());
    expect_word(eve, "ERR line too long\n", "Eve's line was too long");
    client_close(eve);
    free(line);
    step_stop(&server);
}

Test(step1_4, a_client_learns_that_its_line_is_too_long)
{
    expect_word_for_a_long_line();
}

Test(step2_8, a_client_learns_that_its_line_is_too_long)
{
    expect_word_for_a_long_line();
}

/* A server with 64 descriptors has none for the seventieth client. */
Test(step1_4, a_client_learns_that_there_is_no_room)
{
    enum { DESCRIPTORS = 64, CROWD = 70 };
    int clients[CROWD];
    struct server_process server = step_start(DESCRIPTORS);
    for (int i = 0; i < CROWD; i++)
        clients[i] = client_connect(&server);
    expect_word(clients[CROWD - 1], "ERR server busy\n", "Ann came when no descriptor was left");
    step_stop(&server);
}

/* With room for one, and others that wait for it, each that leaves has to be counted out. */
Test(step1_4, keeps_the_place_of_a_client_that_has_left_for_the_next_one)
{
    struct server_process server = step_start_with("--max-connections 1 --overload wait");
    for (int i = 0; i < 3; i++) {
        int client = client_connect(&server);
        cr_assert(step_answers(client, "hello\n"), "client %d waits for a place", i);
        client_half_close(client);
        client_expect_end(client);
        client_close(client);
    }
    step_stop(&server);
}

/* ---- 1.5: stage 1 ---- */

/*
 * Told to stop, a server answers what has arrived, although that takes several turns, and 200 to
 * 400 ms: a clock of milliseconds may end a wait of 2 ms after one. Nor are answers cut short. And
 * it ends when nobody is left, although it would wait for ten minutes for one who does not leave.
 */
static void expect_orderly_end(void)
{
    enum { LINES = 200, MS_EACH = 1 };
    char answers[LINES * sizeof("line 000000\n")];
    size_t length;
    char *lines = lines_numbered("line", LINES, &length);
    struct server_process server = step_start_with("--block-ms 2 --drain-timeout 600");
    int carl = step_client(&server);
    step_freeze(&server);
    step_ask(carl, lines);
    server_signal(&server, SIGTERM);
    double begin = test_now();
    step_thaw(&server);
    size_t got = take_all(carl, answers, sizeof(answers));
    double took = test_now() - begin;
    verdict(got == length && memcmp(answers, lines, length) == 0,
            "told to stop, the server had %zu bytes to answer, and answered %zu", length, got);
    cr_assert_geq(took, LINES * MS_EACH / 1000.0, "%d answers were cut short: they took %.3f s",
                  LINES, took);
    int status = server_await_end(&server, test_now() + test_deadline_ms() / 1000.0);
    verdict(WIFEXITED(status) && WEXITSTATUS(status) == 0,
            "told to stop, the server was killed by signal %d", WTERMSIG(status));
    server_forget(&server);
    client_close(carl);
    free(lines);
}

Test(step1_5, a_server_that_is_told_to_stop_answers_what_has_arrived)
{
    expect_orderly_end();
}

Test(stepC_20, what_has_arrived_is_answered_before_the_end)
{
    expect_orderly_end();
}

Test(step2_9, a_server_that_is_told_to_stop_answers_what_has_arrived)
{
    expect_orderly_end();
}
