/*
 * Clients that others have written: curl, Python's http.client, wrk. Where one is not installed,
 * its test is left out.
 */
#include "site.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(http_real_clients, .timeout = 120);

enum { SIZE = 5000000 };

static unsigned char data[SIZE];

/** Runs a command for a shell; its status. What it prints goes to `out` beside the site. */
__attribute__((format(printf, 2, 3))) static int run(const struct site *site, const char *format,
                                                     ...)
{
    char command[4096];
    va_list arguments;
    int length = snprintf(command, sizeof command, "cd %s && (", site->top);
    va_start(arguments, format);
    length += vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    snprintf(command + length, sizeof command - (size_t)length, ") >out 2>err </dev/null");
    return system(command); // NOLINT: that is what it is for
}

/** What was printed by the last command that was run. */
static const char *output(const struct site *site, const char *name)
{
    static char text[65536];
    char path[128];
    snprintf(path, sizeof path, "%s/%s", site->top, name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[length] = '\0';
    return text;
}

static bool is_installed(const char *program)
{
    char command[128];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", program);
    return system(command) == 0; // NOLINT
}

static struct site open_with_data(void)
{
    struct site site = site_open();
    site_pattern(data, sizeof data);
    site_add(&site, "data.bin", data, sizeof data);
    return site;
}

/* ---- curl ---- */

Test(http_real_clients, curl)
{
    if (!is_installed("curl")) {
        cr_skip_test("curl is not installed");
    }
    struct site site = open_with_data();
    struct server_process server = site_serve(&site, "");
    char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server.port);
    cr_expect_eq(run(&site, "curl -sS -f %s/data.bin | cmp - root/data.bin", url), 0, "%s",
                 output(&site, "err"));
    cr_expect_eq(run(&site, "curl -sS -f -L %s/folder", url), 0);
    cr_expect_str_eq(output(&site, "out"), "a folder\n");
    cr_expect_eq(run(&site, "curl -sS -f -r 2-5 %s/page.txt", url), 0);
    cr_expect_str_eq(output(&site, "out"), "page");
    cr_expect_eq(run(&site, "curl -sS -f -I %s/page.txt", url), 0);
    cr_expect_not_null(strstr(output(&site, "out"), "Content-Length: 7\r\n"));
    cr_expect_eq(
        run(&site, "curl -sS -o /dev/null -w '%%{http_code}' --path-as-is %s/../secret", url), 0);
    cr_expect_str_eq(output(&site, "out"), "403");

    /* The beginning, and then the rest of it. */
    cr_expect_eq(run(&site,
                     "head -c 1000000 root/data.bin >part && "
                     "curl -sS -f -C - -o part %s/data.bin && cmp part root/data.bin",
                     url),
                 0, "%s", output(&site, "err"));

    /* What it has already is not sent again. */
    cr_expect_eq(run(&site, "curl -sS -f -o copy -R %s/page.txt", url), 0);
    cr_expect_eq(run(&site, "curl -sS -f -o again -z copy -w '%%{http_code}' %s/page.txt", url), 0);
    cr_expect_str_eq(output(&site, "out"), "304");
    cr_expect_eq(run(&site, "curl -sS -f --etag-save tag -o copy %s/page.txt", url), 0);
    cr_expect_eq(
        run(&site, "curl -sS -f --etag-compare tag -o again -w '%%{http_code}' %s/page.txt", url),
        0);
    cr_expect_str_eq(output(&site, "out"), "304");

    /* A form, and a file that is put. */
    cr_expect_eq(run(&site, "curl -sS -o /dev/null -w '%%{http_code}' -d a=b %s/", url), 0);
    cr_expect_str_eq(output(&site, "out"), "405");
    cr_expect_eq(
        run(&site, "curl -sS -o /dev/null -w '%%{http_code}' -T root/data.bin %s/put", url), 0);
    cr_expect_str_eq(output(&site, "out"), "405");
    server_stop(&server);
    site_close(&site);
}

/* Ten files by one connection: a second one would say so. */
Test(http_real_clients, curl_keeps_its_connection)
{
    if (!is_installed("curl")) {
        cr_skip_test("curl is not installed");
    }
    struct site site = open_with_data();
    struct server_process server = site_serve(&site, "");
    cr_expect_eq(run(&site, "curl -sS -f 'http://127.0.0.1:%d/page.txt?[1-10]'", server.port), 0);
    cr_expect_eq(strlen(output(&site, "out")), 10 * strlen("a page\n"));
    cr_expect_eq(server_counter(&server, "accepted"), 1);
    server_stop(&server);
    site_close(&site);
}

/* ---- Python ---- */

static const char script[] =
    "import http.client, sys\n"
    "data = open('root/data.bin', 'rb').read()\n"
    "c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]), timeout=20)\n"
    "def ask(method, path, status, headers={}, body=None):\n"
    "    c.request(method, path, headers=headers, body=body)\n"
    "    r = c.getresponse()\n"
    "    content = r.read()\n"
    "    assert r.status == status, (method, path, r.status)\n"
    "    return r, content\n"
    "r, content = ask('GET', '/data.bin', 200)\n"
    "assert content == data\n"
    "assert r.getheader('Content-Type') == 'application/octet-stream'\n"
    "sock = c.sock\n"
    "r, content = ask('HEAD', '/data.bin', 200)\n"
    "assert content == b'' and int(r.getheader('Content-Length')) == len(data)\n"
    "r, content = ask('GET', '/data.bin', 206, {'Range': 'bytes=1000000-1999999'})\n"
    "assert content == data[1000000:2000000]\n"
    "ask('GET', '/data.bin', 416, {'Range': 'bytes=5000000-'})\n"
    "ask('GET', '/data.bin', 304, {'If-None-Match': r.getheader('ETag')})\n"
    "ask('GET', '/nothing', 404)\n"
    "ask('POST', '/page.txt', 405, body=b'x' * 50000)\n"
    "ask('GET', '/page.txt', 200, body=b'x' * 50000)\n"
    "assert c.sock is sock, 'another connection'\n"
    "ask('POST', '/page.txt', 501, body=iter([b'a', b'b']))\n"
    "ask('GET', '/page.txt', 200)\n"
    "print('done')\n";

Test(http_real_clients, python)
{
    if (!is_installed("python3")) {
        cr_skip_test("python3 is not installed");
    }
    struct site site = open_with_data();
    struct server_process server = site_serve(&site, "");
    site_add(&site, "script.py", script, sizeof script - 1);
    run(&site, "python3 root/script.py %d", server.port);
    cr_expect_str_eq(output(&site, "out"), "done\n", "%s", output(&site, "err"));
    server_stop(&server);
    site_close(&site);
}

/* ---- wrk ---- */

SiteTest(http_real_clients, wrk, "")
{
    if (!is_installed("wrk")) {
        cr_skip_test("wrk is not installed");
    }
    cr_expect_eq(run(site, "wrk -t 1 -c 50 -d 1 http://127.0.0.1:%d/page.txt", server->port), 0,
                 "%s", output(site, "err"));
    const char *text = output(site, "out");
    cr_expect_not_null(strstr(text, "requests in"), "%s", text);
    cr_expect_null(strstr(text, "Socket errors"), "%s", text);
    cr_expect_null(strstr(text, "Non-2xx"), "%s", text);
}
