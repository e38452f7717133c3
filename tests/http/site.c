/*
 * A folder of files to be served: see site.h.
 */
#include "site.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

static void write_file(const char *path, const void *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    cr_assert(fd >= 0, "%s: %s", path, strerror(errno));
    cr_assert_eq(write(fd, data, length), (ssize_t)length, "%s", path);
    close(fd);
}

const char *site_path(const struct site *site, const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", site->root, name);
    return path;
}

void site_add(const struct site *site, const char *name, const void *data, size_t length)
{
    write_file(site_path(site, name), data, length);
}

void site_add_sparse(const struct site *site, const char *name, off_t size)
{
    int fd = open(site_path(site, name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    cr_assert(fd >= 0, "%s: %s", name, strerror(errno));
    cr_assert_eq(ftruncate(fd, size), 0);
    for (off_t at = 0; at + (off_t)sizeof at <= size; at += 65536) {
        cr_assert_eq(pwrite(fd, &at, sizeof at, at), (ssize_t)sizeof at);
    }
    close(fd);
}

void site_pattern(unsigned char *data, size_t length)
{
    unsigned long long state = 88172645463325252ULL;
    for (size_t i = 0; i < length; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        data[i] = (unsigned char)state;
    }
}

struct site site_open(void)
{
    struct site site = {.top = "/tmp/http-site.XXXXXX"};
    char path[SITE_NAME_SIZE + 16];
    cr_assert_not_null(mkdtemp(site.top), "%s", strerror(errno));
    snprintf(site.root, sizeof site.root, "%s/root", site.top);
    cr_assert_eq(mkdir(site.root, 0755), 0);
    cr_assert_eq(mkdir(site_path(&site, "folder"), 0755), 0);
    snprintf(path, sizeof path, "%s/secret", site.top);
    write_file(path, SITE_SECRET, strlen(SITE_SECRET));
    site_add(&site, "index.html", "the index\n", 10);
    site_add(&site, "page.txt", "a page\n", 7);
    site_add(&site, "folder/index.html", "a folder\n", 9);
    site_add(&site, "empty", "", 0);
    return site;
}

void site_close(const struct site *site)
{
    char command[SITE_NAME_SIZE + 16];
    snprintf(command, sizeof command, "rm -rf %s", site->top);
    cr_assert_eq(system(command), 0); // NOLINT: the name is ours
}

/* ---- replies ---- */

/** Takes what has come of the head, and not a byte more. False once the connection has ended. */
static bool take_some_head(int fd, struct reply *reply, size_t *length, bool *whole)
{
    char *to = reply->head + *length;
    ssize_t there = recv(fd, to, sizeof reply->head - 1 - *length, MSG_PEEK);
    if (there <= 0) {
        return there < 0 && errno == EAGAIN && test_await(fd, POLLIN, test_deadline());
    }
    to[there] = '\0';
    char *end = strstr(*length >= 3 ? to - 3 : reply->head, "\r\n\r\n");
    size_t taken = end ? (size_t)(end + 4 - to) : (size_t)there;
    recv(fd, to, taken, 0);
    *length += taken;
    reply->head[*length] = '\0';
    *whole = end != NULL;
    return true;
}

void reply_head_at(const char *where, int fd, struct reply *reply)
{
    size_t length = 0;
    bool whole = false;
    reply->status = 0;
    reply->length = -1;
    reply->got = 0;
    reply->head[0] = '\0';
    while (!whole && length < sizeof reply->head - 1 &&
           take_some_head(fd, reply, &length, &whole)) {
    }
    if (length == 0) {
        return;
    }
    cr_assert(whole, "%s: half a head: `%s`", where, reply->head);
    cr_assert_eq(sscanf(reply->head, "HTTP/1.1 %3d ", &reply->status), 1, "%s: `%s`", where,
                 reply->head);
    const char *told = reply_field(reply, "Content-Length");
    reply->length = told ? strtoll(told, NULL, 10) : -1;
}

void reply_take_at(const char *where, int fd, struct reply *reply, bool to_head)
{
    reply_head_at(where, fd, reply);
    if (to_head || reply->length <= 0) {
        return;
    }
    cr_assert_leq((size_t)reply->length, sizeof reply->body, "%s", where);
    enum client_outcome outcome =
        client_try_receive(fd, reply->body, (size_t)reply->length, test_deadline(), &reply->got);
    cr_assert_eq(outcome, CLIENT_GOT, "%s: %zu of %lld bytes, then %s", where, reply->got,
                 reply->length, client_outcome_text(outcome));
}

const char *reply_field(const struct reply *reply, const char *name)
{
    static char value[1024];
    size_t length = strlen(name);
    const char *line = strstr(reply->head, "\r\n");
    while (line && strcmp(line, "\r\n\r\n") != 0) {
        line += 2;
        const char *end = strstr(line, "\r\n");
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            snprintf(value, sizeof value, "%.*s", (int)(end - line - (long)length - 2),
                     line + length + 2);
            return value;
        }
        line = end;
    }
    return NULL;
}

const struct reply *ask_at(const char *where, int fd, const char *request)
{
    static struct reply reply;
    client_send_text_at(where, fd, request);
    reply_take_at(where, fd, &reply, strncmp(request, "HEAD ", 5) == 0);
    return &reply;
}

const struct reply *get_at(const char *where, int fd, const char *target, const char *fields)
{
    static char request[65536];
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: test\r\n%s\r\n", target, fields);
    return ask_at(where, fd, request);
}
