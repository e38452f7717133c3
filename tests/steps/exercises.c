/*
 * The exercises on the pages of the steps. Each test fails by a verdict on the step's own program,
 * where nobody has done the exercise, and passes on our solution, exercise.patch beside the page;
 * but one whose name begins with keeps_ passes on both, and is there for solutions that are wrong.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(exercise1_1, .timeout = 120);
TestSuite(exercise1_3, .timeout = 120);
TestSuite(exercise2_3, .timeout = 120);
TestSuite(exercise2_4, .timeout = 120);
TestSuite(exercise2_5, .timeout = 120);
TestSuite(exercise2_6, .timeout = 120);
TestSuite(exercise5_2, .timeout = 120);
TestSuite(exercise5_3, .timeout = 120);
TestSuite(exercise5_4, .timeout = 120);

/* What comes before the end of stream, at most so many bytes, as a string. */
static size_t take_all(int client, char *data, size_t size)
{
    size_t got;
    client_try_receive(client, data, size - 1, test_now() + test_deadline_ms() / 1000.0, &got);
    data[got] = '\0';
    return got;
}

/* Sends text, takes what comes until the end, and compares. */
static void expect_answers(const char *sent, const char *wanted)
{
    char answers[256];
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, sent);
    client_half_close(ann);
    take_all(ann, answers, sizeof(answers));
    verdict(strcmp(answers, wanted) == 0, "Ann sent \"%s\" and got \"%s\"", sent, answers);
    step_stop(&server);
}

/* ---- 1.1: capital letters ---- */

Test(exercise1_1, capital_letters)
{
    expect_answers("Hello, 1st World\n", "HELLO, 1ST WORLD\n");
}

/* Bytes above 127 are no letters here, and they are negative where char has a sign. */
Test(exercise1_1, keeps_bytes_that_are_no_letters)
{
    char bytes[129], answers[130];
    for (int i = 0; i < 128; i++)
        bytes[i] = (char)(128 + i);
    bytes[128] = '\0';
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, bytes);
    client_half_close(ann);
    take_all(ann, answers, sizeof(answers));
    verdict(strcmp(answers, bytes) == 0, "a byte above 127 came back as another one");
    step_stop(&server);
}

/* ---- 1.3: ping ---- */

Test(exercise1_3, ping_is_answered)
{
    expect_answers("hello\nping\npinged\n", "hello\nok\npinged\n");
}

Test(exercise1_3, ping_may_end_in_two_bytes)
{
    expect_answers("ping\r\nhello\r\n\r\n", "ok\nhello\r\n\r\n");
}

/* The two bytes need not arrive together. */
Test(exercise1_3, ping_may_come_in_pieces)
{
    static const char *const pieces[] = {"pi", "ng\r", "\nping"};
    char answers[64];
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    for (int i = 0; i < 3; i++) {
        client_send_text(ann, pieces[i]);
        client_await_delivered(ann);
    }
    client_half_close(ann);
    take_all(ann, answers, sizeof(answers));
    verdict(strcmp(answers, "ok\n") == 0, "a ping in three pieces, and half of one, got \"%s\"",
            answers);
    step_stop(&server);
}

/* ---- 2.3: a number each ---- */

/* In pieces, alternately, and with a client in between that has left. */
Test(exercise2_3, each_client_has_its_number)
{
    char answer[2][64];
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, "hel");
    client_await_delivered(ann);
    int eve = client_connect(&server);
    client_half_close(eve);
    client_expect_end(eve);
    client_close(eve);
    int bob = client_connect_send(&server, "good morning\n");
    client_half_close(bob);
    client_send_text(ann, "lo\nagain\n");
    client_half_close(ann);
    take_all(ann, answer[0], sizeof(answer[0]));
    take_all(bob, answer[1], sizeof(answer[1]));
    verdict(strcmp(answer[0], "1: hello\n1: again\n") == 0, "the first client got \"%s\"",
            answer[0]);
    verdict(strcmp(answer[1], "3: good morning\n") == 0, "the third client got \"%s\"", answer[1]);
    step_stop(&server);
}

/* ---- 2.4: answers that are longer than questions ---- */

Test(exercise2_4, count_is_answered_by_numbers)
{
    expect_answers("count 3\nhello\ncount 0\ncounting\ncount 2\n",
                   "1\n2\n3\nhello\ncounting\n1\n2\n");
}

/*
 * Bob's answer is 22 MB long, and he reads late. It is not kept in memory, and Ann is answered
 * meanwhile. Bob sends nothing more that could set the server going again.
 */
Test(exercise2_4, a_long_answer_is_made_as_there_is_room)
{
    enum { LAST = 3000000, GROWTH_KIB = 4096 };
    char number[16];
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    int bob = client_connect(&server);
    client_echo(ann, "hello\n");
    client_echo(bob, "hello\n");
    long before = probe_resident_kib(server.pid);
    size_t size, length = 0;
    char *wanted = malloc(LAST * 8 + 16), *answers = malloc(LAST * 8 + 16);
    cr_assert(wanted != NULL && answers != NULL);
    for (int i = 1; i <= LAST; i++)
        length += (size_t)sprintf(wanted + length, "%d\n", i);
    snprintf(number, sizeof(number), "count %d\n", LAST);
    client_send_text(bob, number);
    verdict(step_answers(ann, "hello\n"), "Ann got no answer in %d ms", step_patience_ms());
    long grown = probe_resident_kib(server.pid) - before;
    size = step_receive(bob, answers, length);
    verdict(size == length && memcmp(answers, wanted, length) == 0,
            "Bob got %zu of %zu bytes, or others", size, length);
    client_echo(bob, "good bye\n");
    verdict(probe_sanitized() || grown < GROWTH_KIB, "the server grew by %ld KiB", grown);
    free(wanted);
    free(answers);
    step_stop(&server);
}

/* More lines than the server has room for stand behind a long answer, and wait for it. */
Test(exercise2_4, lines_behind_a_long_answer_wait_for_it)
{
    enum { LAST = 200000, LINES = 20000 };
    size_t length, got, size = 0;
    char *lines = lines_numbered("behind", LINES, &length);
    char *wanted = malloc(LAST * 8 + length), *answers = malloc(LAST * 8 + length);
    cr_assert(wanted != NULL && answers != NULL);
    for (int i = 1; i <= LAST; i++)
        size += (size_t)sprintf(wanted + size, "%d\n", i);
    memcpy(wanted + size, lines, length);
    size += length;
    struct server_process server = step_start(0);
    int bob = client_connect(&server);
    step_freeze(&server);
    client_send_text(bob, "count 200000\n");
    client_send(bob, lines, length);
    step_thaw(&server);
    got = step_receive(bob, answers, size);
    verdict(got == size && memcmp(answers, wanted, size) == 0,
            "Bob got %zu of %zu bytes, or others", got, size);
    free(lines);
    free(wanted);
    free(answers);
    step_stop(&server);
}

/* ---- 2.5 and 5.4: slow ---- */

/*
 * Each of four clients has asked for something slow, with another line behind it. Ann is answered
 * meanwhile, the four wait at the same time and not one after the other, and their lines stay in
 * order.
 */
static void expect_slow_lines_to_delay_their_own_client(void)
{
    enum { CLIENTS = 4, TRIES = 4 };
    int clients[CLIENTS];
    double ann_took = 0, all_took = 4;
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = client_connect(&server);
    client_echo(ann, "hello\n");
    /* A busy machine is slow now and then, a server that waits for each of them is so each time. */
    for (int i = 0; i < TRIES && (ann_took >= 0.9 || all_took >= 3); i++) {
        double begin = test_now();
        for (int j = 0; j < CLIENTS; j++) {
            client_ask(clients[j], "first\nslow\nnext\n", "first\n");
        }
        verdict(step_answers(ann, "hello\n"), "Ann got no answer in %d ms", step_patience_ms());
        ann_took = test_now() - begin;
        for (int j = 0; j < CLIENTS; j++)
            client_expect_text(clients[j], "slow\nnext\n");
        all_took = test_now() - begin;
        verdict(all_took > 0.95, "four slow lines were answered after %.2f s", all_took);
    }
    verdict(ann_took < 0.9 && all_took < 3, "Ann's answer took %.2f s, and four slow ones %.2f s",
            ann_took, all_took);
    step_stop(&server);
}

/* A client that leaves while it waits is no trouble later. */
static void expect_no_trouble_from_slow_clients_that_leave(void)
{
    enum { CLIENTS = 4 };
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect_send(&server, "first\nslow\n");
        client_expect_text(client, "first\n");
        client_reset(client);
    }
    double begin = test_now();
    client_ask(ann, "slow\n", "slow\n");
    verdict(test_now() - begin > 0.95, "a slow line was answered after %.2f s", test_now() - begin);
    step_expect_alive(&server);
    client_echo(ann, "hello\n");
    step_stop(&server);
}

/* The second is over, and the client has left: the server learns both in the same round. */
static void expect_no_trouble_from_a_slow_client_that_leaves_in_time(void)
{
    struct server_process server = step_start(0);
    int ann = client_connect(&server);
    int bob = client_connect_send(&server, "first\nslow\n");
    client_expect_text(bob, "first\n");
    step_freeze(&server);
    client_reset(bob);
    test_pause_ms(1200);
    step_thaw(&server);
    double begin = test_now();
    client_ask(ann, "hello\nslow\n", "hello\nslow\n");
    verdict(test_now() - begin > 0.95, "a slow line was answered after %.2f s", test_now() - begin);
    step_stop(&server);
}

Test(exercise2_5, a_slow_line_delays_its_own_client)
{
    expect_slow_lines_to_delay_their_own_client();
}

Test(exercise2_5, a_slow_client_may_leave)
{
    expect_no_trouble_from_slow_clients_that_leave();
}

Test(exercise2_5, a_slow_client_may_leave_when_its_time_is_over)
{
    expect_no_trouble_from_a_slow_client_that_leaves_in_time();
}

Test(exercise5_4, a_slow_line_delays_its_own_client)
{
    expect_slow_lines_to_delay_their_own_client();
}

Test(exercise5_4, a_slow_client_may_leave)
{
    expect_no_trouble_from_slow_clients_that_leave();
}

Test(exercise5_4, a_slow_client_may_leave_when_its_time_is_over)
{
    expect_no_trouble_from_a_slow_client_that_leaves_in_time();
}

/* ---- 2.6: goodbye ---- */

enum { ROOM = 50 };

Test(exercise2_6, the_client_that_has_to_go_reads_goodbye)
{
    int clients[ROOM + 1];
    char answers[64];
    struct server_process server = step_start(0);
    for (int i = 0; i <= ROOM; i++) {
        clients[i] = client_connect_echo(&server, "hello\n");
    }
    take_all(clients[0], answers, sizeof(answers));
    verdict(strcmp(answers, "goodbye\n") == 0, "the client that had to go read \"%s\"", answers);
    step_stop(&server);
}

/* ---- 5.2: the dispatcher with the fewest clients ---- */

/* A counter of one dispatcher, from the last line that the server has printed for it. */
static long long dispatcher_counter(const struct server_process *server, int number,
                                    const char *name)
{
    static char text[65536];
    char start[64], pattern[64], *line = NULL;
    double end = test_now() + test_deadline_ms() / 1000.0;
    snprintf(start, sizeof(start), ": dispatcher %d: stats ", number);
    snprintf(pattern, sizeof(pattern), " %s=", name);
    do { /* the lines of the dispatchers come behind the one that was waited for */
        test_pause_ms(1);
        server_errors(server, text, sizeof(text));
        for (char *at = text; (at = strstr(at, start)) != NULL; at++)
            line = at;
    } while ((line == NULL || strchr(line, '\n') == NULL) && test_left_ms(end) > 0);
    cr_assert(line != NULL && strchr(line, '\n') != NULL, "no line with `%s` in: %s", start, text);
    *strchr(line, '\n') = '\0';
    const char *value = strstr(line, pattern);
    return value != NULL ? strtoll(value + strlen(pattern), NULL, 10) : 0;
}

/* Every second client stays. One in turn, they would all be with the same dispatcher. */
Test(exercise5_2, those_who_stay_are_spread_evenly)
{
    enum { EACH = 5, STAYING = 2 * EACH };
    struct server_process server = step_start_with("--dispatchers 2");
    for (int i = 0; i < STAYING; i++) {
        client_connect_echo(&server, "I stay\n");
        client_close(client_connect_echo(&server, "I do not\n"));
        server_await_counter(&server, "closed", i + 1);
    }
    for (int i = 1; i <= 2; i++) {
        long long here =
            dispatcher_counter(&server, i, "accepted") - dispatcher_counter(&server, i, "closed");
        /* A connection counts as closed a moment before it is one less. */
        verdict(here >= EACH - 1 && here <= EACH + 1,
                "of %d clients that stay, dispatcher %d has %lld", STAYING, i, here);
    }
    step_stop(&server);
}

/* ---- 5.3: a limit for each address, and a budget for all ---- */

static struct server_process start_with_option(const char *option, size_t value)
{
    char options[128];
    verdict(server_has_option(option), "the server has no option %s", option);
    snprintf(options, sizeof(options), "--dispatchers 2 %s %zu", option, value);
    return step_start_with(options);
}

/* Whether a client from 127.0.0.SOURCE gets an answer; its socket in *fd. */
static bool is_served(const struct server_process *server, int source, int *fd)
{
    static const char line[] = "is there a place for me?\n";
    char answer[sizeof(line)];
    size_t got;
    *fd = client_connect_with(server, (struct client_buffers){.source = source});
    client_try_send(*fd, line, strlen(line), test_now() + test_deadline_ms() / 1000.0);
    client_try_receive(*fd, answer, strlen(line), test_now() + test_deadline_ms() / 1000.0, &got);
    return got == strlen(line) && memcmp(answer, line, got) == 0;
}

Test(exercise5_3, an_address_has_so_many_connections_and_no_more)
{
    enum { LIMIT = 3 };
    int here[LIMIT], elsewhere, one_more;
    struct server_process server = start_with_option("--max-per-address", LIMIT);
    for (int i = 0; i < LIMIT; i++)
        verdict(is_served(&server, 66, &here[i]), "client %d of %d is not served", i + 1, LIMIT);
    verdict(!is_served(&server, 66, &one_more), "client %d of one address is served", LIMIT + 1);
    verdict(is_served(&server, 67, &elsewhere), "a client from another address is not served");
    client_close(one_more);
    client_echo(here[0], "I am still served\n");
    client_close(here[1]);
    server_await_counter(&server, "closed", 2);
    verdict(is_served(&server, 66, &one_more), "one has left, and another one is not served");
    step_stop(&server);
}

/* The gauge memory_held, from a report that was asked for now. */
static size_t memory_held(const struct server_process *server)
{
    static const char gauge[] = ": gauges memory_held=";
    static char text[65536];
    const char *found = NULL, *last = NULL;
    long long reports = server_counter(server, "accepted"); /* comes behind its gauges */
    cr_assert_geq(reports, 0);
    server_errors(server, text, sizeof(text));
    for (const char *at = text; (at = strstr(at, gauge)) != NULL; at++)
        last = at;
    found = last;
    cr_assert(found != NULL, "no gauge memory_held in: %s", text);
    return (size_t)strtoull(found + strlen(gauge), NULL, 10);
}

/* Sixty who read nothing would have the server keep four megabytes, each within his own limits. */
Test(exercise5_3, whoever_reads_nothing_pays_for_the_budget_and_nobody_else)
{
    enum { GREEDY = 60, BUDGET = 1 << 20, SLACK = 1 << 20, AT_ONCE = 4 << 20 };
    static char line[4096];
    int greedy[GREEDY];
    struct server_process server = start_with_option("--output-budget", BUDGET);
    int ann = step_client(&server);
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\n';
    for (int i = 0; i < GREEDY; i++) {
        greedy[i] = client_connect_with(&server, (struct client_buffers){.receive = 4096});
        client_push(greedy[i], line, sizeof(line), AT_ONCE, 50);
        size_t held = memory_held(&server);
        verdict(held <= BUDGET + SLACK, "of a budget of %d bytes %zu are spent", BUDGET, held);
        client_echo(ann, "I read all that I ask for\n");
    }
    double end = test_now() + test_deadline_ms() / 1000.0;
    long long gone; /* a server without a processor for 50 ms has not taken all of it at once */
    while ((gone = server_counter(&server, "closed")) == 0 && test_left_ms(end) > 0)
        for (int i = 0; i < GREEDY; i++)
            client_push(greedy[i], line, sizeof(line), AT_ONCE, 1);
    verdict(gone > 0, "nobody of %d who read nothing had to go", GREEDY);
    verdict(gone < GREEDY - 4, "%lld of %d had to go, and the budget is enough for more", gone,
            GREEDY);
    step_stop(&server);
}
