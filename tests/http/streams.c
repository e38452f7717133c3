/*
 * Requests as a stream: in pieces, many at a time, with bodies behind them, and what ends it.
 */
#include "site.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(http_streams, .timeout = 120);

#define HOST "Host: test\r\n"
#define PAGE "GET /page.txt HTTP/1.1\r\n" HOST "\r\n"

static struct reply reply;

static void expect_page(int fd, const char *what)
{
    reply_take(fd, &reply, false);
    cr_assert_eq(reply.status, 200, "%s: %d", what, reply.status);
    expect_body(&reply, "a page\n");
}

VisitTest(http_streams, case_01_byte_by_byte, "")
{
    for (const char *c = "\r\n" PAGE; *c != '\0'; c++) {
        client_send(fd, c, 1);
        client_await_delivered(fd);
    }
    expect_page(fd, "byte by byte");
}

/* Good and bad, cut in two at every place: the answer is that to the whole. */
SiteTest(http_streams, the_pieces_do_not_matter, "")
{
    static const struct {
        const char *sent;
        int status;
    } requests[] = {
        {PAGE, 200},
        {"GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n12345", 200},
        {"GET /page.txt HTTP/1.1\r\n" HOST "\n", 400},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        size_t length = strlen(requests[i].sent);
        for (size_t cut = 1; cut < length; cut++) {
            int fd = client_connect(server);
            client_send(fd, requests[i].sent, cut);
            client_await_delivered(fd);
            client_send(fd, requests[i].sent + cut, length - cut);
            reply_take(fd, &reply, false);
            cr_assert_eq(reply.status, requests[i].status, "request %zu cut at %zu: %d", i, cut,
                         reply.status);
            client_close(fd);
        }
    }
}

/* Answers come in the order of the requests, errors among them. */
VisitTest(http_streams, case_02_a_hundred_pipelined_requests_in_one_segment, "")
{
    enum { REQUESTS = 100 };
    static char requests[65536];
    for (int i = 0; i < REQUESTS; i++) {
        char name[32];
        char content[32];
        snprintf(name, sizeof name, "file%d", i);
        snprintf(content, sizeof content, "content %d", i);
        site_add(site, name, content, strlen(content));
        snprintf(requests + strlen(requests), 256, "%s /%s%d HTTP/1.1\r\n" HOST "\r\n",
                 i % 10 == 9 ? "HEAD" : "GET", i % 10 == 7 ? "none" : "file", i);
    }
    client_send_text(fd, requests);
    for (int i = 0; i < REQUESTS; i++) {
        char content[32];
        reply_take(fd, &reply, i % 10 == 9);
        cr_assert_eq(reply.status, i % 10 == 7 ? 404 : 200, "request %d: %d", i, reply.status);
        if (i % 10 != 7 && i % 10 != 9) {
            snprintf(content, sizeof content, "content %d", i);
            expect_body(&reply, content);
        }
    }
}

/* The client sends them all before it reads; what does not fit waits in the sockets. */
SiteTest(http_streams, case_02_ten_thousand_pipelined_requests, "")
{
    enum { REQUESTS = 10000 };
    const size_t length = strlen(PAGE);
    char *requests = malloc(REQUESTS * length);
    int fd = client_connect_with(server, (struct client_buffers){.send = 4 << 20});
    for (size_t i = 0; i < REQUESTS; i++) {
        memcpy(requests + i * length, PAGE, length);
    }
    size_t sent = client_push(fd, requests, REQUESTS * length, REQUESTS * length, 200);
    size_t whole = 0;
    while (whole < REQUESTS) {
        expect_page(fd, "pipelined");
        whole++;
        if (sent < REQUESTS * length) {
            sent += client_push(fd, requests + sent, REQUESTS * length - sent,
                                REQUESTS * length - sent, 0);
        }
    }
    free(requests);
}

SiteTest(http_streams, case_03_what_comes_after_the_last_request_is_not_executed, "")
{
    static const struct {
        const char *sent;
        int status;
    } last[] = {
        {"GET / HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 200},
        {"GET / HTTP/1.0\r\n\r\n", 200},
        {"GET / HTTP/3.0\r\n\r\n", 505},
        {"nonsense\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\n", 413},
    };
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++) {
        char requests[1024];
        int fd = client_connect(server);
        snprintf(requests, sizeof requests, PAGE "%s" PAGE PAGE, last[i].sent);
        client_send_text(fd, requests);
        expect_page(fd, "the first one");
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, last[i].status, "`%s`: %d", last[i].sent, reply.status);
        client_expect_end(fd);
    }
}

/* Case 6: who says that he sends no more is still answered. */
VisitTest(http_streams, case_06_a_client_that_half_closes_gets_all_its_answers, "")
{
    client_send_text(fd, PAGE PAGE "GET /pa");
    client_half_close(fd);
    expect_page(fd, "first");
    expect_page(fd, "second");
    client_expect_end(fd);
}

/* ---- bodies ---- */

/* Whatever is in it: what looks like a request there is none. */
VisitTest(http_streams, a_body_is_dropped_and_the_next_request_is_found, "")
{
    static char body[60000];
    static char request[70000];
    const size_t lengths[] = {0, 1, sizeof PAGE - 1, 5000, sizeof body - 1};
    memset(body, 'x', sizeof body - 1);
    memcpy(body, PAGE, sizeof PAGE - 1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        snprintf(request, sizeof request,
                 "GET /folder/ HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n%.*s" PAGE,
                 lengths[i], (int)lengths[i], body);
        client_send_text(fd, request);
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, 200, "body of %zu: %d", lengths[i], reply.status);
        expect_body(&reply, "a folder\n");
        expect_page(fd, "behind a body");
    }
}

VisitTest(http_streams, an_answer_waits_for_the_end_of_the_body, "")
{
    client_send_text(fd, "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 4\r\n\r\n12");
    client_await_delivered(fd);
    client_expect_silence(fd, 50);
    client_send_text(fd, "34" PAGE);
    expect_page(fd, "with a body");
    expect_page(fd, "behind it");
}

/* The largest body is what fits beside its head; of a larger one nothing is awaited. */
SiteTest(http_streams, the_largest_body, " --max-line 1000")
{
    enum { MOST = 1002 }; /* --max-line and the two bytes of a line's end */
    for (int more = 0; more <= 1; more++) {
        char request[2 * MOST];
        int fd = client_connect(server);
        const char head[] = "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 000\r\n\r\n";
        int body = MOST - (int)strlen(head) + more;
        int length = snprintf(request, sizeof request,
                              "GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", body);
        cr_assert_eq(length, (int)strlen(head));
        memset(request + length, 'x', (size_t)body);
        client_send(fd, request, (size_t)(length + body));
        reply_take(fd, &reply, false);
        cr_assert_eq(reply.status, more ? 413 : 200, "%d more: %d", more, reply.status);
        if (more) {
            client_expect_end(fd);
        } else {
            expect_goes_on(fd);
        }
    }
}

/* He gets the answer instead of a 100, and may send the body or not: so that is the end. */
SiteTest(http_streams, who_asks_whether_to_send_a_body_is_answered_at_once, "")
{
    for (int sends = 0; sends <= 1; sends++) {
        int fd = client_connect(server);
        client_send_text(fd, "GET /page.txt HTTP/1.1\r\n" HOST
                             "Content-Length: 40\r\nExpect: 100-continue\r\n\r\n");
        expect_page(fd, "instead of a 100");
        cr_assert_str_eq(reply_field(&reply, "Connection"), "close");
        if (sends) {
            client_send_text(fd, PAGE);
        }
        client_expect_end(fd);
    }
}

/* Two readers of each of these could find two different second requests: so there is none. */
SiteTest(http_streams, requests_are_not_smuggled, "")
{
    static const char *const heads[] = {
        "Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding:\tchunked\r\nTransfer-Encoding: x\r\n",
        "Transfer-Encoding : chunked\r\n",
        "X: a\r\n Transfer-Encoding: chunked\r\n",
        "X: a\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 0\r\nContent-Length: 6\r\n",
        "Content-Length: 6\r\nContent-Length: 6\r\n",
        "Content-Length: 0, 6\r\n",
        "Content-Length: +6\r\n",
        "Content-Length : 6\r\n",
        "Content-Length: 6\r\r\n",
        "X: a\rContent-Length: 6\r\n",
    };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        char request[512];
        int fd = client_connect(server);
        snprintf(request, sizeof request, "POST / HTTP/1.1\r\n" HOST "%s\r\n0\r\n\r\nX" PAGE,
                 heads[i]);
        client_send_text(fd, request);
        reply_take(fd, &reply, false);
        cr_assert(reply.status == 400 || reply.status == 501, "`%s`: %d", heads[i], reply.status);
        client_expect_end(fd);
    }
}
