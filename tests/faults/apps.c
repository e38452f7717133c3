/*
 * Applications of stages 4 and 5 that run out of memory. Stages 1 to 3 serve the echo alone.
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(fault_apps, .timeout = 120);

static struct fault_report report;

static bool has_applications(void)
{
    return strstr(server_name(), "stage4") || strstr(server_name(), "stage5");
}

/* What a client of the chat gets to read first, "" if it is the end. */
static void first_words(int client, char *text, size_t size)
{
    size_t got = 0;
    client_try_receive(client, text, 1, test_deadline(), &got);
    size_t more = 0;
    if (got == 1) {
        client_try_receive(client, text + 1, size - 2, test_now() + 0.05, &more);
    }
    text[got + more] = '\0';
}

/* Who comes while that allocation fails is told that the server is busy, and nobody hears of him.
 */
static void check_unlucky(const char *plan)
{
    char text[256];
    faults_plan(plan, false);
    struct server_process server = server_start("--app chat --stats --max-connections 50");
    int witness = client_connect(&server);
    client_expect_text(witness, "* welcome, you are user1; /help tells more\n");
    long before = probe_descriptors(server.pid);
    faults_switch(&server);
    int unlucky = client_connect(&server);
    first_words(unlucky, text, sizeof text);
    cr_assert_str_eq(text, "ERR server busy\n");
    client_close(unlucky);
    int lucky = client_connect(&server);
    client_expect_text(lucky, "* welcome, you are user2; /help tells more\n");
    client_expect_text(witness, "* user2 is here\n");
    client_close(lucky);
    client_expect_text(witness, "* user2 has left\n");
    cr_assert(probe_await_descriptors(server.pid, before), "a descriptor is left open");
    client_close(witness);
    fault_end(&server, true, 0, &report);
    cr_assert_eq(report.injected, 1);
    cr_assert_eq(stats_value(report.errors, "rejected", NULL), 1);
    cr_assert_eq(stats_value(report.errors, "accepted", NULL),
                 stats_value(report.errors, "closed", NULL), "%s", report.errors);
}

/* A handler and its connection are one block of memory, so there is no half of it. */
Test(fault_apps, case_20_no_memory_for_a_handler)
{
    if (has_applications()) {
        check_unlucky("calloc:1=ENOMEM");
    }
}

/* Each protocol has words for a message that no worker takes, and serves on. */
static void check_refusal(const char *application, const char *request, const char *refusal)
{
    char text[4096];
    size_t got;
    faults_plan("pthread_create:1-=EAGAIN", false);
    struct server_process server = server_start("--workers 1 --app %s --stats", application);
    faults_switch(&server);
    int client = client_connect_send(&server, request);
    double end = test_deadline();
    size_t length = 0;
    text[0] = '\0';
    while (strstr(text, refusal) == NULL && test_left_ms(end) > 0 && length + 1 < sizeof text) {
        client_try_receive(client, text + length, 1, test_now() + 0.2, &got);
        length += got;
        text[length] = '\0';
    }
    cr_assert_not_null(strstr(text, refusal), "%s, without a worker: `%s`", application, text);
    faults_switch(&server);
    client_close(client);
    fault_end(&server, true, 0, &report);
}

Test(fault_apps, case_35_each_protocol_tells_that_no_worker_is_there)
{
    if (!has_applications()) {
        return;
    }
    check_refusal("chat", "hello\n", "ERR server busy\n");
    check_refusal("pop3 --max-line 100", "NOOP\r\n", "-ERR [SYS/TEMP]");
    check_refusal("http --root .", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 503 ");
    check_refusal("http --root .", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
                  "HTTP/1.1 503 ");
}

/*
 * A server that lacks something now says so, and that the client may come again; one whose disk is
 * broken does not promise anything.
 */
Test(fault_apps, case_40_a_file_that_cannot_be_opened_now)
{
    static const struct {
        const char *plan;
        const char *status;
    } cases[] = {
        {"openat:1=EMFILE", "HTTP/1.1 503 "},
        {"openat:1=ENFILE", "HTTP/1.1 503 "},
        {"openat:1=ENOMEM", "HTTP/1.1 503 "},
        {"openat:1=EIO", "HTTP/1.1 500 "},
    };
    if (!has_applications()) {
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        faults_plan(cases[i].plan, false);
        struct server_process server = server_start("--app http --root . --stats");
        int client = client_connect(&server);
        faults_switch(&server);
        client_ask(client, "GET /README.md HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].status);
        client_close(client);
        client = client_connect_send(&server, "GET /README.md HTTP/1.1\r\nHost: a\r\n\r\n");
        client_expect_text(client, "HTTP/1.1 200 ");
        client_close(client);
        faults_switch(&server);
        fault_end(&server, true, 0, &report);
        cr_assert_eq(report.injected, 1, "%s", cases[i].plan);
    }
}

/* The password is checked all the same, by the thread that would have had a helper check it. */
Test(fault_apps, case_35_no_thread_for_a_helper)
{
    if (!has_applications()) {
        return;
    }
    faults_plan("pthread_create:1-=EAGAIN", false);
    struct server_process server = server_start("--app pop3 --workers 1 --stats");
    int client = client_connect(&server);
    client_send_text(client, "USER mrose\r\n"); /* now there is a worker */
    client_expect_text(client, "+OK this is a POP3 server\r\n+OK now the password\r\n");
    faults_switch(&server);
    client_send_text(client, "PASS tanstaaf\r\nNOOP\r\nQUIT\r\n");
    client_expect_text(client, "+OK 3 messages\r\n+OK\r\n+OK goodbye\r\n");
    client_expect_end(client);
    client_close(client);
    faults_switch(&server);
    fault_end(&server, true, 0, &report);
    cr_assert_geq(report.injected, 1, "nobody has tried to start a helper");
}

/* Who comes is not announced if there is no memory for it, and that is all. */
Test(fault_apps, case_40_no_memory_to_announce_somebody)
{
    if (!has_applications()) {
        return;
    }
    for (int n = 1; n <= 4; n++) {
        char plan[64];
        char text[256];
        snprintf(plan, sizeof plan, "malloc:%d=ENOMEM", n);
        faults_plan(plan, false);
        struct server_process server = server_start("--app chat --stats");
        int witness = client_connect(&server);
        client_expect_text(witness, "* welcome, you are user1; /help tells more\n");
        faults_switch(&server);
        int other = client_connect(&server);
        first_words(other, text, sizeof text);
        client_try_send(other, "hello\n", 6, test_now() + 1);
        client_close(other);
        server_await_counter(&server, "closed", 1);
        faults_switch(&server);
        client_close(witness);
        int last = client_connect(&server);
        client_expect_text(last, "* welcome, you are ");
        client_close(last);
        fault_end(&server, true, 0, &report);
    }
}

#define HELP                                                                                       \
    "* what you type, everybody else reads; and there are\n* /nick NAME  /who  /quit  /help\n"

/* Who asks for the others gets no answer if there is no memory for one, and can ask again. */
Test(fault_apps, case_40_no_memory_to_list_the_users)
{
    if (!has_applications()) {
        return;
    }
    /* One thread runs the handler each time: the only worker, or the client's dispatcher. */
    const char *one_runner = server_has_option("--dispatchers") ? "" : "--workers 1";
    faults_plan("malloc:1=ENOMEM", false);
    struct server_process server =
        server_start("--app chat --stats --idle-timeout 0 %s", one_runner);
    int client = client_connect(&server);
    client_expect_text(client, "* welcome, you are user1; /help tells more\n");
    client_send_text(client, "/help\n"); /* so that it has segments of its own */
    client_expect_text(client, HELP);
    faults_switch(&server);
    client_ask(client, "/who\n/help\n", HELP);
    faults_switch(&server);
    client_ask(client, "/who\n", "* 1 here\n* user1\n");
    client_close(client);
    fault_end(&server, true, 0, &report);
    cr_assert_eq(report.injected, 1, "%s", report.errors);
}

/* A crowd that talks while any allocation and any call may fail. It may lose all, but not hang. */
static void talk(unsigned long long seed)
{
    enum { USERS = 8, ROUNDS = 30 };
    int users[USERS];
    char text[4096];
    faults_chance(30, seed, NULL, NULL);
    struct server_process server = server_start("--app chat --stats --max-connections 50");
    long before = probe_descriptors(server.pid);
    clients_connect(&server, users, USERS, NULL);
    faults_switch(&server);
    for (int round = 0; round < ROUNDS; round++) {
        static const char *const lines[] = {"hello\n", "/who\n", "/nick somebody\n", "/help\n",
                                            "/quit\n"};
        int i = round % USERS;
        size_t got;
        const char *line = lines[round % 5];
        client_try_send(users[i], line, strlen(line), test_now() + 0.1);
        if (client_try_receive(users[i], text, sizeof text, test_now() + 0.002, &got) !=
            CLIENT_LATE) {
            client_close(users[i]);
            users[i] = client_connect(&server);
        }
    }
    faults_switch(&server);
    clients_close(users, USERS);
    int last = client_connect(&server);
    client_expect_text(last, "* welcome, you are ");
    client_close(last);
    cr_assert(probe_await_descriptors(server.pid, before), "descriptors are left open; seed %llu",
              seed);
    fault_end(&server, true, 0, &report);
    cr_assert_eq(stats_value(report.errors, "accepted", NULL),
                 stats_value(report.errors, "closed", NULL), "%s", report.errors);
}

Test(fault_apps, case_40_a_chat_in_which_anything_may_fail)
{
    if (!has_applications()) {
        return;
    }
    unsigned long long seed = faults_all() ? (unsigned long long)(test_now() * 1000) : 40;
    for (int i = 0; i < (faults_all() ? 10 : 1); i++) {
        talk(seed++);
    }
}
