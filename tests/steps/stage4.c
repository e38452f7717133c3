/*
 * The steps that lead to stage 4. A question, a line with a question mark, takes seconds.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/mapped.h"
#include "support/probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
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

/* ---- 4.4: output from anywhere ---- */

/* Whether the client gets a line with this text in time. */
static bool hears(int client, const char *text)
{
    char line[4096] = "";
    size_t length = 0, got = 1;
    double end = step_patience();
    while (strstr(line, text) == NULL) {
        if (length + 1 == sizeof(line) || (length > 0 && line[length - 1] == '\n')) {
            length = 0;
            end = step_patience(); /* for each line: all of them take long on a busy machine */
        }
        client_try_receive(client, line + length, 1, end, &got);
        if (got == 0)
            return false;
        line[++length] = '\0';
    }
    return true;
}

static struct server_process start_chat(const char *options)
{
    struct server_process server;
    bool chats = server_try_start(&server, "--app chat %s", options);
    if (!chats)
        server_forget(&server);
    verdict(chats, "the server has no chat");
    return server;
}

static int join_chat(const struct server_process *server)
{
    int client = client_connect(server);
    cr_assert(hears(client, "welcome"), "nobody is welcome to the chat");
    return client;
}

Test(step4_4, what_one_client_says_another_one_hears)
{
    struct server_process server = start_chat("");
    int ann = join_chat(&server);
    int bob = join_chat(&server);
    client_send_text(ann, "good morning\n");
    verdict(hears(bob, "] good morning\n"), "Bob did not hear what Ann said");
    step_stop(&server);
}

/* Bob's socket is full, and only the dispatcher can wait until it has room. */
Test(step4_4, what_waits_for_a_listener_leaves_when_he_reads)
{
    enum { LINES = 2000 };
    struct server_process server = start_chat("--send-buffer 4096");
    int ann = join_chat(&server);
    int bob = client_connect_with(&server, (struct client_buffers){.receive = 4096});
    cr_assert(hears(bob, "welcome"));
    probe_await_asleep(server.pid); /* or Bob's first turn takes them along */
    for (int i = 0; i < LINES; i++)
        client_send_text(ann, "I have so much to say that Bob's socket will be full of it\n");
    client_send_text(ann, "good night\n");
    step_await_read(&server, ann);
    probe_await_asleep(server.pid); /* or Bob reads while Ann's lines still take his lines along */
    verdict(hears(bob, "] good night\n"), "Bob did not hear what had waited for him");
    step_stop(&server);
}

/* ---- 4.5: in one call ---- */

/*
 * The server counts the calls of a connection when that has ended. A busy machine may need more
 * than one for each listener, and a chat may say who comes and goes.
 */
Test(step4_5, lines_that_are_pasted_cost_each_listener_few_calls)
{
    enum { LISTENERS = 10, LINES = 64, FEW = LISTENERS * LINES / 2 };
    char lines[16 * LINES] = "";
    int listeners[LISTENERS];
    struct server_process server = start_chat("");
    int ann = join_chat(&server);
    for (int i = 0; i < LISTENERS; i++)
        listeners[i] = join_chat(&server);
    for (int i = 1; i < LINES; i++)
        strcat(lines, "good morning\n");
    strcat(lines, "good night\n");
    client_send_text(ann, lines);
    for (int i = 0; i < LISTENERS; i++) {
        cr_assert(hears(listeners[i], "] good night\n"), "a listener did not hear all");
        close(listeners[i]);
    }
    server_await_counter(&server, "closed", LISTENERS);
    long long calls = server_counter(&server, "writes");
    verdict(calls < FEW, "%d lines for %d listeners have cost %lld calls", LINES, LISTENERS, calls);
    step_stop(&server);
}

/* ---- 4.6: a connection of ours ---- */

Test(step4_6, what_a_client_says_another_server_answers)
{
    struct server_process relay;
    struct server_process server = step_start_with("");
    bool relays = server_try_start(&relay, "--app relay --to 127.0.0.1:%d", server.port);
    if (!relays)
        server_forget(&relay);
    verdict(relays, "the server does not connect to others");
    int ann = client_connect(&relay);
    int bob = client_connect(&relay);
    for (int i = 0; i < 3; i++) {
        verdict(step_answers(ann, "good morning\n") && step_answers(bob, "hello\n"),
                "what the other server has answered did not come back");
    }
    server_await_counter(&server, "accepted", 2);
    client_half_close(ann);
    client_expect_end(ann);
    step_stop(&relay);
    step_stop(&server);
}

/* ---- 4.7: stage 4 ---- */

enum { SAID = 500, SAID_SIZE = 8, HEARD_SIZE = 2 * SAID * (SAID_SIZE + 64), ROUNDS = 100 };
enum { ANN, BOB, CARL, CARLA = CARL + 200, CLIENTS, TURNS = 600 };

/* One who hears the others: what they say, without what the chat itself says. */
struct listener {
    int client;
    int talkers; /* so many have yet to say their last line, which is an exclamation mark */
    int turns;   /* so often somebody else spoke than before, in all rounds */
    size_t last; /* where the line before begins */
    size_t length;
    char text[HEARD_SIZE];
};

/* The last line in the text is whole: keeps it if somebody has said it. */
static void keep_line(struct listener *listener)
{
    size_t begin = listener->length - 1;
    while (begin > 0 && listener->text[begin - 1] != '\n')
        begin--;
    if (listener->text[begin] != '[') {
        listener->length = begin;
        return;
    }
    size_t name = strcspn(&listener->text[begin], "]") + 1;
    listener->turns += memcmp(&listener->text[begin], &listener->text[listener->last], name) != 0;
    listener->last = begin;
    if (listener->text[listener->length - 2] == '!')
        listener->talkers--;
}

static void hear_some(struct listener *listener)
{
    char bytes[65536];
    ssize_t got = recv(listener->client, bytes, sizeof(bytes), MSG_DONTWAIT);
    cr_assert_gt(got, 0, "a listener was disconnected");
    for (ssize_t i = 0; i < got && listener->length < HEARD_SIZE; i++) {
        listener->text[listener->length++] = bytes[i];
        if (bytes[i] == '\n')
            keep_line(listener);
    }
}

/* All at once, because a talker that does not read is not read either. */
static void hear_all(struct listener listeners[CLIENTS])
{
    struct pollfd waiting[CLIENTS];
    bool hears = true;
    for (int i = 0; i < CLIENTS; i++)
        waiting[i] = (struct pollfd){.fd = listeners[i].client, .events = POLLIN};
    while (hears) {
        hears = false;
        cr_assert_gt(poll(waiting, CLIENTS, test_deadline_ms()), 0, "a listener did not hear all");
        for (int i = 0; i < CLIENTS; i++) {
            if (waiting[i].revents != 0)
                hear_some(&listeners[i]);
            hears = hears || listeners[i].talkers > 0;
        }
    }
}

/*
 * One worker sends what Ann says, and another one what Bob says, to Carl first and to Carla last.
 * Without an order they overtake each other on this way sooner or later, if there are enough of
 * those who hear it in between, and they take turns often enough: one processor is the other
 * worker's when the first one has lost it on its way.
 */
Test(step4_7, what_is_said_has_one_order)
{
    struct listener *listeners = mapped(CLIENTS * sizeof(struct listener));
    static char lines[SAID * SAID_SIZE];
    struct server_process server = start_chat("");
    char *end = lines;
    for (int i = 1; i < SAID; i++)
        end += sprintf(end, "%d\n", i);
    strcpy(end, "!\n");
    for (int i = 0; i < CLIENTS; i++)
        listeners[i].client = join_chat(&server);
    for (int round = 0; round < ROUNDS && listeners[CARL].turns < TURNS; round++) {
        for (int i = 0; i < CLIENTS; i++) {
            listeners[i].talkers = i == ANN || i == BOB ? 1 : 2;
            listeners[i].length = listeners[i].last = 0;
        }
        client_send_text(listeners[ANN].client, lines);
        client_send_text(listeners[BOB].client, lines);
        hear_all(listeners);
        verdict(listeners[CARL].length == listeners[CARLA].length &&
                    memcmp(listeners[CARL].text, listeners[CARLA].text, listeners[CARL].length) ==
                        0,
                "Carl and Carla did not hear the same, in round %d", round);
    }
    step_stop(&server);
}
