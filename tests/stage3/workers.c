/*
 * Stage 3's promise: processing leaves the reactor's thread. What stage 2 could not do now works,
 * and there are as many workers as were asked for.
 */
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"
#include "threads.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

TestSuite(stage3_workers, .timeout = 120);

/* Long enough that no test comes to its end: the end is the stop, which cuts it short. */
#define FOR_EVER "--block-ms 600000 --drain-timeout 0"

/* ---- what stage 2 could not do ---- */

/* The counterpart of stage 2's test of the same name. */
ServerTest(stage3_workers, a_slow_message_delays_nobody_else,
           "--workers 2 --cost-every 1000 " FOR_EVER)
{
    enum { QUICK = 20 };
    int slow = client_connect(server);
    client_send_text(slow, "this takes a while\n"); /* the first of a thousand messages pays */
    server_await_counter(server, "messages", 1);
    for (int i = 0; i < QUICK; i++) {
        int quick = client_connect_echo(server, "this does not\n");
        client_close(quick);
    }
    client_expect_silence(slow, 1);
    server_stop(server);
}

/* Nor with all workers busy: the reactor accepts, reads, and refuses what it must. */
Test(stage3_workers, the_reactor_goes_on_while_all_workers_block)
{
    enum { WORKERS = 3, OTHERS = 10 };
    struct server_process server =
        server_start("--workers %d --queue direct --saturation abort " FOR_EVER, WORKERS);
    int clients[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        clients[i] = client_connect_send(&server, "this takes a while\n");
        server_await_counter(&server, "messages", i + 1);
    }
    for (int i = 0; i < OTHERS; i++) {
        int other = client_connect_send(&server, "hello\n");
        client_expect_text(other, "ERR server busy\n");
        client_half_close(other);
        client_expect_end(other);
        client_close(other);
    }
    server_stop(&server);
    clients_close(clients, WORKERS);
}

enum { WORK_MS = 250 };

ServerTest(stage3_workers, two_busy_clients_use_two_workers, "--workers 2 --work-us %d",
           WORK_MS * 1000)
{
    int clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = client_connect_send(server, "much work\n");
    }
    clients_expect_text(clients, 2, "much work\n");
    struct thread_use threads[THREADS_MAX];
    int count = threads_look(server->pid, threads);
    int workers = 0;
    for (int i = 0; i < count; i++) {
        if (strncmp(threads[i].name, "worker ", 7) == 0) {
            workers++;
            cr_assert(threads[i].cpu >= WORK_MS / 1000.0 - 0.05,
                      "a worker has used %.2f s; each should have used %.2f s for one message",
                      threads[i].cpu, WORK_MS / 1000.0);
        } else {
            cr_assert(threads[i].cpu < WORK_MS / 1000.0 - 0.05,
                      "thread %s has used %.2f s: it should leave the work to the workers",
                      threads[i].name, threads[i].cpu);
        }
    }
    cr_assert_eq(workers, 2);
}

/* ---- how many threads ---- */

/** Connects clients and has each send one line; waits until the server has read them all. */
static void send_lines(const struct server_process *server, int *clients, int count)
{
    long long before = server_counter(server, "bytes_in");
    for (int i = 0; i < count; i++) {
        clients[i] = client_connect_send(server, "line\n");
        server_await_counter(server, "bytes_in", before + (i + 1) * 5);
    }
}

ClientTest(stage3_workers, none_before_the_first_message, "--workers 5")
{
    client_send_text(client, "only half of a");
    server_await_counter(server, "bytes_in", 14);
    cr_assert_eq(threads_named(server->pid, "worker"), 0);
}

/* A message need not wait until its worker has been started, at the price of threads that may never
 * work. */
ServerTest(stage3_workers, warm_ones_are_there_before_the_first_message, "--workers 5 --warm")
{
    client_connect(server);
    server_await_counter(server, "accepted", 1);
    cr_assert(probe_await_own_threads(server->pid, 1 + 5), "no warm workers");
}

/* The first is the core's; what does not fit in the queue starts the others, to the maximum. */
ParameterizedTestParameters(stage3_workers, grow_to_the_maximum)
{
    static int limits[] = {0, 1, 2, 4};
    return cr_make_param_array(int, limits, sizeof limits / sizeof *limits);
}

ParameterizedTest(int *limit, stage3_workers, grow_to_the_maximum)
{
    enum { CORE = 2, MOST = 5 };
    char queue[32] = "direct";
    int clients[CORE + 4 + MOST];
    if (*limit > 0) {
        snprintf(queue, sizeof queue, "bounded:%d", *limit);
    }
    struct server_process server =
        server_start("--workers %d --max-workers %d --queue %s " FOR_EVER, CORE, MOST, queue);
    int sent = CORE + *limit;
    send_lines(&server, clients, sent);
    threads_await(server.pid, "worker", CORE);
    for (int threads = CORE + 1; threads <= MOST; threads++) {
        send_lines(&server, clients + sent, 1);
        sent++;
        threads_await(server.pid, "worker", threads);
    }
    int refused = client_connect_send(&server, "one too many\n");
    client_expect_text(refused, "ERR server busy\n");
    cr_assert_eq(threads_named(server.pid, "worker"), MOST);
    cr_assert_eq(server_counter(&server, "max_threads"), MOST);
    cr_assert_eq(server_counter(&server, "tasks_aborted"), 1);
    server_stop(&server);
    client_close(refused);
    clients_close(clients, sent);
}

Test(stage3_workers, shrink_after_keep_alive)
{
    enum { CORE = 1, MOST = 4, BLOCK_MS = 400 };
    struct server_process server =
        server_start("--workers %d --max-workers %d --queue direct --keep-alive 0.3 --block-ms %d",
                     CORE, MOST, BLOCK_MS);
    int clients[MOST];
    for (int round = 0; round < 2; round++) {
        /* They come at once: none is answered before the last one has its worker. */
        server_signal(&server, SIGSTOP);
        for (int i = 0; i < MOST; i++) {
            clients[i] = client_connect_send(&server, "hello\n");
        }
        double begin = test_now();
        server_signal(&server, SIGCONT);
        threads_await(server.pid, "worker", MOST);
        clients_expect_text(clients, MOST, "hello\n");
        threads_await(server.pid, "worker", CORE);
        double took = test_now() - begin - BLOCK_MS / 1000.0;
        cr_assert(took >= 0.25, "%.2f s after their messages: too early", took);
        clients_close(clients, MOST);
    }
    server_stop(&server);
}

Test(stage3_workers, unbounded_never_more_than_were_asked_for)
{
    enum { CORE = 2, CLIENTS = 15 };
    static const char *const endless[] = {"unbounded", "priority"};
    for (int i = 0; i < 2; i++) {
        int clients[CLIENTS];
        struct server_process server =
            server_start("--workers %d --max-workers 8 --queue %s " FOR_EVER, CORE, endless[i]);
        send_lines(&server, clients, CLIENTS);
        threads_await(server.pid, "worker", CORE);
        cr_assert_eq(server_counter(&server, "max_threads"), CORE, "%s", endless[i]);
        server_stop(&server);
        clients_close(clients, CLIENTS);
    }
}

/* ---- the end ---- */

/* Threads that block do not hold it up, and neither do tasks that wait for them. */
ServerTest(stage3_workers, a_stop_cuts_workers_and_queue_short,
           "--workers 4 --block-ms 600000 --drain-timeout 0.2")
{
    enum { CLIENTS = 30 };
    int clients[CLIENTS];
    send_lines(server, clients, CLIENTS);
    double begin = test_now();
    server_stop(server);
    double took = test_now() - begin;
    cr_assert(took >= 0.15, "--drain-timeout is 0.2 s: ended after %.2f s", took);
}

ServerTest(stage3_workers, a_stop_lets_workers_finish,
           "--workers 2 --block-ms 200 --drain-timeout 30")
{
    enum { CLIENTS = 4 };
    int clients[CLIENTS];
    send_lines(server, clients, CLIENTS);
    server_signal(server, SIGTERM);
    for (int i = 0; i < CLIENTS; i++) {
        client_expect_text(clients[i], "line\n");
        client_expect_end(clients[i]);
    }
    server_expect_exit(server);
}
