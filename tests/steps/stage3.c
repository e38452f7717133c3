/*
 * The steps that lead to stage 3. A question, a line with a question mark, takes seconds.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#define QUESTIONS_ARE_SLOW "--block-ms 3000 --cost-for ?"

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
    client_close(ann);
    client_close(carl);
    step_stop(&server);
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
    client_close(ann);
    client_close(carla);
    client_close(carl);
    step_stop(&server);
}

/* ---- 3.3: the worker resumes ---- */

Test(step3_3, an_answer_costs_no_wakeup)
{
    enum { CLIENTS = 10 };
    struct server_process server = step_start_with("");
    for (int i = 0; i < CLIENTS; i++)
        client_close(step_client(&server));
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
    client_close(carl);
    step_stop(&server);
}

/* ---- 3.5: stage 3 ---- */

Test(step3_5, a_server_that_nobody_asks_has_no_workers)
{
    struct server_process server = step_start_with("");
    int ann = client_connect(&server);
    client_send_text(ann, "hel");
    client_await_delivered(ann);
    long threads = probe_own_threads(server.pid);
    verdict(threads == 1, "nobody has asked anything, and there are %ld threads", threads);
    client_send_text(ann, "lo\n");
    client_expect_text(ann, "hello\n");
    client_close(ann);
    step_stop(&server);
}
