/*
 * The steps that lead to stage 4. A question, a line with a question mark, takes seconds.
 */
#include "step.h"

#include "support/deadline.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- 4.1: the acceptor's thread ---- */

/*
 * Carl's question is with the only worker, and Carla's with the dispatcher itself. Ann is one
 * client too many, and can be told so by somebody who has time.
 */
Test(step4_1, a_client_too_many_is_turned_away_while_the_dispatcher_is_busy)
{
    char text[64];
    size_t got;
    struct server_process server =
        step_start_with("--workers 1 --queue direct --saturation caller-runs --max-connections 2 "
                        "--block-ms 3000 --cost-for ?");
    int carl = step_client(&server);
    int carla = step_client(&server);
    step_ask(carl, "what is the answer?\n");
    step_ask(carla, "and what was the question?\n");
    int ann = client_connect(&server);
    client_try_receive(ann, text, sizeof(text), test_now() + test_deadline_ms() / 1000.0, &got);
    cr_assert_gt(got, 0, "Ann was not even turned away");
    verdict(!step_has_answer(carl) && !step_has_answer(carla),
            "Ann was turned away only when somebody had an answer");
    client_expect_text(carl, "what is the answer?\n");
    client_expect_text(carla, "and what was the question?\n");
    step_stop(&server);
}

/* ---- 4.2: status changes ---- */

/*
 * Ten workers finish while the dispatcher itself is busy: with Carla's question, which comes half a
 * second after theirs.
 */
Test(step4_2, ten_answers_cost_few_wakeups)
{
    enum { CARLS = 10, MANY = CARLS / 2, LATER_MS = 500 };
    int carls[CARLS];
    struct server_process server =
        step_start_with("--workers 10 --queue direct --saturation caller-runs --block-ms 3000 "
                        "--cost-for ?");
    for (int i = 0; i < CARLS; i++)
        carls[i] = step_client(&server);
    int carla = step_client(&server);
    long long answers = server_counter(&server, "tasks_completed");
    long long questions = server_counter(&server, "messages") + CARLS;
    for (int i = 0; i < CARLS; i++)
        step_ask(carls[i], "what is the answer?\n");
    server_await_counter(&server, "messages", questions); /* the workers have them */
    long long wakeups = server_counter(&server, "wakeups_asked");
    test_pause_ms(LATER_MS); /* or the dispatcher might be free before the last of the workers */
    step_ask(carla, "and what was the question?\n");
    client_expect_text(carla, "and what was the question?\n");
    server_await_counter(&server, "tasks_completed", answers + CARLS);
    wakeups = server_counter(&server, "wakeups_asked") - wakeups;
    verdict(wakeups < MANY, "%d answers have cost %lld wakeups", CARLS, wakeups);
    step_stop(&server);
}

Test(step4_2, keeps_answering_many_clients)
{
    step_expect_rounds("", 12, 200, "hello\n", false);
}

Test(step4_2, keeps_answering_on_one_processor)
{
    step_expect_rounds("", 3, 500, "hello\n", true);
}

/* ---- 4.3: futures ---- */

/* A client from 127.0.0.2. */
static int connect_bob(const struct server_process *server)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&there, sizeof(there)), 0);
    return fd;
}

/* The server greets each client before anything else, so the greetings tell whose turn it was. */
Test(step4_3, ann_is_greeted_while_bobs_name_is_looked_up)
{
    struct server_process server = step_start_with("--app lookup --workers 2");
    int bob = connect_bob(&server);
    server_await_counter(&server, "accepted", 1);
    int ann = client_connect(&server);
    client_expect_text(ann, "hello Ann\n");
    verdict(!step_has_answer(bob), "Ann was greeted only when Bob's name was known");
    client_expect_text(bob, "hello Bob\n");
    close(bob);
    step_stop(&server);
}

/* ---- 4.4: stage 4 ---- */

/* Whether the client gets this text in time. */
static bool hears(int client, const char *text)
{
    char heard[4096] = "";
    size_t length = 0, got = 1;
    double end = step_patience();
    while (got == 1 && length + 1 < sizeof(heard) && strstr(heard, text) == NULL) {
        client_try_receive(client, heard + length, 1, end, &got);
        length += got;
        heard[length] = '\0';
    }
    return strstr(heard, text) != NULL;
}

Test(step4_4, what_one_client_says_another_one_hears)
{
    struct server_process server;
    bool chats = server_try_start(&server, "--app chat");
    if (!chats)
        server_forget(&server);
    verdict(chats, "the server has no chat");
    int ann = client_connect(&server);
    int bob = client_connect(&server);
    cr_assert(hears(ann, "welcome") && hears(bob, "welcome"));
    client_send_text(ann, "good morning\n");
    verdict(hears(bob, "] good morning\n"), "Bob did not hear what Ann said");
    step_stop(&server);
}
