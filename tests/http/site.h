/*
 * A folder of files to be served, and what clients of it say and hear.
 *
 * Rules:
 * - A site lies in a temporary folder, beside a file that nobody may get to see. It is closed at
 * the end of a test body; one that fails leaves its folder behind.
 * - Replies are taken from the socket exactly, so that what comes next can be looked at.
 * - The asserting functions are for the main thread of a test.
 */
#ifndef TESTS_HTTP_SITE_H
#define TESTS_HTTP_SITE_H

#include "support/client.h"
#include "support/deadline.h"
#include "support/server_process.h"

#include <sys/types.h>

#define SITE_SECRET "the secret beside the site"

enum {
    SITE_NAME_SIZE = 64,
    REPLY_HEAD_SIZE = 16384,
    REPLY_BODY_SIZE = 262144,
};

struct site {
    char top[SITE_NAME_SIZE];       /* has the root in it, and `secret` */
    char root[SITE_NAME_SIZE + 16]; /* what is served */
};

/** Makes one with index.html, page.txt, folder/index.html and empty. */
struct site site_open(void);

/** Adds a file with these bytes below the root. */
void site_add(const struct site *site, const char *name, const void *data, size_t length);

/** Adds a file of that size with a hole in it; every 64 KiB its offset is written. */
void site_add_sparse(const struct site *site, const char *name, off_t size);

/** The path of a file below the root; good until the next call. */
const char *site_path(const struct site *site, const char *name);

/** Fills with bytes that differ from place to place. */
void site_pattern(unsigned char *data, size_t length);

void site_close(const struct site *site);

/** Starts a server for the site: site_serve(&site, "--request-timeout 1"). */
#define site_serve(site, options)                                                                  \
    server_start("--app http --root %s" options, (site)->root) /* options begin with a space */

/** A test that has `site` and `server`, pointers: a site, and a server of it with these options. */
#define SiteTest(suite, name, options)                                                             \
    static void suite##_##name##_at(const struct site *site, struct server_process *server);       \
    TestWith(suite, name, struct site, site, *site = site_open(), site_close(site))                \
    {                                                                                              \
        struct server_process server = site_serve(site, options);                                  \
        suite##_##name##_at(site, &server);                                                        \
        server_close_all(&server);                                                                 \
    }                                                                                              \
    static void suite##_##name##_at(const struct site *site __attribute__((unused)),               \
                                    struct server_process *server __attribute__((unused)))

/** The same with `fd`, a connection to the server. */
#define VisitTest(suite, name, options)                                                            \
    static void suite##_##name##_by(const struct site *site, struct server_process *server,        \
                                    int fd);                                                       \
    SiteTest(suite, name, options)                                                                 \
    {                                                                                              \
        suite##_##name##_by(site, server, client_connect(server));                                 \
    }                                                                                              \
    static void suite##_##name##_by(const struct site *site __attribute__((unused)),               \
                                    struct server_process *server __attribute__((unused)), int fd)

/* ---- replies ---- */

struct reply {
    int status; /* 0: there was none, and the connection has ended */
    char head[REPLY_HEAD_SIZE];
    long long length; /* Content-Length; -1: none was told */
    size_t got;       /* of the body */
    unsigned char body[REPLY_BODY_SIZE];
};

/** Takes a reply's head. status is 0 if the connection ends before its first byte. */
#define reply_head(fd, reply) reply_head_at(HERE, fd, reply)
void reply_head_at(const char *where, int fd, struct reply *reply);

/** Takes a whole reply; to a HEAD it has no body. */
#define reply_take(fd, reply, to_head) reply_take_at(HERE, fd, reply, to_head)
void reply_take_at(const char *where, int fd, struct reply *reply, bool to_head);

/** A field's value, by its name; NULL if it is not there. Good until the next call. */
const char *reply_field(const struct reply *reply, const char *name);

/** Sends a request and takes the reply to it: the last one, valid until the next call. */
#define ask(fd, request) ask_at(HERE, fd, request)
const struct reply *ask_at(const char *where, int fd, const char *request);

/** As ask(), of a GET with HTTP/1.1 and these further fields, each with its line end. */
#define get(fd, target, fields) get_at(HERE, fd, target, fields)
const struct reply *get_at(const char *where, int fd, const char *target, const char *fields);

#define expect_status(reply, wanted)                                                               \
    cr_assert_eq((reply)->status, wanted, "status %d, not %d:\n%s", (reply)->status, wanted,       \
                 (reply)->head)

#define expect_body(reply, text)                                                                   \
    cr_assert((reply)->got == strlen(text) && memcmp((reply)->body, text, (reply)->got) == 0,      \
              "body `%.*s`, not `%s`", (int)(reply)->got, (const char *)(reply)->body, text)

/** The connection still serves. */
#define expect_goes_on(fd) expect_status(get(fd, "/page.txt", ""), 200)

#endif
