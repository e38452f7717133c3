/*
 * The reader of HTTP heads: what it takes, what it refuses, and that no bytes whatever get it to
 * read outside of them.
 */
#include "common/apps/http/http_request.h"
#include "helpers.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(http_request, .timeout = 120);

/* Reads a head that lies at the very end of its memory, so that a sanitizer sees one byte more. */
static enum http_status read_bytes(struct http_request *request, const void *bytes, size_t length)
{
    static unsigned char *copy;
    free(copy);
    copy = malloc(length > 0 ? length : 1);
    memcpy(copy, bytes, length);
    return http_request_read(request, (struct message){copy, length});
}

static enum http_status read_text(struct http_request *request, const char *text)
{
    return read_bytes(request, text, strlen(text));
}

/* A GET of 1.1 with these fields beside Host. */
static enum http_status read_fields(struct http_request *request, const char *fields)
{
    char text[4096];
    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: x\r\n%s\r\n", fields);
    return read_text(request, text);
}

static void expect_text(struct message text, const char *expected)
{
    cr_assert_eq(text.length, strlen(expected), "`%.*s`, not `%s`", (int)text.length,
                 (const char *)text.data, expected);
    cr_assert_eq(memcmp(text.data, expected, text.length), 0, "`%.*s`, not `%s`", (int)text.length,
                 (const char *)text.data, expected);
}

/* ---- request lines ---- */

static const struct line {
    const char *line;
    enum http_status status;
    const char *path; /* NULL: it does not matter */
} lines[] = {
    {"GET / HTTP/1.1", HTTP_OK, "/"},
    {"GET /a/b.html?c=d HTTP/1.1", HTTP_OK, "/a/b.html"},
    {"GET /?q HTTP/1.1", HTTP_OK, "/"},
    {"GET /a%20b HTTP/1.1", HTTP_OK, "/a%20b"},
    {"GET //x//y HTTP/1.1", HTTP_OK, "//x//y"},
    {"GET http://host/a HTTP/1.1", HTTP_OK, "/a"},
    {"GET HTTP://host:80/a?b HTTP/1.1", HTTP_OK, "/a"},
    {"GET http://host HTTP/1.1", HTTP_OK, "/"},
    {"GET http://host?q HTTP/1.1", HTTP_OK, "/"},
    {"GET http://[::1]:80/ HTTP/1.1", HTTP_OK, "/"},
    {"GET / HTTP/1.9", HTTP_OK, "/"},
    {"GET http:///a HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET http:// HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET http://user@host/ HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET http://ho\"st/ HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET https://host/ HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET ftp://host/ HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET a HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET * HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET ?a HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /a#b HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /\x80 HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /\x7f HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /\t HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET  / HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET  HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /  HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/1.1 ", HTTP_BAD_REQUEST, NULL},
    {" GET / HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET / a HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET\t/\tHTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET /", HTTP_BAD_REQUEST, NULL},
    {"GET", HTTP_BAD_REQUEST, NULL},
    {"GET / ", HTTP_BAD_REQUEST, NULL},
    {"GET / http/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/11", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/1.10", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/1.x", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/x.1", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/1,1", HTTP_BAD_REQUEST, NULL},
    {"GET / FTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"GET / HTTP/2.0", HTTP_VERSION_UNSUPPORTED, NULL},
    {"GET / HTTP/0.9", HTTP_VERSION_UNSUPPORTED, NULL},
    {"G(T / HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"G\x01T / HTTP/1.1", HTTP_BAD_REQUEST, NULL},
    {"OPTIONS * HTTP/1.1", HTTP_OK, NULL},
    {"CONNECT host:80 HTTP/1.1", HTTP_OK, NULL},
};

Test(http_request, request_lines)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char text[256];
        struct http_request request;
        snprintf(text, sizeof(text), "%s\r\nHost: x\r\n\r\n", lines[i].line);
        enum http_status status = read_text(&request, text);
        cr_assert_eq(status, lines[i].status, "`%s`: %d, not %d", lines[i].line, (int)status,
                     (int)lines[i].status);
        if (lines[i].path != NULL)
            expect_text(request.path, lines[i].path);
    }
}

Test(http_request, a_nul_byte_is_refused_wherever_it_stands)
{
    static const char text[] = "GET /a HTTP/1.1\r\nHost: x\r\nFoo: bar\r\n\r\n";
    struct http_request request;
    cr_assert_eq(read_bytes(&request, text, sizeof(text) - 1), HTTP_OK);
    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        char bytes[sizeof(text)];
        memcpy(bytes, text, sizeof(text));
        bytes[i] = '\0';
        cr_assert_neq(read_bytes(&request, bytes, sizeof(text) - 1), HTTP_OK, "at %zu", i);
    }
}

Test(http_request, methods)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {
        {"GET", HTTP_METHOD_GET},      {"HEAD", HTTP_METHOD_HEAD},
        {"POST", HTTP_METHOD_OTHER},   {"PUT", HTTP_METHOD_OTHER},
        {"DELETE", HTTP_METHOD_OTHER}, {"TRACE", HTTP_METHOD_OTHER},
        {"PATCH", HTTP_METHOD_OTHER},  {"get", HTTP_METHOD_UNKNOWN},
        {"GETT", HTTP_METHOD_UNKNOWN}, {"GE", HTTP_METHOD_UNKNOWN},
        {"BREW", HTTP_METHOD_UNKNOWN}, {"!#$%&'*+-.^_`|~", HTTP_METHOD_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        char text[64];
        struct http_request request;
        snprintf(text, sizeof(text), "%s / HTTP/1.1\r\nHost: x\r\n\r\n", methods[i].name);
        cr_assert_eq(read_text(&request, text), HTTP_OK, "%s", methods[i].name);
        cr_assert_eq(request.method, methods[i].method, "%s", methods[i].name);
    }
}

Test(http_request, the_longest_line_and_one_byte_more)
{
    for (int more = 0; more <= 1; more++) {
        static char text[HTTP_LINE_MAX + 64];
        static const char version[] = " HTTP/1.1";
        struct http_request request;
        size_t length = HTTP_LINE_MAX + (size_t)more;
        memset(text, 'a', sizeof(text));
        memcpy(text, "GET /", 5);
        memcpy(text + length - strlen(version), version, strlen(version));
        strcpy(text + length, "\r\nHost: x\r\n\r\n");
        cr_assert_eq(read_text(&request, text), more ? HTTP_TARGET_TOO_LONG : HTTP_OK, "%d", more);
    }
}

/* For the answer, which has no body if it was HEAD. */
Test(http_request, the_method_is_known_whatever_is_wrong_behind_it)
{
    static char long_line[HTTP_LINE_MAX + 64];
    memset(long_line, 'a', sizeof(long_line) - 1);
    memcpy(long_line, "HEAD /", 6);
    memcpy(long_line + sizeof(long_line) - 9, "\r\n\r\n", 5);
    const char *const heads[] = {long_line, "HEAD\t", "HEAD  / HTTP/1.1\r\n\r\n",
                                 "HEAD / HTTP/1.1\r\nA\r\n\r\n",
                                 "HEAD / HTTP/2.0\r\nHost: a\r\n\r\n"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct http_request request;
        cr_assert_neq(read_text(&request, heads[i]), HTTP_OK, "%zu", i);
        cr_assert_eq(request.method, i == 1 ? HTTP_METHOD_GET : HTTP_METHOD_HEAD, "%zu", i);
    }
}

Test(http_request, empty_lines_before_a_request_are_passed_over)
{
    struct http_request request;
    cr_assert_eq(read_text(&request, "\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n"), HTTP_OK);
    expect_text(request.path, "/a");
    cr_assert_eq(read_text(&request, "\r\n"), HTTP_BAD_REQUEST);
}

/* ---- fields ---- */

static const struct {
    const char *fields;
    enum http_status status;
} field_lists[] = {
    {"", HTTP_OK},
    {"Foo: bar\r\n", HTTP_OK},
    {"Foo:bar\r\n", HTTP_OK},
    {"Foo:\r\n", HTTP_OK},
    {"Foo: \t bar \t \r\n", HTTP_OK},
    {"Foo: b\xc3\xa4r\r\n", HTTP_OK},
    {"!#$%&'*+-.^_`|~: x\r\n", HTTP_OK},
    {"Foo : bar\r\n", HTTP_BAD_REQUEST},
    {"Foo\t: bar\r\n", HTTP_BAD_REQUEST},
    {" Foo: bar\r\n", HTTP_BAD_REQUEST},
    {": bar\r\n", HTTP_BAD_REQUEST},
    {"Foo\r\n", HTTP_BAD_REQUEST},
    {"F(o: bar\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\r\n b\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\r\n\tb\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\rb\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\r\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\n", HTTP_BAD_REQUEST},
    {"Foo: a\nBar: b\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\x01\r\n", HTTP_BAD_REQUEST},
    {"Foo: a\x7f\r\n", HTTP_BAD_REQUEST},
    {"Host: y\r\n", HTTP_BAD_REQUEST}, /* a second one */
    {"Expect: 100-continue\r\n", HTTP_OK},
    {"Expect: 100-Continue\r\nContent-Length: 5\r\n", HTTP_OK},
    {"Expect: something\r\n", HTTP_EXPECTATION_FAILED},
    {"Transfer-Encoding: chunked\r\n", HTTP_NOT_IMPLEMENTED},
    {"Transfer-Encoding: Chunked\r\n", HTTP_NOT_IMPLEMENTED},
    {"Transfer-Encoding: gzip, chunked\r\n", HTTP_NOT_IMPLEMENTED},
    {"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked ,\r\n", HTTP_NOT_IMPLEMENTED},
    /* where the last encoding is another, nobody can say where the body ends */
    {"Transfer-Encoding: chunked, gzip\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: chunked;a=b\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: xchunked\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: identity\r\n", HTTP_BAD_REQUEST},
    {"transfer-encoding:\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: ,,\r\n", HTTP_BAD_REQUEST},
    {"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", HTTP_BAD_REQUEST},
    {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", HTTP_BAD_REQUEST},
    {"Content-Length: 0\r\nTransfer-Encoding: x\r\n", HTTP_BAD_REQUEST},
};

Test(http_request, fields)
{
    for (size_t i = 0; i < sizeof(field_lists) / sizeof(field_lists[0]); i++) {
        struct http_request request;
        enum http_status status = read_fields(&request, field_lists[i].fields);
        cr_assert_eq(status, field_lists[i].status, "`%s`: %d, not %d", field_lists[i].fields,
                     (int)status, (int)field_lists[i].status);
    }
}

Test(http_request, case_18_lengths_that_are_none)
{
    static const char *const bad[] = {"-1",
                                      "+1",
                                      "-0",
                                      "1 2",
                                      "1,1",
                                      "1, 1",
                                      "0x10",
                                      "1.0",
                                      "one",
                                      "",
                                      " ",
                                      "1a",
                                      "٣",
                                      "18446744073709551616",
                                      "99999999999999999999999999999999",
                                      "1\t2",
                                      "\"1\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char fields[128];
        struct http_request request;
        snprintf(fields, sizeof(fields), "Content-Length: %s\r\n", bad[i]);
        cr_assert_eq(read_fields(&request, fields), HTTP_BAD_REQUEST, "`%s`", bad[i]);
    }
}

Test(http_request, case_18_lengths_that_are_some)
{
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {{"0", 0},     {"00", 0},      {"7", 7},
                {"0012", 12}, {"  42\t", 42}, {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char fields[128];
        struct http_request request;
        snprintf(fields, sizeof(fields), "Content-Length: %s\r\n", good[i].text);
        cr_assert_eq(read_fields(&request, fields), HTTP_OK, "`%s`", good[i].text);
        cr_assert_eq(request.body, good[i].value, "`%s`", good[i].text);
    }
}

Test(http_request, case_18_two_lengths_are_one_too_many)
{
    struct http_request request;
    cr_assert_eq(read_fields(&request, "Content-Length: 5\r\nContent-Length: 5\r\n"),
                 HTTP_BAD_REQUEST);
    cr_assert_eq(read_fields(&request, "Content-Length: 5\r\ncontent-length: 6\r\n"),
                 HTTP_BAD_REQUEST);
}

Test(http_request, a_hundred_fields_and_one_more)
{
    for (int more = 0; more <= 1; more++) {
        static char fields[4096];
        struct http_request request;
        fields[0] = '\0';
        for (int i = 1; i < HTTP_FIELDS_MAX + more; i++) /* and Host */
            strcat(fields, "A: b\r\n");
        cr_assert_eq(read_fields(&request, fields), more ? HTTP_HEAD_TOO_LARGE : HTTP_OK);
    }
}

Test(http_request, hosts)
{
    static const struct {
        const char *text;
        enum http_status status;
    } heads[] = {
        {"GET / HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
        {"GET http://x/ HTTP/1.1\r\n\r\n", HTTP_BAD_REQUEST},
        {"GET / HTTP/1.0\r\n\r\n", HTTP_OK},
        {"GET / HTTP/1.1\r\nHost:\r\n\r\n", HTTP_OK},
        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", HTTP_OK},
        {"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", HTTP_BAD_REQUEST},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct http_request request;
        cr_assert_eq(read_text(&request, heads[i].text), heads[i].status, "`%s`", heads[i].text);
    }
}

/* By the grammar of RFC 3986, in the field and, if it is not empty, in the absolute form. */
Test(http_request, what_a_host_is_made_of)
{
    static const char *const good[] = {
        "a",
        "A.example.org",
        "a.example.org:8080",
        "a:",
        "127.0.0.1:80",
        "999.1",
        "a_b~c",
        "a!$&'()*+,;=b",
        "%41%e4",
        "[::]",
        "[::1]",
        "[::1]:80",
        "[::1]:",
        "[2001:db8::1:2:3]",
        "[1:2:3:4:5:6:7:8]",
        "[1:2:3:4:5:6:127.0.0.1]",
        "[::FFFF:127.0.0.1]:7",
        "[v1.a]",
        "[vA0.a:b!]:80",
        "..a",
        "a:00000000000000000000000000000080",
    };
    static const char *const bad[] = {
        "a/b",
        "a b",
        "a@b",
        "a\"b",
        "a<b",
        "a|b",
        "a\x80",
        "b:xyz",
        "b:8x",
        "b:-1",
        "b:+1",
        "123.40.56.78:9000:80",
        "a:b:c",
        "::1",
        "[::1",
        "::1]",
        "[]",
        "[:]",
        "[:::]",
        "[::1]x",
        "[::1]80",
        "[::1]:x",
        "[::1]]",
        "[[::1]]",
        "x[::1]",
        "extra[abcd::1]",
        "[abcd::1",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1::2::3]",
        "[12345::]",
        "[g::]",
        "[::1.2.3]",
        "[::1.2.3.256]",
        "[::1%25eth0]",
        "[127.0.0.1]",
        "[a]",
        "[v.a]",
        "[v1]",
        "[v1.]",
        "[vg.a]",
        "[v1.a/b]",
        "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]",
        "%",
        "%4",
        "%4g",
        "a%",
    };
    enum { GOOD = sizeof(good) / sizeof(good[0]), BAD = sizeof(bad) / sizeof(bad[0]) };
    for (size_t i = 0; i < GOOD + BAD; i++) {
        const char *host = i < GOOD ? good[i] : bad[i - GOOD];
        enum http_status expected = i < GOOD ? HTTP_OK : HTTP_BAD_REQUEST;
        char text[256];
        struct http_request request;
        snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
        cr_expect_eq(read_text(&request, text), expected, "Host: %s", host);
        if (strchr(host, '/') != NULL)
            continue; /* it would be the end of the host */
        snprintf(text, sizeof(text), "GET http://%s/b HTTP/1.1\r\nHost: x\r\n\r\n", host);
        cr_expect_eq(read_text(&request, text), expected, "http://%s/b", host);
        snprintf(text, sizeof(text), "HEAD HTTP://%s?c HTTP/1.1\r\nHost: x\r\n\r\n", host);
        cr_expect_eq(read_text(&request, text), expected, "http://%s?c", host);
    }
}

Test(http_request, an_empty_host)
{
    struct http_request request;
    cr_assert_eq(read_text(&request, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), HTTP_OK);
    cr_assert_eq(read_text(&request, "GET http://:80/ HTTP/1.1\r\nHost: x\r\n\r\n"),
                 HTTP_BAD_REQUEST);
}

Test(http_request, who_keeps_the_connection)
{
    static const struct {
        const char *head;
        bool closes;
    } heads[] = {
        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: CLOSE\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: foo, close\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: a\r\nConnection:  close ,b\r\n\r\n", true},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: closed\r\n\r\n", false},
        {"GET / HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, close\r\n\r\n", true},
        {"GET / HTTP/1.0\r\n\r\n", true},
        {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", false},
        {"GET / HTTP/1.0\r\nConnection: Keep-Alive, close\r\n\r\n", true},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        struct http_request request;
        cr_assert_eq(read_text(&request, heads[i].head), HTTP_OK, "`%s`", heads[i].head);
        cr_assert_eq(request.closes, heads[i].closes, "`%s`", heads[i].head);
    }
}

Test(http_request, who_waits_for_an_answer)
{
    struct http_request request;
    read_fields(&request, "Expect: 100-continue\r\nContent-Length: 5\r\n");
    cr_assert(request.waits);
    read_fields(&request, "Expect: 100-continue\r\n");
    cr_assert_not(request.waits, "there is nothing to send");
    read_text(&request, "GET / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    cr_assert_not(request.waits, "1.0 has no Expect");
}

Test(http_request, conditions_and_ranges)
{
    struct http_request request;
    read_fields(&request, "range: bytes=1-2\r\nIf-Range: \"a\"\r\nIF-NONE-MATCH: \"b\", \"c\"\r\n"
                          "If-Modified-Since:  Sun, 06 Nov 1994 08:49:37 GMT \r\n");
    expect_text(request.range, "bytes=1-2");
    expect_text(request.if_range, "\"a\"");
    cr_assert_eq(request.if_none_match.count, 1);
    expect_text(request.if_none_match.fields[0], "\"b\", \"c\"");
    expect_text(request.if_modified_since, "Sun, 06 Nov 1994 08:49:37 GMT");
    read_fields(&request, "if-match: \"d\"\r\nIf-Unmodified-Since:yesterday\r\n");
    cr_assert_eq(request.if_match.count, 1);
    expect_text(request.if_match.fields[0], "\"d\"");
    expect_text(request.if_unmodified_since, "yesterday");
    cr_assert_null(request.range.data);
    cr_assert_eq(request.if_none_match.count, 0);
    read_fields(&request, "Range: bytes=1-2\r\nRange: bytes=3-4\r\n");
    expect_text(request.range, "");
}

/* As many as there is room for; a list of which one part is lost would be another list. */
Test(http_request, lists_in_several_fields_are_kept_in_their_order)
{
    struct http_request request;
    char text[(HTTP_LIST_MAX + 1) * sizeof("If-Match: \"0\"\r\n")] = "";
    for (int i = 0; i < HTTP_LIST_MAX; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "If-Match: \"%d\"\r\n", i);
    read_fields(&request, text);
    cr_assert_eq(request.if_match.count, HTTP_LIST_MAX);
    expect_text(request.if_match.fields[0], "\"0\"");
    expect_text(request.if_match.fields[HTTP_LIST_MAX - 1], "\"7\"");
    strcat(text, "If-Match: \"8\"\r\n");
    static char head[1024];
    snprintf(head, sizeof(head), "GET /a HTTP/1.1\r\nHost: x\r\n%s\r\n", text);
    cr_assert_eq(read_text(&request, head), HTTP_HEAD_TOO_LARGE);
}

Test(http_request, the_query_is_kept_apart)
{
    struct http_request request;
    read_text(&request, "GET /a?b?c%00 HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_text(request.path, "/a");
    expect_text(request.query, "?b?c%00");
    read_text(&request, "GET http://x?a/b HTTP/1.1\r\nHost: x\r\n\r\n");
    expect_text(request.path, "/");
    expect_text(request.query, "?a/b");
    read_text(&request, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_assert_eq(request.query.length, 0);
}

/* ---- any bytes ---- */

/* What follows the first empty line is nothing to the reader, and whatever it reads stays inside.
 */
Test(http_request, any_bytes_get_an_answer)
{
    static const char alphabet[] = "GET / HTTP/1.1\r\n\r\n:Host: x\r\nContent-Length: 1,\t\"\0\x80";
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        struct rng rng = rng_from(seed);
        unsigned char bytes[120];
        size_t length = rng_below(&rng, sizeof(bytes));
        static const char start[] = "GET /a HTTP/1.1\r\nHost: x\r\n";
        size_t kept = rng_below(&rng, sizeof(start));
        for (size_t i = 0; i < length; i++)
            bytes[i] =
                (unsigned char)(i < kept ? start[i] : alphabet[rng_below(&rng, sizeof(alphabet))]);
        struct http_request request;
        enum http_status status = read_bytes(&request, bytes, length);
        if (status == HTTP_OK && request.path.length > 0)
            cr_assert_eq(request.path.data[0], '/', "seed %d", (int)seed);
    }
}

/* Each head that is cut short is refused. */
Test(http_request, no_part_of_a_head_is_a_head)
{
    static const char text[] = "GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n";
    for (size_t length = 0; length < sizeof(text) - 1; length++) {
        struct http_request request;
        cr_assert_eq(read_bytes(&request, text, length), HTTP_BAD_REQUEST, "%zu bytes", length);
    }
}
