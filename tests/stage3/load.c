/*
 * Stage 3 under load: many clients, several workers, and every byte in its place.
 */
#include "crowd.h"
#include "support/client.h"
#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(stage3_load, .timeout = 120);

/** So many under a sanitizer, to keep it short. */
static int fewer(int many)
{
    return probe_sanitized() ? many / 10 : many;
}

/* ---- order ---- */

/* A hundred pipelining clients, and more workers than processors. */
ParameterizedTestParameters(stage3_load, case_36_every_connection_keeps_its_order)
{
    static int indices[] = {0, 1, 2, 3};
    return cr_make_param_array(int, indices, sizeof indices / sizeof *indices);
}

ParameterizedTest(int *index, stage3_load, case_36_every_connection_keeps_its_order)
{
    static const char *const options[] = {
        "--workers 4",
        "--workers 1 --selector poll",
        "--workers 2 --max-workers 8 --keep-alive 0 --queue bounded:8 --saturation block",
        "--workers 4 --queue direct --saturation caller-runs",
    };
    enum { CLIENTS = 100 };
    struct server_process server = server_start("%s", options[*index]);
    struct crowd crowd = crowd_open(&server, CLIENTS, 120, (size_t)fewer(100000));
    crowd_exchange(&crowd);
    crowd_exchange(&crowd);
    crowd_close(&crowd);
    server_stop(&server);
}

/* Messages that take time, some more than others: the quick ones must not overtake. */
ServerTest(stage3_load, case_36_order_does_not_depend_on_how_long_a_message_takes,
           "--workers 8 --block-ms 2 --cost-every 7")
{
    enum { CLIENTS = 100 };
    struct crowd crowd = crowd_open(server, CLIENTS, 60, 2000);
    crowd_exchange(&crowd);
    crowd_close(&crowd);
}

/* ---- suspend and resume ---- */

/* Each message suspends its connection in the reactor and resumes it in a worker. */
ServerTest(stage3_load, case_28_a_hundred_thousand_rounds_of_suspend_and_resume, "--workers 4")
{
    enum { CLIENTS = 20, ROUNDS = 100000 };
    crowd_ping(server, CLIENTS, fewer(ROUNDS) / CLIENTS);
}

/* The same with output that chokes: workers suspend, the reactor drains and resumes. */
ServerTest(stage3_load, case_28_choked_by_output_and_resumed,
           "--workers 4 --send-buffer 8192 --output-high-mark 8192 --output-low-mark 1024")
{
    enum { CLIENTS = 20 };
    struct crowd crowd = crowd_open_with(
        server, CLIENTS, 4000, (size_t)fewer(1000000),
        (struct client_buffers){.receive = 8192, .segment = CLIENT_ETHERNET_SEGMENT});
    crowd_exchange(&crowd);
    crowd_close(&crowd);
}

/* ---- wakeups ---- */

/* However many messages workers hand back, few wakeups cost a system call. */
ServerTest(stage3_load, case_31_wakeups_are_far_fewer_than_messages, "--workers 4")
{
    enum { CLIENTS = 50 };
    struct crowd crowd = crowd_open(server, CLIENTS, 30, (size_t)fewer(200000));
    crowd_exchange(&crowd);
    long long messages = server_counter(server, "messages");
    long long asked = server_counter(server, "wakeups_asked");
    long long written = server_counter(server, "wakeups_written");
    cr_assert_gt(asked, 0);
    cr_assert(written <= asked && written < messages / 5,
              "%lld messages, %lld wakeups asked for, %lld written", messages, asked, written);
    crowd_close(&crowd);
}

/* ---- erratum 13 ---- */

/*
 * An otherwise idle server. The second request arrives while the first is processed and nobody is
 * interested; when the worker is done, nothing but its wakeup moves the reactor.
 */
static int answer_first_of_two(const struct server_process *server)
{
    int client = client_connect_send(server, "first\n");
    server_await_counter(server, "messages", 1);
    client_ask(client, "second\n", "first\n");
    return client;
}

ServerTest(stage3_load, erratum_13_the_next_request_does_not_wait,
           "--workers 1 --block-ms 300 --cost-every 1000")
{
    int client = answer_first_of_two(server);
    client_expect_text(client, "second\n");
}

/* The reactor may sleep again, with the lock, before the worker runs: then it takes one more. */
static bool waits_for_another_client(const struct server_process *server)
{
    double end = test_deadline();
    int client = answer_first_of_two(server);
    bool waits = !test_await(client, POLLIN, test_now() + 0.2);
    do {
        client_connect(server);
    } while (!test_await(client, POLLIN, test_now() + 0.05) && test_left_ms(end) > 0);
    client_expect_text(client, "second\n");
    return waits;
}

/*
 * With --guard none the reply comes when somebody else happens to wake the reactor. A busy machine
 * can make that a report, or the look that it has once a second; with a guard it never waits.
 */
Test(stage3_load, erratum_13_without_the_guard_it_waits_for_another_client)
{
    enum { ATTEMPTS = 10 };
    bool waits = false;
    for (int attempt = 0; attempt < ATTEMPTS && !waits; attempt++) {
        struct server_process server =
            server_start("--workers 1 --block-ms 300 --cost-every 1000 --guard none");
        waits = waits_for_another_client(&server);
        server_close_all(&server);
    }
    cr_assert(waits, "the second request was answered at once, %d times", ATTEMPTS);
}

/* A worker waits for the selector while the reactor sleeps in it; a signal wakes the reactor. */
ServerTest(stage3_load, sigterm_is_heard_without_the_guard_too,
           "--workers 1 --block-ms 300 --cost-every 1000 --guard none --drain-timeout 2")
{
    answer_first_of_two(server);
    cr_assert(probe_await_asleep(server->pid)); /* so the worker has come to that lock */
    server_stop(server);
}

/* ---- fairness ---- */

enum { SLOW = 100, LINES = 40000, WORK_US = 250 };

/* The firehose has far more to do than the test lasts; the hundred slow ones wait for a turn of it,
 * not for all of it, although there is only one worker. */
ServerTest(stage3_load, case_29_a_firehose_does_not_starve_a_hundred_slow_clients,
           "--workers 1 --work-us %d", WORK_US)
{
    int slow[SLOW];
    int firehose = client_connect(server);
    clients_connect(server, slow, SLOW, NULL);
    size_t length;
    char *lines = lines_numbered("firehose", LINES, &length);
    client_send(firehose, lines, length / 2);
    client_await_reply(firehose);
    double begin = test_now();
    clients_send_text(slow, SLOW, "a word in between\n");
    clients_expect_text(slow, SLOW, "a word in between\n");
    double took = test_now() - begin;
    double whole = LINES / 2 * WORK_US / 1e6;
    cr_assert_lt(took, whole / 2,
                 "%d clients were answered after %.2f s, beside one with %.1f s "
                 "of work",
                 SLOW, took, whole);
    client_reset(firehose);
    free(lines);
}

struct flood {
    const struct server_process *server;
    atomic_bool stop;
    atomic_int connections;
};

static void *flood_run(void *argument)
{
    struct flood *flood = argument;
    while (!atomic_load(&flood->stop)) {
        int fd = client_try_connect(flood->server, (struct client_buffers){0});
        if (fd >= 0) {
            client_reset(fd);
            atomic_fetch_add(&flood->connections, 1);
        }
    }
    return NULL;
}

ServerTest(stage3_load, case_30_a_connect_flood_does_not_starve_who_is_connected, "--workers 2")
{
    enum { FLOODS = 2, ECHOES = 100 };
    struct flood flood = {.server = server};
    pthread_t threads[FLOODS];
    int client = client_connect_echo(server, "before\n");
    for (int i = 0; i < FLOODS; i++) {
        cr_assert_eq(pthread_create(&threads[i], NULL, flood_run, &flood), 0);
    }
    double end = test_deadline();
    int echoes = 0;
    while (echoes < ECHOES && client_try_echo(client, "in between\n", end)) {
        echoes++;
    }
    while (atomic_load(&flood.connections) < ECHOES && test_left_ms(end) > 0) {
        test_pause_ms(1);
    }
    atomic_store(&flood.stop, true);
    for (int i = 0; i < FLOODS; i++) {
        pthread_join(threads[i], NULL);
    }
    cr_assert_eq(echoes, ECHOES, "%d of %d lines were answered beside %d connections", echoes,
                 ECHOES, atomic_load(&flood.connections));
}

/* ---- connections that die under load ---- */

/* Case 34 by force of numbers: clients that send and go, in every way, while workers are at it. */
ServerTest(stage3_load, case_34_clients_that_leave_while_they_are_processed,
           "--workers 4 --work-us 50")
{
    enum { CLIENTS = 600 };
    size_t length;
    char *lines = lines_numbered("going, going", 20, &length);
    for (int i = 0; i < fewer(CLIENTS); i++) {
        int client = client_connect(server);
        client_try_send(client, lines, length, test_now() + 1);
        if (i % 3 == 0) {
            client_half_close(client);
            client_expect_text(client, "going, going 000000\n");
        }
        if (i % 2 == 0) {
            client_reset(client);
        } else {
            client_close(client);
        }
    }
    server_await_counter(server, "closed", fewer(CLIENTS));
    cr_assert_eq(server_counter(server, "accepted"), server_counter(server, "closed"));
    free(lines);
}

/* ---- priority ---- */

/** How many of them have a reply. */
static int answered(const int *clients, int count)
{
    int ready = 0;
    for (int i = 0; i < count; i++) {
        ready += test_await(clients[i], POLLIN, 0);
    }
    return ready;
}

enum { EACH = 16, BLOCK_MS = 25 };

/* Under saturation goodbyes go first, and what others say gets some turns. */
ServerTest(stage3_load, urgent_messages_go_first_and_starve_nobody,
           "--app pop3 --workers 1 --queue priority --block-ms %d", BLOCK_MS)
{
    int others[EACH];
    int urgent[EACH];
    for (int i = 0; i < EACH; i++) {
        others[i] = client_connect(server);
        urgent[i] = client_connect(server);
        client_expect_text(others[i], "+OK this is a POP3 server\r\n");
        client_expect_text(urgent[i], "+OK this is a POP3 server\r\n");
    }
    clients_send_text(others, EACH, "USER ann\r\n");
    clients_send_text(urgent, EACH, "quit\r\n");
    clients_expect_text(urgent, EACH, "+OK goodbye\r\n");
    int meanwhile = answered(others, EACH);
    cr_assert(meanwhile >= 2 && meanwhile <= EACH / 2,
              "when %d urgent messages had been answered, so had %d of %d others that were there "
              "first",
              EACH, meanwhile, EACH);
    for (int i = 0; i < EACH; i++) {
        client_expect_text(others[i], "+OK now the password\r\n");
        client_close(others[i]);
    }
}
