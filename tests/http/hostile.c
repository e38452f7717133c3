/*
 * Clients that mean no good, or cannot do better: silent, slow, endless, curious. The numbers are
 * those of the cases that every server here has to survive.
 */
#include "site.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(http_hostile, .timeout = 120);

#define HOST "Host: test\r\n"

static struct reply reply;

/* ---- time ---- */

static const char *const halves[] = {
    "G",
    "GET /page.txt HTTP/1.1\r\n",
    "GET /page.txt HTTP/1.1\r\nHost: te",
    "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n123",
};
enum { HALVES = sizeof halves / sizeof halves[0] };

SiteTest(http_hostile, case_14_half_a_request_and_then_silence,
         " --request-timeout 0.5 --idle-timeout 0")
{
    int fds[HALVES];
    double begin = test_now();
    for (int i = 0; i < HALVES; i++) {
        fds[i] = client_connect_send(server, halves[i]);
    }
    for (int i = 0; i < HALVES; i++) {
        reply_take(fds[i], &reply, false);
        cr_assert_eq(reply.status, 408, "`%s`: %d", halves[i], reply.status);
        cr_assert_str_eq(reply_field(&reply, "Connection"), "close");
        client_expect_end(fds[i]);
        client_close(fds[i]);
    }
    cr_assert_geq(test_now() - begin, 0.45, "after %.2f s", test_now() - begin);
    cr_assert_eq(server_counter(server, "timed_out"), HALVES);
}

/* Each byte is activity, so the idle timeout alone would never end it. */
SiteTest(http_hostile, case_15_half_a_request_and_one_byte_per_idle_period,
         " --request-timeout 1 --idle-timeout 5")
{
    int head = client_connect(server);
    int body = client_connect(server);
    client_send_text(head, "GET /page.txt HTTP/1.1\r\n" HOST "X: ");
    client_send_text(body, "GET / HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n");
    double end = test_deadline();
    while (!test_await(head, POLLIN, test_now() + 0.1) ||
           !test_await(body, POLLIN, test_now() + 0.1)) {
        cr_assert_lt(test_now(), end, "still there");
        client_try_send(head, "x", 1, test_now());
        client_try_send(body, "x", 1, test_now());
    }
    reply_take(head, &reply, false);
    expect_status(&reply, 408);
    reply_take(body, &reply, false);
    expect_status(&reply, 408);
}

/* Between requests there is nothing to answer to: case 16, the idle timeout fires again. */
VisitTest(http_hostile, case_16_a_connection_that_is_kept_alive_for_nothing,
          " --request-timeout 30 --idle-timeout 1")
{
    expect_goes_on(fd);
    client_expect_end(fd);
}

/* Each of these takes less than the limit, all of them together take more. */
VisitTest(http_hostile, the_time_of_a_request_ends_with_it, " --request-timeout 1 --idle-timeout 0")
{
    for (int i = 0; i < 4; i++) {
        client_send_text(fd, "GET /page.txt HTTP/1.1\r\n");
        test_pause_ms(300);
        reply = *ask(fd, HOST "\r\n");
        expect_status(&reply, 200);
    }
}

/* ---- size ---- */

/* Sends a beginning and then one byte forever; what is answered, and how much it took. */
static size_t send_endless(int fd, const char *beginning, char filler)
{
    enum { MOST = 8 << 20 };
    static char block[65536];
    memset(block, filler, sizeof block);
    client_send_text(fd, beginning);
    return client_push(fd, block, sizeof block, MOST, 1000);
}

SiteTest(http_hostile, case_17_a_line_and_a_head_without_end, "")
{
    static const struct {
        const char *beginning;
        char filler;
        int status;
    } endless[] = {
        {"GET /", 'a', 414},
        {"", 'a', 414},
        {"GET / HTTP/1.1\r\n" HOST "X: ", 'a', 431},
        {"GET / HTTP/1.1\r\n" HOST, 'X', 431},
        {"\r\n", '\r', 414},
    };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        int fd = client_connect(server);
        long before = probe_resident_kib(server->pid);
        send_endless(fd, endless[i].beginning, endless[i].filler);
        long after = probe_resident_kib(server->pid);
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, endless[i].status, "`%s`: %d", endless[i].beginning,
                     reply.status);
        cr_assert(probe_sanitized() || after - before < 2048, "`%s`: %ld KiB more",
                  endless[i].beginning, after - before);
    }
}

SiteTest(http_hostile, case_17_the_longest_line_that_is_allowed, "")
{
    enum { MOST = 8192 };
    static char request[MOST + 64];
    for (int more = 0; more <= 1; more++) {
        size_t length = MOST + (size_t)more;
        int fd = client_connect(server);
        memset(request, 'a', sizeof request);
        memcpy(request, "GET /page.txt?", 14);
        snprintf(request + length - 9, 64, " HTTP/1.1\r\n" HOST "\r\n");
        client_send_text(fd, request);
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, more ? 414 : 200, "%d more: %d", more, reply.status);
    }
}

SiteTest(http_hostile, case_17_the_longest_head_that_is_allowed, " --max-line 500")
{
    enum { MOST = 502 }; /* --max-line and the two bytes of a line's end */
    for (int more = 0; more <= 1; more++) {
        char request[2 * MOST];
        int length = snprintf(request, sizeof request, "GET /page.txt HTTP/1.1\r\n" HOST "X: ");
        int fd = client_connect(server);
        memset(request + length, 'x', sizeof request - (size_t)length);
        snprintf(request + MOST - 4 + more, 8, "\r\n\r\n");
        client_send_text(fd, request);
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, more ? 431 : 200, "%d more: %d", more, reply.status);
    }
}

/* ---- on both sides of each limit ---- */

enum { LONGEST_REQUEST = 70000 };

/* A request of three parts, of which the middle is a letter as often as it takes. */
struct stretched {
    const char *before;
    const char *behind;
    int status;
};

static void expect_stretched(const struct server_process *server, const struct stretched *parts,
                             size_t letters)
{
    static char request[LONGEST_REQUEST + 4096];
    size_t before = strlen(parts->before);
    size_t behind = strlen(parts->behind);
    int fd = client_connect(server);
    memcpy(request, parts->before, before);
    memset(request + before, 'a', letters);
    memcpy(request + before + letters, parts->behind, behind);
    client_push(fd, request, before + letters + behind, before + letters + behind, 1000);
    reply_take(fd, &reply, false);
    cr_assert_eq(reply.status, parts->status, "`%s`, %zu letters, `%.20s`: %d, not %d",
                 parts->before, letters, parts->behind, reply.status, parts->status);
    client_close(fd);
}

#define VERSION " HTTP/1.1\r\n" HOST "\r\n"

/* The names of a path have room for 4096 bytes, with a zero behind each. */
SiteTest(http_hostile, case_17_paths_round_their_limit, "")
{
    static char long_name[4000] = "/";
    memset(long_name + 1, 'b', sizeof long_name - 2 - strlen(VERSION));
    strcat(long_name, VERSION);
    const struct stretched paths[] = {
        {"GET /", VERSION, 404},         {"GET /", "/" VERSION, 404},
        {"GET /", "/b" VERSION, 404},    {"GET /", "/b/" VERSION, 404},
        {"GET /", "//./b" VERSION, 404}, {"GET /./", "/." VERSION, 404},
        {"GET /folder/", VERSION, 404},  {"GET /%61", "/%62" VERSION, 404},
        {"GET /folder?", VERSION, 301},  {"GET http://test/", "/b" VERSION, 404},
        {"GET /", long_name, 404},
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        for (size_t letters = 4084; letters <= 4098; letters++) {
            expect_stretched(server, &paths[i], letters);
        }
    }
}

/* The whole request, or its line, has as many bytes as it may have, one more, or one less. */
SiteTest(http_hostile, case_17_requests_round_their_limits, "")
{
    enum { LINE = 8192, HEAD = 65538 }; /* --max-line and the two bytes of a line's end */
    static const struct {
        struct stretched parts;
        size_t limit;
        bool is_line; /* the limit is that of the line, which ends with HTTP/1.1 */
        int beyond;
    } requests[] = {
        {{"GET /", VERSION, 404}, LINE, true, 414},
        {{"GET /page.txt?", VERSION, 200}, LINE, true, 414},
        {{"GET /folder?", VERSION, 301}, LINE, true, 414},
        {{"GET http://test/page.txt?", VERSION, 200}, LINE, true, 414},
        {{"GET http://", VERSION, 200}, LINE, true, 414},
        {{"GET /", "/b" VERSION, 404}, LINE, true, 414},
        {{"PUT /", VERSION, 405}, LINE, true, 414},
        {{"", " / HTTP/1.1\r\n" HOST "\r\n", 501}, LINE, true, 414},
        {{"GET /page.txt HTTP/1.1\r\n" HOST "X: ", "\r\n\r\n", 200}, HEAD, false, 431},
        {{"GET /page.txt HTTP/1.1\r\n" HOST, ": x\r\n\r\n", 200}, HEAD, false, 431},
        {{"GET /page.txt HTTP/1.1\r\nHost: ", "\r\n\r\n", 200}, HEAD, false, 431},
        {{"GET /page.txt HTTP/1.1\r\n" HOST "Range: ", "\r\n\r\n", 200}, HEAD, false, 431},
        {{"GET /page.txt HTTP/1.1\r\n" HOST "If-None-Match: \"", "\"\r\n\r\n", 200},
         HEAD,
         false,
         431},
        {{"GET /page.txt HTTP/1.1\r\n" HOST "If-Match: \"", "\"\r\n\r\n", 412}, HEAD, false, 431},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        const char *behind = requests[i].parts.behind;
        const char *line_end = strstr(behind, "\r\n");
        size_t fixed = strlen(requests[i].parts.before) +
                       (requests[i].is_line ? (size_t)(line_end - behind) : strlen(behind));
        for (size_t length = requests[i].limit - 3; length <= requests[i].limit + 3; length++) {
            struct stretched parts = requests[i].parts;
            parts.status = length > requests[i].limit ? requests[i].beyond : parts.status;
            expect_stretched(server, &parts, length - fixed);
        }
    }
}

/* A body that is announced fits beside its head, or is not awaited; whatever is in it. */
SiteTest(http_hostile, case_17_bodies_round_their_limit, "")
{
    enum { MOST = 65538 };
    for (size_t total = MOST - 3; total <= MOST + 3; total++) {
        char head[128];
        int length = snprintf(head, sizeof head,
                              "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 00000\r\n\r\n");
        size_t body = total - (size_t)length;
        snprintf(head, sizeof head,
                 "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: %05zu\r\n\r\n", body);
        expect_stretched(server, &(struct stretched){head, "", total > MOST ? 413 : 200}, body);
    }
}

SiteTest(http_hostile, case_18_lengths_and_nul_bytes, "")
{
    static const char *const lengths[] = {"-1",  "+1",  "1,1", "0x1",
                                          "1 1", "one", "",    "99999999999999999999"};
    static const char nul[] = "GET /page.txt\0 HTTP/1.1\r\n" HOST "\r\n";
    static const char nul_in_field[] = "GET /page.txt HTTP/1.1\r\n" HOST "X: \0\r\n\r\n";
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char fields[128];
        int fd = client_connect(server);
        snprintf(fields, sizeof fields, "Content-Length: %s\r\n", lengths[i]);
        int status = get(fd, "/page.txt", fields)->status;
        cr_assert_eq(status, 400, "`%s`: %d", lengths[i], status);
        client_expect_end(fd);
        client_close(fd);
    }
    int fd = client_connect(server);
    client_send(fd, nul, sizeof nul - 1);
    reply_take(fd, &reply, false);
    expect_status(&reply, 400);
    client_close(fd);
    fd = client_connect(server);
    client_send(fd, nul_in_field, sizeof nul_in_field - 1);
    reply_take(fd, &reply, false);
    expect_status(&reply, 400);
}

/* The head of an error page and not a byte more, although the request is not read to its end. */
SiteTest(http_hostile, no_answer_to_head_has_a_body, " --request-timeout 0.3")
{
    static char line[9000];
    static char fields[70000];
    static const char *const halves_of_head[] = {
        "HEAD /page.txt HTTP/1.1\r\n",
        "\r\n\r\nHEAD /",
        "HEAD /page.txt HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\n123",
    };
    enum { HALVES_OF_HEAD = sizeof halves_of_head / sizeof halves_of_head[0] };
    memset(line, 'a', sizeof line - 1);
    memcpy(line, "\r\nHEAD /", 8);
    memset(fields, 'b', sizeof fields - 1);
    memcpy(fields, "HEAD / HTTP/1.1\r\nA: ", 20);
    const struct {
        const char *sent;
        int status;
    } heads[] = {{halves_of_head[0], 408},
                 {halves_of_head[1], 408},
                 {halves_of_head[2], 408},
                 {line, 414},
                 {fields, 431}};
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        int fd = client_connect(server);
        client_push(fd, heads[i].sent, strlen(heads[i].sent), strlen(heads[i].sent), 200);
        reply_head(fd, &reply);
        cr_assert_eq(reply.status, heads[i].status, "%zu: %d", i, reply.status);
        cr_assert_gt(reply.length, 0, "%zu", i);
        client_expect_end(fd);
        client_close(fd);
    }
    int fd = client_connect_send(server, "HEADS / HTTP/1.1\r\n");
    reply_take(fd, &reply, false);
    expect_status(&reply, 408);
    cr_assert_gt(reply.got, 0, "this was no HEAD");
}

/* ---- curiosity ---- */

SiteTest(http_hostile, nothing_leads_outside, "")
{
    static const char *const targets[] = {
        "/../secret",
        "/folder/../../secret",
        "/./../secret",
        "/..",
        "/.",
        "/%2e%2e/secret",
        "/%2E%2E/secret",
        "/.%2e/secret",
        "/%2e./secret",
        "/..%2fsecret",
        "/..%2Fsecret",
        "/%2e%2e%2fsecret",
        "/folder%2f..%2f..%2fsecret",
        "/..\\secret",
        "/..%5csecret",
        "/%5c..%5csecret",
        "/..%c0%afsecret",
        "/%c0%ae%c0%ae/secret",
        "/%e0%80%ae%e0%80%ae/secret",
        "/%252e%252e/secret",
        "/..%252fsecret",
        "/%u002e%u002e/secret",
        "//../secret",
        "///../secret",
        "/folder/..;/secret",
        "/link",
        "/linked/secret",
        "/linked",
        "/linked/",
        "/all/etc/passwd",
        "/deep/../link",
        "//etc/passwd",
        "/%2fetc/passwd",
        "//////etc/passwd",
        "/page.txt/../../secret",
        "/%00/../secret",
        "/page.txt%00",
        "/%00",
        "/..%00/secret",
        "http://test/../secret",
        "http://test//../secret",
        "http://../secret",
        "/.hidden",
        "/folder/.hidden",
        "/proc/self/environ",
        "/..?/secret",
        "/?../../secret",
        "/~root",
        "/-",
        "/%20",
    };
    char link[256];
    site_add(site, ".hidden", SITE_SECRET, strlen(SITE_SECRET));
    site_add(site, "folder/.hidden", SITE_SECRET, strlen(SITE_SECRET));
    snprintf(link, sizeof link, "%s/secret", site->top);
    cr_assert_eq(symlink(link, site_path(site, "link")), 0);
    cr_assert_eq(symlink(site->top, site_path(site, "linked")), 0);
    cr_assert_eq(symlink("/", site_path(site, "all")), 0);
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        int fd = client_connect(server);
        const struct reply *answer = get(fd, targets[i], "Connection: close\r\n");
        size_t got = answer->got;
        bool index = answer->status == 200 && got == 10;
        cr_expect(index || answer->status == 400 || answer->status == 403 || answer->status == 404,
                  "%s: %d", targets[i], answer->status);
        cr_expect_null(memmem(answer->body, got, SITE_SECRET, strlen(SITE_SECRET)), "%s",
                       targets[i]);
        cr_expect_null(memmem(answer->body, got, "root:", 5), "%s", targets[i]);
    }
}

/* ---- too many ---- */

#define LETTERS_50    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONGEST_PLACE LETTERS_50 LETTERS_50 LETTERS_50 LETTERS_50 LETTERS_50 ":8080"

/* Case 21: he is told so in HTTP. */
Test(http_hostile, case_21_one_client_too_many)
{
    static const struct {
        const char *option;
        const char *text;
        const char *location;
    } ways[] = {
        {"", "ERR server busy\n", NULL},
        {" --overload redirect=other.example:80", "ERR server busy, try other.example:80\n",
         "http://other.example:80/"},
        {" --overload redirect=[::1]:80", "ERR server busy, try [::1]:80\n", "http://[::1]:80/"},
        {" --overload redirect=" LONGEST_PLACE, "ERR server busy, try " LONGEST_PLACE "\n",
         "http://" LONGEST_PLACE "/"},
    };
    struct site site = site_open();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct server_process server =
            server_start("--app http --root %s --max-connections 1%s", site.root, ways[i].option);
        int first = client_connect(&server);
        expect_goes_on(first);
        int second = client_connect(&server);
        reply_take(second, &reply, false);
        expect_status(&reply, ways[i].location != NULL ? 307 : 503);
        expect_body(&reply, ways[i].text);
        const char *location = reply_field(&reply, "Location");
        cr_assert_str_eq(location != NULL ? location : "",
                         ways[i].location != NULL ? ways[i].location : "");
        client_expect_end(second);
        expect_goes_on(first);
        client_close(first);
        client_close(second);
        server_stop(&server);
    }
    site_close(&site);
}

/**
 * Clients that each hold a connection and, if he can, a file, until there are no descriptors left;
 * beside one that holds a connection alone, or not. How many got their file, and how many an error.
 */
static void use_up_descriptors(const struct site *site, bool odd, int *served, int *refused)
{
    enum { DESCRIPTORS = 60, CLIENTS = 40 };
    int fds[CLIENTS];
    struct server_process server =
        server_start_limited((struct server_limits){.descriptors = DESCRIPTORS},
                             "--app http --root %s --max-connections 1000", site->root);
    int idle = odd ? client_connect(&server) : -1;
    for (int i = 0; i < CLIENTS; i++) {
        size_t got;
        char head[13] = "";
        fds[i] = client_connect_with(&server, (struct client_buffers){.receive = 4096});
        client_send_text(fds[i], "GET /large.bin HTTP/1.1\r\n" HOST "\r\n");
        client_try_receive(fds[i], head, 12, test_deadline(), &got);
        *served += strcmp(head, "HTTP/1.1 200") == 0;
        if (strcmp(head, "HTTP/1.1 503") == 0) {
            static char rest[2048];
            ++*refused;
            enum client_outcome outcome =
                client_try_receive(fds[i], rest, sizeof rest, test_deadline(), &got);
            cr_assert_eq(outcome, CLIENT_ENDED, "it still holds a descriptor");
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        client_reset(fds[i]);
    }
    if (odd) {
        client_close(idle);
    }
    long long at_the_door = server_counter(&server, "rejected");
    server_await_counter(&server, "closed", *served + *refused - at_the_door);
    int fd = client_connect(&server);
    expect_goes_on(fd);
    server_close_all(&server);
}

/* If the connection takes the last one, there is an answer, and the connection's is free again. */
Test(http_hostile, without_a_free_descriptor_a_file_is_not_served_now)
{
    struct site site = site_open();
    site_add_sparse(&site, "large.bin", 8 << 20);
    int refused = 0;
    for (int odd = 0; odd <= 1; odd++) {
        int served = 0;
        int refused_here = 0;
        use_up_descriptors(&site, odd, &served, &refused_here);
        cr_assert_gt(served, 5, "%d served", served);
        refused += refused_here;
    }
    cr_assert_gt(refused, 0);
    site_close(&site);
}

/* Out of descriptors, past what --max-connections was to keep: the text is HTTP as well. */
Test(http_hostile, case_19_out_of_descriptors_is_said_in_http)
{
    static const struct {
        const char *option;
        const char *text;
        int status;
    } ways[] = {
        {"", "ERR server busy\n", 503},
        {" --overload redirect=other.example:80", "ERR server busy, try other.example:80\n", 307},
    };
    enum { DESCRIPTORS = 32 };
    struct site site = site_open();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        int clients[DESCRIPTORS];
        int count = 0;
        struct server_process server = server_start_limited(
            (struct server_limits){.descriptors = DESCRIPTORS},
            "--app http --root %s --max-connections 1000%s", site.root, ways[i].option);
        do {
            cr_assert_lt(count, DESCRIPTORS, "nobody is turned away");
            clients[count] = client_connect(&server);
            client_send_text(clients[count], "PUT / HTTP/1.1\r\n" HOST "\r\n"); /* no file */
            reply_take(clients[count++], &reply, false);
        } while (reply.status == 405);
        expect_status(&reply, ways[i].status);
        expect_body(&reply, ways[i].text);
        client_expect_end(clients[count - 1]);
        while (count > 0) {
            client_close(clients[--count]);
        }
        server_stop(&server);
    }
    site_close(&site);
}

/* The default --max-connections leaves everybody who is let in the descriptors of a request. */
Test(http_hostile, case_19_all_that_are_let_in_can_have_their_files)
{
    enum { DESCRIPTORS = 64, CLIENTS = 60 };
    static const char request[] = "GET /folder/large.bin HTTP/1.1\r\n" HOST "\r\n";
    int clients[CLIENTS];
    int served = 0;
    struct site site = site_open();
    site_add_sparse(&site, "folder/large.bin", 8 << 20);
    struct server_process server = server_start_limited(
        (struct server_limits){.descriptors = DESCRIPTORS}, "--app http --root %s", site.root);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = client_connect_with(&server, (struct client_buffers){.receive = 4096});
    }
    for (int i = 0; i < CLIENTS; i++) {
        char head[13] = "";
        size_t got;
        double end = test_deadline();
        client_try_send(clients[i], request, sizeof request - 1, end);
        client_try_receive(clients[i], head, 12, end, &got);
        served += strcmp(head, "HTTP/1.1 200") == 0;
    }
    long long let_in = server_counter(&server, "accepted");
    cr_assert_geq(let_in, 10, "only %lld clients are let in", let_in);
    cr_assert_eq(served, let_in, "%lld clients are let in, and %d get their file", let_in, served);
    for (int i = 0; i < CLIENTS; i++) {
        client_reset(clients[i]);
    }
    server_stop(&server);
    site_close(&site);
}

/* An answer that is left out would be taken for the answer to the next request. */
Test(http_hostile, policies_that_drop_requests_are_refused)
{
    if (!server_has_option("--saturation"))
        cr_skip_test("no workers, so no policy");
    static const char *const policies[] = {"discard", "discard-oldest"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        char why[96];
        struct program_result result =
            program_run("--app http --root . --port 0 --workers 1 --saturation %s", policies[i]);
        snprintf(why, sizeof why, "with --app http, got '%s'", policies[i]);
        cr_assert_not(result.started || result.late, "`%s` started", result.command);
        cr_assert_eq(result.exit_status, 2, "%d: %s", result.exit_status, result.err);
        cr_assert_not_null(strstr(result.err, why), "%s", result.err);
    }
}
