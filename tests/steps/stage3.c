/*
 * The steps that lead to stage 3. A question, a line with a question mark, takes seconds.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <signal.h>
#include <string.h>

#define QUESTIONS_ARE_QUICK "--block-ms 1 --cost-for ?"
#define QUESTIONS_ARE_SLOW  "--block-ms 3000 --cost-for ?"

/* ---- 3.1: one worker ---- */

/* The loop gets Carl's question first, and Ann's line after it. */
Test(step3_1, a_slow_question_keeps_nobody_else_waiting)
{
    struct server_process server = step_start_with(QUESTIONS_ARE_SLOW);
    int carl = client_connect(&server); /* nobody has asked before, so the worker is idle */
    int ann = client_connect(&server);
    step_ask(carl, "what is the answer?\n");
    client_echo(ann, "hello\n");
    verdict(!step_has_answer(carl), "Ann got her answer only after Carl, who asks slow questions");
    client_expect_text(carl, "what is the answer?\n");
    step_stop(&server);
}

Test(step3_1, keeps_answering_many_questions)
{
    step_expect_rounds(QUESTIONS_ARE_QUICK, 4, 60, "what is the answer?\n", false);
}

/* Carl's second line comes while the worker has his question. */
Test(step3_1, keeps_the_order_of_a_clients_lines)
{
    static const char both[] = "what is the answer?\nhello\n";
    char answers[sizeof(both)] = "";
    size_t got;
    struct server_process server = step_start_with("--block-ms 300 --cost-for ?");
    int carl = step_client(&server);
    step_ask(carl, "what is the answer?\n");
    step_await_read(&server, carl);
    step_ask(carl, "hello\n");
    client_try_receive(carl, answers, sizeof(both) - 1, step_patience(), &got);
    if (got < sizeof(both) - 1)
        step_expect_alive(&server);
    verdict(strcmp(answers, both) == 0,
            "Carl asked, and sent another line while the worker had his question; the answers were "
            "\"%s\"",
            answers);
    step_stop(&server);
}

/* The reactor leaves a client that the worker has alone, its clocks too. */
Test(step3_1, keeps_a_client_whose_question_takes_longer_than_it_may_be_silent)
{
    char answer[64] = "";
    size_t got;
    struct server_process server =
        step_start_with("--idle-timeout 0.2 --block-ms 600 --cost-for ?");
    step_freeze(&server); /* else he may be cut before this process comes to ask */
    int carl = client_connect_send(&server, "what is the answer?\n");
    step_thaw(&server);
    client_try_receive(carl, answer, 20, step_patience(), &got);
    step_expect_alive(&server);
    verdict(got == 20,
            "Carl's time to be silent was over while the worker had his question: his answer was "
            "\"%s\"",
            answer);
    step_stop(&server);
}

Test(step3_1, keeps_answering_what_has_begun_when_it_is_told_to_stop)
{
    char answer[64] = "";
    size_t got;
    struct server_process server = step_start_with("--block-ms 600 --cost-for ?");
    int carl = step_client(&server);
    step_ask(carl, "what is the answer?\n");
    step_await_read(&server, carl);
    server_signal(&server, SIGTERM);
    client_try_receive(carl, answer, 20, step_patience(), &got);
    verdict(
        got == 20,
        "the server was told to stop while the worker had Carl's question: his answer was \"%s\"",
        answer);
    client_close(carl);
    step_stop_told(&server);
}

/* ---- 3.2: a pool ---- */

Test(step3_2, two_slow_questions_keep_nobody_else_waiting)
{
    struct server_process server = step_start_with(QUESTIONS_ARE_SLOW);
    int carl = step_client(&server);
    int carla = step_client(&server);
    int ann = step_client(&server);
    step_ask(carl, "what is the answer?\n");
    step_ask(carla, "and what was the question?\n");
    client_echo(ann, "hello again\n");
    verdict(!step_has_answer(carl) && !step_has_answer(carla),
            "Ann got her answer only after two others, who ask slow questions");
    client_expect_text(carl, "what is the answer?\n");
    client_expect_text(carla, "and what was the question?\n");
    step_stop(&server);
}

/* Four workers have begun before one of them is done. */
Test(step3_2, four_questions_are_answered_at_the_same_time)
{
    enum { CARLS = 4 };
    int carls[CARLS];
    struct server_process server = step_start_with(QUESTIONS_ARE_SLOW);
    for (int i = 0; i < CARLS; i++)
        carls[i] = client_connect(&server);
    for (int i = 0; i < CARLS; i++)
        step_ask(carls[i], "what is the answer?\n");
    double end = step_patience();
    long long begun;
    bool answered = false;
    do {
        begun = server_counter(&server, "messages");
        for (int i = 0; i < CARLS; i++)
            answered = answered || step_has_answer(carls[i]);
    } while (begun < CARLS && !answered && test_now() < end);
    verdict(begun == CARLS && !answered,
            "%lld of %d questions were begun%s: some waited for others", begun, CARLS,
            answered ? " when one was answered" : "");
    for (int i = 0; i < CARLS; i++)
        client_expect_text(carls[i], "what is the answer?\n");
    step_stop(&server);
}

Test(step3_2, keeps_answering_many_questions)
{
    step_expect_rounds(QUESTIONS_ARE_QUICK, 12, 40, "what is the answer?\n", false);
}

/* ---- 3.3: the worker resumes ---- */

Test(step3_3, an_answer_costs_no_wakeup)
{
    enum { CLIENTS = 10 };
    struct server_process server = step_start_with("");
    bool answered = true;
    for (int i = 0; i < CLIENTS && answered; i++) {
        int client = client_connect(&server);
        answered = client_try_echo(client, "hello\n", step_patience());
        client_close(client);
    }
    step_expect_alive(&server);
    verdict(answered, "a client got no answer in %d ms: do both threads look at it under one lock?",
            step_patience_ms());
    long long wakeups = server_counter(&server, "wakeups_asked");
    verdict(wakeups == 0, "%d answers have cost %lld wakeups", CLIENTS, wakeups);
    step_stop(&server);
}

/* ---- 3.4: the guard ---- */

/*
 * Carl's second line arrives while a worker has his first, so the reactor has seen it and sleeps
 * again when the worker comes back. No other client does anything.
 */
Test(step3_4, the_next_line_does_not_wait_for_another_client)
{
    struct server_process server = step_start_with(QUESTIONS_ARE_SLOW);
    int carl = client_connect(&server);
    step_ask(carl, "what is the answer?\n");
    server_await_counter(&server, "messages", 1); /* a worker has it */
    step_ask(carl, "hello\n");
    client_expect_text(carl, "what is the answer?\n");
    char answer[6];
    size_t got;
    client_try_receive(carl, answer, sizeof(answer), step_patience(), &got);
    verdict(got == sizeof(answer), "Carl's second line was not answered within %d ms",
            step_patience_ms());
    step_stop(&server);
}

/* On one processor the reactor runs as soon as it is woken, and the worker only when it sleeps
 * again. */
Test(step3_4, holds_on_one_processor)
{
    step_expect_rounds("", 1, 2000, "hello\n", true);
}

Test(step3_4, holds_for_many_clients)
{
    step_expect_rounds("", 12, 200, "hello\n", false);
}

Test(step3_4, keeps_sleeping_with_nothing_to_do)
{
    struct server_process server = step_start_with("");
    step_client(&server);
    double busy = probe_busy_during(server.pid, 300);
    step_expect_alive(&server);
    verdict(busy < 0.1, "nobody sends anything, and the server keeps %.0f %% of a processor busy",
            100 * busy);
    step_stop(&server);
}

/* ---- 3.5: a full queue ---- */

enum { CROWD = 30 };

/*
 * All of them ask before the server sees the first question, so they come in one round; and each is
 * accepted by then, and no worker still has him, or the last could pass those before.
 */
static void crowd_asks(const struct server_process *server, int clients[CROWD])
{
    for (int i = 0; i < CROWD; i++)
        clients[i] = step_client(server);
    cr_assert(probe_await_asleep(server->pid), "the server does not rest");
    step_freeze(server);
    for (int i = 0; i < CROWD; i++)
        step_ask(clients[i], "what is the answer?\n");
    step_thaw(server);
}

/* Four workers and twenty places: for the last one there is neither. */
Test(step3_5, who_finds_no_place_hears_so_at_once)
{
    static const char busy[] = "ERR server busy\n";
    int clients[CROWD];
    char answer[64] = "";
    size_t got;
    struct server_process server = step_start_with(QUESTIONS_ARE_SLOW " --drain-timeout 0.2");
    crowd_asks(&server, clients);
    client_try_receive(clients[CROWD - 1], answer, sizeof(busy) - 1, step_patience(), &got);
    verdict(strcmp(answer, busy) == 0,
            "Carl is the %dth who asks, and all that he heard was \"%s\"", CROWD, answer);
    step_stop(&server);
}

/* It is refused, but it stays, and is answered when there is room. */
Test(step3_5, keeps_who_found_no_place)
{
    int clients[CROWD];
    struct server_process server = step_start_with(QUESTIONS_ARE_QUICK);
    crowd_asks(&server, clients);
    for (int i = 0; i < CROWD; i++) {
        char answer = 0;
        size_t got = 1;
        while (answer != '\n' && got == 1)
            client_try_receive(clients[i], &answer, 1, step_patience(), &got);
        verdict(got == 1, "the %dth who asked heard nothing", i + 1);
    }
    client_echo(clients[CROWD - 1], "hello\n");
    step_stop(&server);
}

/* ---- 3.6: on demand ---- */

Test(step3_6, a_server_that_nobody_asks_has_no_workers)
{
    struct server_process server = step_start_with("");
    int ann = client_connect_send(&server, "hel");
    client_await_delivered(ann);
    long threads = probe_own_threads(server.pid);
    verdict(threads == 1, "nobody has asked anything, and there are %ld threads", threads);
    client_ask(ann, "lo\n", "hello\n");
    step_stop(&server);
}

/* ---- 3.7: whose choice ---- */

Test(step3_7, who_is_willing_to_wait_is_answered)
{
    static const char wanted[] = "what is the answer?\n";
    int clients[CROWD];
    char answer[64] = "";
    size_t got;
    struct server_process server = step_start_with("--block-ms 100 --cost-for ?");
    crowd_asks(&server, clients);
    client_try_receive(clients[CROWD - 1], answer, sizeof(wanted) - 1, step_patience(), &got);
    verdict(strcmp(answer, wanted) == 0,
            "the queue was to have no limit, and the %dth client heard \"%s\"", CROWD, answer);
    step_stop(&server);
}

/* ---- 3.8: a worker sleeps ---- */

/*
 * Whether a client that has said this is answered in the end. If it hears that there is no place it
 * says it again: a worker that is done may be late to sleep.
 */
static bool is_answered(int client, const char *text)
{
    char answer[64] = "";
    double end = step_patience();
    bool waits = true;
    while (waits && test_now() < end) {
        size_t got = 1, length = 0;
        memset(answer, 0, sizeof(answer));
        while (got == 1 && strchr(answer, '\n') == NULL && length < sizeof(answer) - 1) {
            client_try_receive(client, answer + length, 1, end, &got);
            length += got;
        }
        waits = strcmp(answer, "ERR server busy\n") == 0;
        if (waits)
            client_send_text(client, text);
    }
    return strcmp(answer, text) == 0;
}

/* The worker begins with her first line or, from step 4.3 on, by greeting her. */
Test(step3_8, a_worker_that_sleeps_takes_what_no_queue_holds)
{
    struct server_process server = step_start_with("--workers 1 --queue direct");
    int ann = client_connect_send(&server, "hello\n");
    cr_assert(is_answered(ann, "hello\n"));
    client_send_text(ann, "hello again\n");
    verdict(is_answered(ann, "hello again\n"),
            "the one worker has nothing to do, and Ann hears \"ERR server busy\"");
    step_stop(&server);
}

Test(step3_8, a_worker_above_the_core_ends_when_it_is_not_called)
{
    enum { CARLS = 4 };
    int carls[CARLS];
    struct server_process server = step_start_with(
        "--workers 1 --max-workers 4 --queue bounded:1 --keep-alive 0.1 --block-ms 300");
    long one_worker = probe_own_threads(server.pid) + 1;
    for (int i = 0; i < CARLS; i++)
        carls[i] = client_connect(&server); /* from step 4.3 on a worker greets them */
    for (int i = 0; i < CARLS; i++)
        client_send_text(carls[i], "what is the answer?\n");
    for (int i = 0; i < CARLS; i++)
        cr_assert(is_answered(carls[i], "what is the answer?\n"), "Carl is not answered");
    double end = step_patience();
    long threads;
    while ((threads = probe_own_threads(server.pid)) > one_worker && test_now() < end)
        test_pause_ms(10);
    verdict(threads <= one_worker, "nobody asks any more, and there are still %ld threads",
            threads);
    step_stop(&server);
}

/* ---- 3.9: stage 3 ---- */

Test(step3_9, the_counters_say_how_many_tasks_there_were)
{
    struct server_process server = step_start_with("");
    client_close(step_client(&server));
    double end = step_patience();
    long long tasks;
    while ((tasks = server_counter(&server, "tasks_completed")) < 1 && test_now() < end)
        test_pause_ms(10); /* the worker counts behind its answer */
    verdict(tasks >= 1, "a worker has answered a line, and the counters say tasks_completed=%lld",
            tasks);
    step_stop(&server);
}
