/*
 * What is answered to which request, and whether the connection goes on afterwards.
 */
#include "site.h"
#include "support/probe.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

TestSuite(http_answers, .timeout = 120);

SiteTest(http_answers, the_server_says_that_it_serves_http, "")
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%s: http on 127.0.0.1:%d", server_name(), server->port);
    cr_assert_str_eq(server->ready_line, wanted);
}

VisitTest(http_answers, a_file_with_what_is_told_of_it, "")
{
    struct stat status;
    char modified[64];
    const struct reply *reply = get(fd, "/page.txt", "");
    expect_status(reply, 200);
    expect_body(reply, "a page\n");
    cr_assert_str_eq(reply_field(reply, "Content-Type"), "text/plain; charset=utf-8");
    cr_assert_str_eq(reply_field(reply, "Accept-Ranges"), "bytes");
    cr_assert_null(reply_field(reply, "Connection"));
    cr_assert_eq(stat(site_path(site, "page.txt"), &status), 0);
    strftime(modified, sizeof modified, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&status.st_mtime));
    cr_assert_str_eq(reply_field(reply, "Last-Modified"), modified);
    cr_assert_eq(reply_field(reply, "ETag")[0], '"');
    cr_assert_eq(strlen(reply_field(reply, "Date")), 29);
}

VisitTest(http_answers, folders, "")
{
    const struct reply *reply = get(fd, "/", "");
    expect_status(reply, 200);
    expect_body(reply, "the index\n");
    cr_assert_str_eq(reply_field(reply, "Content-Type"), "text/html; charset=utf-8");
    reply = get(fd, "/folder/", "");
    expect_status(reply, 200);
    expect_body(reply, "a folder\n");
    reply = get(fd, "/folder", "");
    expect_status(reply, 301);
    cr_assert_str_eq(reply_field(reply, "Location"), "./folder/");
    reply = get(fd, "/folder?a=%0d%0aX:%20b&c?d", "");
    expect_status(reply, 301);
    cr_assert_str_eq(reply_field(reply, "Location"), "./folder/?a=%0d%0aX:%20b&c?d");
    reply = get(fd, "http://test/./folder?", "");
    expect_status(reply, 301);
    cr_assert_str_eq(reply_field(reply, "Location"), "./folder/?");
    reply = get(fd, "/./folder/.", "");
    expect_status(reply, 200);
    expect_body(reply, "a folder\n");
    expect_goes_on(fd);
}

/* Nothing of a name is taken for anything but a name where the client is sent on. */
VisitTest(http_answers, a_folder_with_an_odd_name, "")
{
    mkdir(site_path(site, "a:b \xc3\xa4\\\r\nX: y"), 0755);
    const struct reply *reply = get(fd, "//a:b%20%c3%a4%5c%0D%0aX:%20y", "");
    expect_status(reply, 301);
    cr_assert_str_eq(reply_field(reply, "Location"), "./a%3Ab%20%C3%A4%5C%0D%0AX%3A%20y/");
    cr_assert_null(reply_field(reply, "X"));
}

/* The same head, length included, and no body: the next reply follows at once. */
VisitTest(http_answers, a_head_is_the_head_of_a_get, "")
{
    static const char *const targets[] = {"/page.txt", "/folder", "/nothing", "/empty"};
    static struct reply got;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        char request[128];
        got = *get(fd, targets[i], "");
        snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\nHost: test\r\n\r\n", targets[i]);
        const struct reply *head = ask(fd, request);
        static const char *const same[] = {"Content-Length", "Content-Type", "ETag",
                                           "Last-Modified",  "Location",     "Accept-Ranges"};
        cr_assert_eq(head->status, got.status, "%s", targets[i]);
        for (size_t j = 0; j < sizeof same / sizeof same[0]; j++) {
            char of_get[256];
            const char *value = reply_field(&got, same[j]);
            snprintf(of_get, sizeof of_get, "%s", value ? value : "none");
            value = reply_field(head, same[j]);
            cr_assert_str_eq(value ? value : "none", of_get, "%s of %s", same[j], targets[i]);
        }
        expect_goes_on(fd);
    }
}

VisitTest(http_answers, an_empty_file, "")
{
    const struct reply *reply = get(fd, "/empty", "");
    expect_status(reply, 200);
    cr_assert_eq(reply->length, 0);
    expect_goes_on(fd);
}

/* ---- a status for each request, and what becomes of the connection ---- */

#define HOST "Host: test\r\n"

static const struct exchange {
    const char *request;
    int status;
    bool closes;
} exchanges[] = {
    {"GET /page.txt HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 200, true},
    {"GET /page.txt HTTP/1.0\r\n\r\n", 200, true},
    {"GET /page.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, false},
    {"GET http://test/page.txt HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"GET http://test HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"\r\nGET /page.txt HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"HEAD /page.txt HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"GET /folder HTTP/1.1\r\n" HOST "\r\n", 301, false},
    {"GET /.hidden HTTP/1.1\r\n" HOST "\r\n", 403, false},
    {"GET /nothing HTTP/1.1\r\n" HOST "\r\n", 404, false},
    {"POST /page.txt HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 405, false},
    {"DELETE /page.txt HTTP/1.1\r\n" HOST "\r\n", 405, false},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", 405, false},
    {"CONNECT test:80 HTTP/1.1\r\n" HOST "\r\n", 405, false},
    {"BREW /pot HTTP/1.1\r\n" HOST "\r\n", 501, false},
    {"GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400, false},
    {"GET /page.txt HTTP/1.1\r\n\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST HOST "\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\n" HOST "\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "\n\r\n", 400, true},
    {"GET /page.txt\r\n\r\n", 400, true},
    {"GET  /page.txt HTTP/1.1\r\n" HOST "\r\n", 400, true},
    {"GET page.txt HTTP/1.1\r\n" HOST "\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Folded: a\r\n b\r\n\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Space : a\r\n\r\n", 400, true},
    {"nonsense\r\n\r\n", 400, true},
    {"GET /page.txt HTTP/2.0\r\n" HOST "\r\n", 505, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 501, true},
    {"POST /page.txt HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, gzip\r\n\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\nHost: [::1\r\n\r\n", 400, true},
    {"GET http://123.40.56.78:9000:80/ HTTP/1.1\r\n" HOST "\r\n", 400, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "If-Match: *\r\n\r\n", 200, false},
    {"GET /page.txt HTTP/1.1\r\n" HOST "If-Match: \"x\"\r\nRange: bytes=0-1\r\n\r\n", 412, false},
    {"HEAD /page.txt HTTP/1.1\r\n" HOST "If-Match: \"x\"\r\n\r\n", 412, false},
    {"GET /page.txt HTTP/1.1\r\n" HOST "If-Match: \"x\"\r\nIf-Match: \"y\"\r\n\r\n", 412, false},
    {"GET /page.txt HTTP/1.1\r\n" HOST "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n",
     412, false},
    {"GET /nothing HTTP/1.1\r\n" HOST "If-Match: \"x\"\r\n\r\n", 404, false},
    {"GET /folder HTTP/1.1\r\n" HOST "If-Match: \"x\"\r\n\r\n", 301, false},
    {"GET /empty HTTP/1.1\r\n" HOST "Range: bytes=-5\r\n\r\n", 200, false},
    {"GET /./page.txt HTTP/1.1\r\n" HOST "\r\n", 200, false},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Expect: wonders\r\n\r\n", 417, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 65536\r\n\r\n", 413, true},
    {"GET /page.txt HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\n", 413, true},
};

SiteTest(http_answers, statuses, "")
{
    static struct reply reply;
    for (size_t i = 0; i < sizeof exchanges / sizeof exchanges[0]; i++) {
        const struct exchange *e = &exchanges[i];
        int fd = client_connect_send(server, e->request);
        reply_take(fd, &reply, e->request[0] == 'H');
        cr_assert_eq(reply.status, e->status, "`%s`: %d, not %d", e->request, reply.status,
                     e->status);
        const char *connection = reply_field(&reply, "Connection");
        bool told = connection && strcmp(connection, "close") == 0;
        cr_assert_eq(told, e->closes, "`%s`: Connection: %s", e->request,
                     connection ? connection : "(nothing)");
        if (e->closes) {
            client_expect_end(fd);
        } else {
            expect_goes_on(fd);
        }
    }
}

VisitTest(http_answers, a_method_that_is_not_allowed_is_told_which_are, "")
{
    const struct reply *reply = ask(fd, "PUT / HTTP/1.1\r\n" HOST "Content-Length: 2\r\n\r\nhi");
    expect_status(reply, 405);
    cr_assert_str_eq(reply_field(reply, "Allow"), "GET, HEAD");
}

VisitTest(http_answers, keep_alive_is_confirmed_to_http_1_0, "")
{
    const struct reply *reply = ask(fd, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    cr_assert_str_eq(reply_field(reply, "Connection"), "keep-alive");
}

/* ---- conditions and ranges ---- */

VisitTest(http_answers, what_the_client_has_already_is_not_sent, "")
{
    char fields[256];
    char date[64];
    const struct reply *reply = get(fd, "/page.txt", "");
    snprintf(date, sizeof date, "%s", reply_field(reply, "Last-Modified"));
    snprintf(fields, sizeof fields, "If-None-Match: \"x\", %s\r\n", reply_field(reply, "ETag"));
    reply = get(fd, "/page.txt", fields);
    expect_status(reply, 304);
    cr_assert_not_null(reply_field(reply, "ETag"));
    cr_assert_null(reply_field(reply, "Content-Length"));
    expect_goes_on(fd);

    snprintf(fields, sizeof fields, "If-Modified-Since: %s\r\n", date);
    expect_status(get(fd, "/page.txt", fields), 304);
    expect_goes_on(fd);

    /* Another content, of the same length and in the same second: the tag tells. */
    reply = get(fd, "/page.txt", "");
    snprintf(fields, sizeof fields, "If-None-Match: %s\r\n", reply_field(reply, "ETag"));
    site_add(site, "new", "B page\n", 7);
    char from[512];
    snprintf(from, sizeof from, "%s", site_path(site, "new"));
    cr_assert_eq(rename(from, site_path(site, "page.txt")), 0);
    reply = get(fd, "/page.txt", fields);
    expect_status(reply, 200);
    expect_body(reply, "B page\n");
}

/* From memory, and from the file: small and large ranges of a large file. */
VisitTest(http_answers, ranges, "")
{
    enum { SIZE = 200000 };
    static unsigned char data[SIZE];
    static const struct {
        const char *range;
        int status;
        size_t start;
        size_t length;
        const char *told;
    } ranges[] = {
        {"bytes=0-0", 206, 0, 1, "bytes 0-0/200000"},
        {"bytes=100-199", 206, 100, 100, "bytes 100-199/200000"},
        {"bytes=150000-", 206, 150000, 50000, "bytes 150000-199999/200000"},
        {"bytes=-10", 206, 199990, 10, "bytes 199990-199999/200000"},
        {"bytes=1-999999", 206, 1, 199999, "bytes 1-199999/200000"},
        {"bytes=200000-", 416, 0, 0, "bytes */200000"},
        {"bytes=0-1,3-4", 200, 0, SIZE, NULL},
        {"bytes=5-4", 200, 0, SIZE, NULL},
        {"nonsense", 200, 0, SIZE, NULL},
    };
    site_pattern(data, sizeof data);
    site_add(site, "data.bin", data, sizeof data);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        char fields[128];
        snprintf(fields, sizeof fields, "Range: %s\r\n", ranges[i].range);
        const struct reply *reply = get(fd, "/data.bin", fields);
        cr_assert_eq(reply->status, ranges[i].status, "%s: %d", ranges[i].range, reply->status);
        const char *told = reply_field(reply, "Content-Range");
        cr_assert_str_eq(told ? told : "", ranges[i].told ? ranges[i].told : "", "%s",
                         ranges[i].range);
        if (reply->status != 416) {
            cr_assert_eq(reply->got, ranges[i].length, "%s: %zu", ranges[i].range, reply->got);
            cr_assert_eq(memcmp(reply->body, data + ranges[i].start, reply->got), 0, "%s",
                         ranges[i].range);
        }
    }
}

VisitTest(http_answers, a_part_of_another_content_is_not_sent, "")
{
    char fields[256];
    const struct reply *reply = get(fd, "/page.txt", "");
    snprintf(fields, sizeof fields, "Range: bytes=2-5\r\nIf-Range: %s\r\n",
             reply_field(reply, "ETag"));
    reply = get(fd, "/page.txt", fields);
    expect_status(reply, 206);
    expect_body(reply, "page");
    reply = get(fd, "/page.txt", "Range: bytes=2-5\r\nIf-Range: \"other\"\r\n");
    expect_status(reply, 200);
    expect_body(reply, "a page\n");

    /* By its date: only if the file cannot change any more without another date. */
    const struct timespec times[2] = {{.tv_sec = 784111777}, {.tv_sec = 784111777}};
    const struct timespec tomorrow = {.tv_sec = time(NULL) + 86400};
    const struct timespec future[2] = {tomorrow, tomorrow};
    cr_assert_eq(utimensat(AT_FDCWD, site_path(site, "page.txt"), times, 0), 0);
    reply = get(fd, "/page.txt", "Range: bytes=2-5\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    expect_status(reply, 206);
    cr_assert_eq(utimensat(AT_FDCWD, site_path(site, "page.txt"), future, 0), 0);
    do {
        reply = get(fd, "/page.txt", "");
        snprintf(fields, sizeof fields, "Range: bytes=2-5\r\nIf-Range: %s\r\n",
                 reply_field(reply, "Last-Modified"));
        reply = get(fd, "/page.txt", fields);
        expect_status(reply, 200);
    } while (strstr(fields, reply_field(reply, "Last-Modified")) == NULL); /* another second */
}

/* A file is opened for each of these, and whatever the answer is, it is closed again. */
VisitTest(http_answers, no_file_stays_open, "")
{
    static const char *const fields[] = {
        "",
        "Range: bytes=0-1\r\n",
        "Range: bytes=9999999-\r\n",
        "If-None-Match: *\r\n",
        "If-Match: \"x\"\r\n",
    };
    static unsigned char data[100000];
    static const char *const targets[] = {"/page.txt", "/data.bin", "/folder", "/folder/", "/no"};
    site_add(site, "data.bin", data, sizeof data);
    expect_goes_on(fd);
    long before = probe_descriptors(server->pid);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        for (size_t j = 0; j < sizeof targets / sizeof targets[0]; j++) {
            char request[256];
            get(fd, targets[j], fields[i]);
            snprintf(request, sizeof request, "HEAD %s HTTP/1.1\r\nHost: test\r\n%s\r\n",
                     targets[j], fields[i]);
            ask(fd, request);
            cr_assert(probe_await_descriptors(server->pid, before), "%s with `%s`", targets[j],
                      fields[i]);
        }
    }
}

/* ---- the command line ---- */

Test(http_answers, a_root_that_is_not_there)
{
    char wanted[256];
    struct program_result result = program_run("--port 0 --app http --root /nowhere/at/all");
    cr_assert_not(result.started);
    cr_assert_eq(result.exit_status, 1);
    cr_assert_str_eq(result.out, "");
    snprintf(wanted, sizeof wanted, "cannot serve /nowhere/at/all: No such file or directory\"\n");
    cr_assert_not_null(strstr(result.err, wanted), "`%s`", result.err);
    cr_assert_null(strstr(result.err, "make docs"), "`%s`", result.err);
}

Test(http_answers, the_default_root_is_built_by_make_docs)
{
    static char program[4096];
    char elsewhere[] = "/tmp/http-elsewhere.XXXXXX";
    cr_assert_not_null(realpath(server_program(), program));
    cr_assert_not_null(mkdtemp(elsewhere));
    cr_assert_eq(setenv("SERVER", program, 1), 0);
    cr_assert_eq(chdir(elsewhere), 0);
    struct program_result result = program_run("--port 0 --app http");
    rmdir(elsewhere);
    cr_assert_eq(result.exit_status, 1);
    cr_assert_not_null(strstr(result.err, "cannot serve build/site: No such file or directory "
                                          "(make docs builds it)\"\n"),
                       "`%s`", result.err);
}

Test(http_answers, a_root_that_is_a_file)
{
    struct site site = site_open();
    struct program_result result =
        program_run("--port 0 --app http --root %s", site_path(&site, "page.txt"));
    cr_assert_eq(result.exit_status, 1);
    cr_assert_not_null(strstr(result.err, "Not a directory"), "`%s`", result.err);
    result = program_run("--app http --root=");
    cr_assert_eq(result.exit_status, 2);
    cr_assert_not_null(strstr(result.err, "--root: expected the name of a folder, got ''"), "`%s`",
                       result.err);
    site_close(&site);
}
