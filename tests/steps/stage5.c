/*
 * The steps that lead to stage 5, and the one behind it.
 */
#include "step.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

static void expect_a_slow_question_to_keep_ann_apart(const char *options)
{
    struct server_process server = step_start_with(options);
    int carl = client_connect_echo(&server, "hello\n");
    int ann = client_connect_echo(&server, "hello\n");
    client_send_text(carl, "what is the answer?\n");
    client_await_delivered(carl);
    client_echo(ann, "hello again\n");
    verdict(!step_has_answer(carl), "Ann got her answer only after Carl, who asks slow questions");
    client_expect_text(carl, "what is the answer?\n");
    step_stop(&server);
}

/* ---- 5.1: no workers ---- */

/* Whoever runs the handler, the dispatcher has to hear that it is through; unless it did it itself.
 */
Test(step5_1, an_answer_costs_no_wakeup)
{
    enum { LINES = 100 };
    struct server_process server = step_start_with("");
    int ann = client_connect_echo(&server, "hello\n");
    long long before = server_counter(&server, "wakeups_asked");
    for (int i = 0; i < LINES; i++)
        client_echo(ann, "hello again\n");
    long long wakeups = server_counter(&server, "wakeups_asked") - before;
    verdict(wakeups < LINES / 10, "%d answers have cost %lld wakeups", LINES, wakeups);
    step_stop(&server);
}

/* With workers it is as it was: a question that takes long keeps nobody else waiting. */
Test(step5_1, keeps_its_workers_for_those_who_want_them)
{
    expect_a_slow_question_to_keep_ann_apart("--workers 2 --block-ms 3000 --cost-for ?");
}

/* ---- 5.2: two dispatchers ---- */

/* Connections are given to the dispatchers in turn, so Carl and Ann have one each. */
Test(step5_2, a_slow_question_stops_one_dispatcher_only)
{
    expect_a_slow_question_to_keep_ann_apart("--block-ms 3000 --cost-for ?");
}

/*
 * While the Carls' questions keep all dispatchers busy, the acceptor registers more clients than
 * there are dispatchers. So one of these finds several in its queue when it is back.
 */
Test(step5_2, keeps_serving_all_who_came_while_it_was_busy)
{
    enum { CARLS = 4, ANNS = 8 };
    int carls[CARLS], anns[ANNS];
    struct server_process server = step_start_with("--block-ms 1000 --cost-for ?");
    for (int i = 0; i < CARLS; i++) {
        carls[i] = client_connect_echo(&server, "hello\n");
    }
    for (int i = 0; i < CARLS; i++)
        client_send_text(carls[i], "what is the answer?\n");
    for (int i = 0; i < ANNS; i++) {
        anns[i] = client_connect_send(&server, "hello\n");
    }
    for (int i = 0; i < ANNS; i++) {
        char answer[6];
        size_t got;
        client_try_receive(anns[i], answer, 6, test_now() + test_deadline_ms() / 1000.0, &got);
        verdict(got == 6, "a client that came while all dispatchers were busy got no answer");
    }
    step_stop(&server);
}

/* ---- 5.3: stage 5 ---- */

/* Eve comes from a network that we suspect, so her hundred and twenty bytes take seconds. */
Test(step5_3, a_client_from_a_suspicious_network_gets_a_rate)
{
    enum { BYTES_PER_SECOND = 40, BYTES = 120 };
    char answers[BYTES];
    size_t got;
    struct server_process server;
    bool started =
        server_try_start(&server, "--suspicious 127.0.0.66/32 --throttle %d", BYTES_PER_SECOND);
    if (!started) {
        server_await_end(&server, test_now() + test_deadline_ms() / 1000.0);
        server_forget(&server);
    }
    verdict(started, "the server knows no rates");
    int eve = client_connect_with(&server, (struct client_buffers){.source = 66});
    int ann = client_connect(&server);
    double begin = test_now();
    for (int i = 0; i < BYTES / 6; i++)
        client_send_text(eve, "hello\n");
    client_echo(ann, "Nobody suspects me, so this line of mine is back at once: yes\n");
    int eve_has = 0;
    ioctl(eve, FIONREAD, &eve_has);
    got = step_receive(eve, answers, BYTES);
    double eve_took = test_now() - begin;
    cr_assert_eq(got, BYTES);
    verdict(eve_took > 1, "Eve, at %d bytes per second, had %d of them after %.2f s",
            BYTES_PER_SECOND, BYTES, eve_took);
    verdict(eve_has < BYTES, "Ann, whom nobody suspects, had to wait as long as Eve");
    step_stop(&server);
}

/* ---- 5.4: epilogue ---- */

/* Code that reads like a thread's, and no thread. */
Test(step5_4, twenty_silent_clients_cost_no_thread)
{
    step_expect_one_thread();
}

/*
 * Ann is in the middle of a line, Bob does not read, and neither keeps Carl waiting. Then both go
 * on, and what stood on their stacks is still there.
 */
Test(step5_4, keeps_slow_and_silent_clients_to_themselves)
{
    enum { LINES = 16000, QUIET_MS = 300 };
    char prefix[1000] = "";
    size_t length;
    memset(prefix, '.', sizeof(prefix) - 9);
    char *lines = lines_numbered(prefix, LINES, &length);
    char *answers = malloc(length);
    cr_assert_not_null(answers);
    struct server_process server = step_start(0);
    int ann = client_connect_send(&server, "hel");
    client_await_delivered(ann);
    int bob = client_connect_with(&server, (struct client_buffers){.receive = 65536});
    size_t sent = client_push(bob, lines, length, length, QUIET_MS);
    cr_assert_lt(sent, length, "all that Bob sends finds room although he does not read");
    int carl = client_connect(&server);
    verdict(step_answers(carl, "hello\n"), "Carl got no answer in %d ms", step_patience_ms());
    client_ask(ann, "lo\n", "hello\n");
    size_t whole = sent - sent % 999, got;
    got = step_receive(bob, answers, whole);
    verdict(got == whole && memcmp(answers, lines, got) == 0,
            "Bob read later: of %zu bytes of answers he got %zu", whole, got);
    client_close(ann);
    client_close(bob);
    client_close(carl);
    free(lines);
    free(answers);
    step_stop(&server);
}

/* How many mappings of the process are one page that nobody may touch, with a stack above it. */
static int guard_pages(pid_t pid)
{
    char path[64], line[512], rights[5];
    unsigned long begin, end, guard_end = 0;
    int count = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    cr_assert_not_null(maps, "cannot read %s", path);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%lx %4s", &begin, &end, rights) != 3)
            continue;
        count += begin == guard_end && strncmp(rights, "rw", 2) == 0;
        guard_end = strncmp(rights, "---", 3) == 0 && end - begin == 4096 ? end : 0;
    }
    fclose(maps);
    return count;
}

/* A stack that overflows ends in memory that nobody may touch, and not in another client's. */
Test(step5_4, keeps_a_guard_page_below_each_stack)
{
    enum { CLIENTS = 20 };
    if (probe_thread_sanitized())
        cr_skip_test("ThreadSanitizer has pages of its own beside each thread");
    struct server_process server = step_start(0);
    int before = guard_pages(server.pid);
    for (int i = 0; i < CLIENTS; i++)
        client_connect_echo(&server, "hello\n");
    cr_assert_eq(guard_pages(server.pid) - before, CLIENTS);
    step_stop(&server);
}

/* A stack has 64 KiB of addresses, and memory for the pages that were touched: two or three. */
Test(step5_4, keeps_to_a_few_pages_per_client)
{
    enum { CLIENTS = 200, KIB_EACH = 16 };
    if (probe_sanitized())
        cr_skip_test("a sanitizer needs memory of its own for each stack");
    struct server_process server = step_start(0);
    long before = 0;
    for (int i = 0; i < CLIENTS; i++) {
        client_connect_echo(&server, "hello\n");
        if (i == 0)
            before = probe_resident_kib(server.pid);
    }
    long grown = probe_resident_kib(server.pid) - before;
    cr_assert_lt(grown, CLIENTS * KIB_EACH, "%d clients cost %ld KiB", CLIENTS, grown);
    step_stop(&server);
}

/* A client that leaves takes its stack with it. */
Test(step5_4, keeps_no_stack_of_a_client_that_has_left)
{
    enum { CLIENTS = 600, LEFT_OVER_KIB = 2048 };
    if (probe_sanitized())
        cr_skip_test("a sanitizer keeps what was freed");
    struct server_process server = step_start(0);
    long before = 0;
    for (int i = 0; i < CLIENTS; i++) {
        int client = client_connect_echo(&server, "hello\n");
        client_half_close(client);
        client_expect_end(client);
        client_close(client);
        if (i == 0)
            before = probe_resident_kib(server.pid);
    }
    long grown = probe_resident_kib(server.pid) - before;
    cr_assert_lt(grown, LEFT_OVER_KIB, "%d clients came and left, and the server grew by %ld KiB",
                 CLIENTS, grown);
    step_stop(&server);
}
