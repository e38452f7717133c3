/*
 * Case 40 for POP3 and HTTP: the n-th call fails while a whole session goes by. What a client gets
 * may break off, and may be an error; what looks complete is right. A mailbox loses what was to be
 * deleted, and never anything else.
 */
#include "fault_run.h"

#include "support/deadline.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_folder(void);
static void remove_folder(void);

TestSuite(case_40_apps, .timeout = 120, .init = make_folder, .fini = remove_folder);

enum {
    PLACES = 6,
    STRIDE = 7, /* of a short walk */
    CALLS_MOST = 4000,
    REPLY_MOST = 1 << 18,
    LARGE = 100000, /* is sent from the file */
    MAIL = 20000,   /* is read in pieces */
};

static char folder[64];
static char large[LARGE + 1];
static char mail[MAIL + 1];
static char reply[REPLY_MOST];

/* ---- Files ---- */

static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0700);
        *slash = '/';
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
    close(fd);
}

static bool is_there(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/faults.XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = (char)('A' + i % 26);
    }
    for (size_t i = 0; i < MAIL; i++) {
        mail[i] = i % 50 == 48 ? '\r' : i % 50 == 49 ? '\n' : (char)('a' + i % 26);
    }
    write_file("root/a.txt", "hello\n");
    write_file("root/large.bin", large);
    write_file("users", "ann:$1$ab$lTzPedJomxi5Cai/PnmfX.\n");
    write_file("mail/ann/tmp/none", "");
    write_file("mail/ann/new/1.a", mail);
    write_file("mail/ann/new/2.b", "Subject: short\r\n\r\nbody\r\n");
    write_file("mail/ann/cur/3.c:2,S", "Subject: goes\r\n\r\nbody\r\n");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- A session ---- */

/* Sends all, and takes all that comes until the end; how much that was. */
static size_t talk(const struct server_process *server, const char *request)
{
    size_t got;
    double end = test_deadline();
    int client = client_connect(server);
    client_try_send(client, request, strlen(request), end);
    enum client_outcome outcome = client_try_receive(client, reply, sizeof reply - 1, end, &got);
    cr_assert(outcome == CLIENT_ENDED || outcome == CLIENT_RESET, "with %s: %zu bytes, and then %s",
              getenv("FAULT_PLAN"), got, client_outcome_text(outcome));
    reply[got] = '\0';
    client_close(client);
    return got;
}

/* A session has ended when nothing of it is open any more: what its client sees may come before. */
static void await_end_of_session(const struct server_process *server, long descriptors)
{
    cr_assert(probe_await_descriptors(server->pid, descriptors),
              "with %s: %ld descriptors are open, %ld were", getenv("FAULT_PLAN"),
              probe_descriptors(server->pid), descriptors);
}

static void walk(int place, const char *options, const char *request, void (*check)(bool whole))
{
    static struct fault_report report;
    int step = 1;
    do {
        char plan[64];
        snprintf(plan, sizeof plan, "any:%d=#%d", step, place);
        faults_plan(plan, false);
        struct server_process server =
            server_start("--stats --log error --max-connections 50 %s", options);
        long descriptors = probe_descriptors(server.pid);
        faults_switch(&server);
        talk(&server, request);
        faults_switch(&server);
        await_end_of_session(&server, descriptors);
        fault_look(&server, &report);
        check(report.harmless);
        talk(&server, request);
        await_end_of_session(&server, descriptors);
        check(true);
        fault_end(&server, true, 0, &report);
        cr_assert_lt(report.calls, CALLS_MOST, "with %s: %ld calls", plan, report.calls);
        cr_assert_eq(stats_value(report.errors, "accepted", NULL),
                     stats_value(report.errors, "closed", NULL), "%s", report.errors);
        step += faults_all() ? 1 : STRIDE;
    } while (report.injected > 0);
    cr_assert_gt(step, 20, "a walk of %d steps", step);
}

static bool has_applications(void)
{
    return strstr(server_name(), "stage4") || strstr(server_name(), "stage5");
}

static struct criterion_test_params places(void)
{
    static int all[PLACES] = {0, 1, 2, 3, 4, 5};
    return cr_make_param_array(int, all, faults_all() ? PLACES : 1);
}

/* ---- POP3 ---- */

static const char pop3_request[] = "USER ann\r\nPASS p\r\nLIST\r\nUIDL\r\nRETR 1\r\nTOP 2 1\r\n"
                                   "DELE 3\r\nQUIT\r\n";

/* A message that ends as a message ends is all there. */
static void check_mail(void)
{
    const char *begin = strstr(reply, "octets\r\n");
    if (begin == NULL) {
        return;
    }
    begin += strlen("octets\r\n");
    const char *end = strstr(begin, "\r\n.\r\n");
    if (end != NULL) {
        cr_assert_eq((size_t)(end + 2 - begin), MAIL, "a message of %zu bytes that has %d",
                     (size_t)(end + 2 - begin), MAIL);
        cr_assert_arr_eq(begin, mail, MAIL);
    }
}

static void check_pop3(bool whole)
{
    check_mail();
    cr_assert(is_there("mail/ann/new/1.a") && is_there("mail/ann/new/2.b"),
              "with %s: a message is gone that was not to be deleted", getenv("FAULT_PLAN"));
    bool deleted = strstr(reply, "will be deleted") != NULL;
    bool done = strstr(reply, "+OK goodbye") != NULL;
    bool there = is_there("mail/ann/cur/3.c:2,S");
    cr_assert(!deleted || !done || !there, "with %s: deleted, and still there",
              getenv("FAULT_PLAN"));
    /* Without an answer to QUIT nobody knows whether it came. */
    cr_assert(!done || deleted || there, "with %s: gone, and not deleted", getenv("FAULT_PLAN"));
    cr_assert(!whole || (deleted && done), "no fault is on any more: %s", reply);
    write_file("mail/ann/cur/3.c:2,S", "Subject: goes\r\n\r\nbody\r\n");
}

ParameterizedTestParameters(case_40_apps, case_40_pop3)
{
    return places();
}

ParameterizedTest(int *place, case_40_apps, case_40_pop3)
{
    char options[256];
    if (!has_applications()) {
        return;
    }
    snprintf(options, sizeof options, "--app pop3 --mail-dir %s/mail --users %s/users", folder,
             folder);
    walk(*place, options, pop3_request, check_pop3);
}

/* ---- HTTP ---- */

static char http_request[8192];

/* The first head is too long for one segment. */
static void make_request(void)
{
    char filler[4501];
    memset(filler, 'y', sizeof filler - 1);
    filler[sizeof filler - 1] = '\0';
    snprintf(http_request, sizeof http_request,
             "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n"
             "GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n"
             "GET /none HTTP/1.1\r\nHost: a\r\n\r\n"
             "GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=7-\r\nConnection: close\r\n\r\n",
             filler);
}

/* The answer at that place: what it carries is the file, as far as it goes; where the next begins.
 */
static const char *check_answer(const char *answer, const char *end)
{
    const char *body = strstr(answer, "\r\n\r\n");
    const char *length_field = strstr(answer, "Content-Length: ");
    if (body == NULL) {
        return end; /* cut off in the middle of a head */
    }
    body += 4;
    cr_assert(strncmp(answer, "HTTP/1.1 ", 9) == 0 && length_field != NULL && length_field < body,
              "with %s: this is no answer: %.100s", getenv("FAULT_PLAN"), answer);
    size_t length = strtoul(length_field + 16, NULL, 10);
    size_t there = (size_t)(end - body) < length ? (size_t)(end - body) : length;
    int status = atoi(answer + 9);
    if (status == 200 || status == 206) {
        const char *file = length == 6 ? "hello\n" : status == 206 ? large + 7 : large;
        cr_assert_eq(length, strlen(file), "with %s: a file of %zu bytes", getenv("FAULT_PLAN"),
                     length);
        cr_assert_arr_eq(body, file, there, "with %s", getenv("FAULT_PLAN"));
    }
    return body + there;
}

static void check_http(bool whole)
{
    int answers = 0;
    const char *end = reply + strlen(reply);
    const char *turned_away = "ERR server busy\n";
    for (const char *answer = reply; answer < end; answers++) {
        if (!whole && strcmp(answer, turned_away) == 0) {
            return;
        }
        answer = check_answer(answer, end);
    }
    cr_assert(!whole || answers == 4, "no fault is on any more: %d answers", answers);
    cr_assert(!whole || strcmp(end - 5, large + LARGE - 5) == 0, "the last one is cut off");
}

ParameterizedTestParameters(case_40_apps, case_40_http)
{
    return places();
}

ParameterizedTest(int *place, case_40_apps, case_40_http)
{
    char options[256];
    if (!has_applications()) {
        return;
    }
    make_request();
    snprintf(options, sizeof options, "--app http --root %s/root --send-buffer 65536", folder);
    walk(*place, options, http_request, check_http);
}
