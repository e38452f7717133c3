/*
 * Paths of HTTP requests, and the files that they lead to: none outside of the root, whatever is
 * asked for and whoever moves what meanwhile.
 */
#include "common/apps/http/http_files.h"
#include "common/apps/http/http_types.h"
#include "helpers.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

TestSuite(http_path, .timeout = 120);

static enum http_status read_path(struct http_path *path, const char *text)
{
    return http_path_read(path, (struct message){(const unsigned char *)text, strlen(text)});
}

/* The names with slashes between them, and one at the end if it is a folder. */
static const char *joined(const struct http_path *path)
{
    static char text[HTTP_PATH_MAX + 2];
    text[0] = '\0';
    for (const char *name = http_path_first(path); name != NULL;
         name = http_path_next(path, name)) {
        strcat(text, "/");
        strcat(text, name);
    }
    return strcat(text, path->is_folder ? "/" : "");
}

static const struct reading {
    const char *text;
    enum http_status status;
    const char *names;
} readings[] = {
    {"/", HTTP_OK, "/"},
    {"/a", HTTP_OK, "/a"},
    {"/a/", HTTP_OK, "/a/"},
    {"/a/b.html", HTTP_OK, "/a/b.html"},
    {"//a///b//", HTTP_OK, "/a/b/"},
    {"/%61%2D%7a", HTTP_OK, "/a-z"},
    {"/a%20b", HTTP_OK, "/a b"},
    {"/%25", HTTP_OK, "/%"},
    {"/%2561", HTTP_OK, "/%61"},
    {"/a..b", HTTP_OK, "/a..b"},
    {"/a.", HTTP_OK, "/a."},
    {"/%c0%af", HTTP_OK, "/\xc0\xaf"},
    {"/a\\..\\b", HTTP_OK, "/a\\..\\b"},
    {"/%5c", HTTP_OK, "/\\"},
    {"/..", HTTP_FORBIDDEN, NULL},
    {"/../a", HTTP_FORBIDDEN, NULL},
    {"/a/../b", HTTP_FORBIDDEN, NULL},
    {"/a/..", HTTP_FORBIDDEN, NULL},
    {"/.", HTTP_OK, "/"},
    {"/./", HTTP_OK, "/"},
    {"/./a", HTTP_OK, "/a"},
    {"/a/./b", HTTP_OK, "/a/b"},
    {"/a/.", HTTP_OK, "/a/"},
    {"/a/./", HTTP_OK, "/a/"},
    {"/././/./a/././/b/./.", HTTP_OK, "/a/b/"},
    {"/%2e", HTTP_OK, "/"},
    {"/%2E/a", HTTP_OK, "/a"},
    {"/./..", HTTP_FORBIDDEN, NULL},
    {"/./.a", HTTP_FORBIDDEN, NULL},
    {"/.%2fa", HTTP_FORBIDDEN, NULL},
    {"/.%00", HTTP_FORBIDDEN, NULL},
    {"/. ", HTTP_FORBIDDEN, NULL},
    {"/%2e%2e/a", HTTP_FORBIDDEN, NULL},
    {"/%2E./a", HTTP_FORBIDDEN, NULL},
    {"/.%2e/a", HTTP_FORBIDDEN, NULL},
    {"/a//%2e%2e", HTTP_FORBIDDEN, NULL},
    {"/.git/config", HTTP_FORBIDDEN, NULL},
    {"/a/.htpasswd", HTTP_FORBIDDEN, NULL},
    {"/..%2f..%2fetc", HTTP_FORBIDDEN, NULL},
    {"/a%2fb", HTTP_NOT_FOUND, NULL},
    {"/%2f", HTTP_NOT_FOUND, NULL},
    {"/%2Fetc", HTTP_NOT_FOUND, NULL},
    {"/%00", HTTP_BAD_REQUEST, NULL},
    {"/a%00.html", HTTP_BAD_REQUEST, NULL},
    {"/%", HTTP_BAD_REQUEST, NULL},
    {"/%4", HTTP_BAD_REQUEST, NULL},
    {"/%4g", HTTP_BAD_REQUEST, NULL},
    {"/%g4", HTTP_BAD_REQUEST, NULL},
    {"/%%41", HTTP_BAD_REQUEST, NULL},
    {"/%u0041", HTTP_BAD_REQUEST, NULL},
    {"/%-1", HTTP_BAD_REQUEST, NULL},
    {"/% 1", HTTP_BAD_REQUEST, NULL},
};

Test(http_path, readings)
{
    for (size_t i = 0; i < sizeof(readings) / sizeof(readings[0]); i++) {
        struct http_path path;
        enum http_status status = read_path(&path, readings[i].text);
        cr_assert_eq(status, readings[i].status, "`%s`: %d", readings[i].text, (int)status);
        if (status == HTTP_OK)
            cr_assert_str_eq(joined(&path), readings[i].names, "`%s`", readings[i].text);
    }
}

Test(http_path, the_last_name)
{
    struct http_path path;
    read_path(&path, "/");
    cr_assert_null(http_path_first(&path));
    cr_assert_str_eq(http_path_last(&path), "");
    read_path(&path, "/a//b/c/");
    cr_assert_str_eq(http_path_last(&path), "c");
}

/* Reads from memory of its own into memory of its own, so that a sanitizer sees one byte more. */
static struct http_path *read_alone(const char *text, enum http_status *status)
{
    size_t length = strlen(text);
    unsigned char *copy = malloc(length);
    struct http_path *path = malloc(sizeof(*path));
    memcpy(copy, text, length);
    *status = http_path_read(path, (struct message){copy, length});
    free(copy);
    cr_assert_leq(path->length, sizeof(path->names), "%zu bytes of names", path->length);
    return path;
}

/* A slash, so many letters, and what follows them. */
static const char *long_path(size_t letters, const char *behind)
{
    static char text[2 * HTTP_PATH_MAX + 64];
    text[0] = '/';
    memset(text + 1, 'a', letters);
    strcpy(text + 1 + letters, behind);
    return text;
}

/* Escapes can shrink, never grow: but a path may be longer than there is room for its names. */
#define LETTERS "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

Test(http_path, the_longest_path_and_one_byte_more)
{
    enum { LONGEST = HTTP_PATH_MAX - 1 }; /* and its zero */
    static const struct {
        size_t letters;
        const char *behind;
        enum http_status status;
    } paths[] = {
        {LONGEST - 1, "", HTTP_OK},
        {LONGEST, "", HTTP_OK},
        {LONGEST, "/", HTTP_OK},
        {LONGEST, "//////", HTTP_OK},
        {LONGEST + 1, "", HTTP_NOT_FOUND},
        {LONGEST + 1, "/", HTTP_NOT_FOUND},
        {2 * HTTP_PATH_MAX, "", HTTP_NOT_FOUND},
        {LONGEST - 2, "/b", HTTP_OK},
        {LONGEST - 1, "/b", HTTP_NOT_FOUND},
        {LONGEST, "/b", HTTP_NOT_FOUND}, /* the first byte behind the room for names */
        {LONGEST, "/b/b/b/b", HTTP_NOT_FOUND},
        {LONGEST, "/" LETTERS, HTTP_NOT_FOUND},
        {LONGEST - 1, "/" LETTERS, HTTP_NOT_FOUND},
        {LONGEST, "/./././.", HTTP_NOT_FOUND},
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        enum http_status status;
        const char *text = long_path(paths[i].letters, paths[i].behind);
        struct http_path *path = read_alone(text, &status);
        cr_assert_eq(status, paths[i].status, "%zu letters and `%s`: %d", paths[i].letters,
                     paths[i].behind, (int)status);
        if (status == HTTP_OK)
            cr_assert_leq(strlen(http_path_last(path)), LONGEST);
        free(path);
    }
}

/* Whatever is read, each name is one that the walk can rely on. */
Test(http_path, no_name_leads_astray)
{
    static const char *const pieces[] = {"/",   "//", ".",   "..",  "%2e", "%2f", "%5c",
                                         "\\",  "a",  "%61", "%00", "%",   "%c0", "%ae",
                                         "%af", "/a", "a/",  ";",   "~",   "%20", "b"};
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        struct rng rng = rng_from(seed);
        char text[200] = "/";
        struct http_path path;
        for (size_t i = rng_below(&rng, 12); i > 0; i--)
            strcat(text, pieces[rng_below(&rng, sizeof(pieces) / sizeof(pieces[0]))]);
        if (read_path(&path, text) != HTTP_OK)
            continue;
        size_t length = 0;
        for (const char *name = http_path_first(&path); name != NULL;
             name = http_path_next(&path, name)) {
            cr_assert_neq(name[0], '\0', "`%s`", text);
            cr_assert_neq(name[0], '.', "`%s`", text);
            cr_assert_null(strchr(name, '/'), "`%s`", text);
            length += strlen(name) + 1;
        }
        cr_assert_eq(length, path.length, "`%s`", text);
    }
}

/* ---- files ---- */

/* A folder with a root in it, and things beside the root that nobody is to see. */
static char top[] = "/tmp/http_path.XXXXXX";
static int top_fd = -1;
static int root = -1;

static void make_file(const char *name, const char *content)
{
    int fd = openat(top_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    cr_assert_geq(fd, 0, "%s: %s", name, strerror(errno));
    cr_assert_eq(write(fd, content, strlen(content)), (ssize_t)strlen(content));
    close(fd);
}

static void make_tree(void)
{
    cr_assert_not_null(mkdtemp(top));
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    mkdirat(top_fd, "root", 0755);
    mkdirat(top_fd, "root/folder", 0755);
    mkdirat(top_fd, "root/folder/deep", 0755);
    mkdirat(top_fd, "root/bare", 0755);
    mkdirat(top_fd, "root/odd", 0755);
    mkdirat(top_fd, "root/odd/index.html", 0755);
    mkdirat(top_fd, "outside", 0755);
    make_file("root/index.html", "index");
    make_file("root/file.txt", "file");
    make_file("root/folder/index.html", "folder");
    make_file("root/folder/deep/file.txt", "deep");
    make_file("root/.hidden", "hidden");
    make_file("secret", "secret");
    make_file("outside/file.txt", "secret");
    make_file("outside/index.html", "secret");
    symlinkat("../secret", top_fd, "root/link");
    symlinkat("../outside", top_fd, "root/linked");
    symlinkat("file.txt", top_fd, "root/inside");
    symlinkat("/", top_fd, "root/everything");
    symlinkat("loop", top_fd, "root/loop");
    mkfifoat(top_fd, "root/pipe", 0644);
    char name[64];
    snprintf(name, sizeof(name), "%s/root", top);
    root = http_files_root(name);
    cr_assert_geq(root, 0);
}

static void remove_tree(void)
{
    char command[64];
    close(root);
    close(top_fd);
    snprintf(command, sizeof(command), "rm -rf %s", top);
    cr_assert_eq(system(command), 0); // NOLINT
}

/* Opens what a path leads to; its content goes to text. */
static enum http_status open_path(const char *name, char text[16])
{
    struct http_path path;
    struct http_file file;
    enum http_status status = read_path(&path, name);
    if (status == HTTP_OK)
        status = http_files_open(root, &path, &file);
    text[0] = '\0';
    if (status == HTTP_OK) {
        ssize_t got = read(file.fd, text, 15);
        text[got > 0 ? got : 0] = '\0';
        close(file.fd);
    }
    return status;
}

static const struct opening {
    const char *path;
    enum http_status status;
    const char *content;
} openings[] = {
    {"/", HTTP_OK, "index"},
    {"/index.html", HTTP_OK, "index"},
    {"/file.txt", HTTP_OK, "file"},
    {"/f%69le.txt", HTTP_OK, "file"},
    {"/folder/", HTTP_OK, "folder"},
    {"//folder//", HTTP_OK, "folder"},
    {"/.", HTTP_OK, "index"},
    {"/./file.txt", HTTP_OK, "file"},
    {"/folder/.", HTTP_OK, "folder"},
    {"/folder/./deep/./file.txt", HTTP_OK, "deep"},
    {"/file.txt/.", HTTP_NOT_FOUND, ""},
    {"/nothing/./../file.txt", HTTP_FORBIDDEN, ""},
    {"/folder/deep/file.txt", HTTP_OK, "deep"},
    {"/folder", HTTP_MOVED, ""},
    {"/folder/deep", HTTP_MOVED, ""},
    {"/folder/deep/", HTTP_NOT_FOUND, ""},
    {"/bare/", HTTP_NOT_FOUND, ""},
    {"/odd/", HTTP_NOT_FOUND, ""},
    {"/odd/index.html", HTTP_MOVED, ""},
    {"/file.txt/", HTTP_NOT_FOUND, ""},
    {"/file.txt/more", HTTP_NOT_FOUND, ""},
    {"/nothing", HTTP_NOT_FOUND, ""},
    {"/nothing/more", HTTP_NOT_FOUND, ""},
    {"/.hidden", HTTP_FORBIDDEN, ""},
    {"/link", HTTP_NOT_FOUND, ""},
    {"/linked/file.txt", HTTP_NOT_FOUND, ""},
    {"/linked/", HTTP_NOT_FOUND, ""},
    {"/linked", HTTP_NOT_FOUND, ""},
    {"/inside", HTTP_NOT_FOUND, ""},
    {"/everything/etc/passwd", HTTP_NOT_FOUND, ""},
    {"/loop", HTTP_NOT_FOUND, ""},
    {"/../secret", HTTP_FORBIDDEN, ""},
    {"/..%2fsecret", HTTP_FORBIDDEN, ""},
    {"/folder/..%2f..%2fsecret", HTTP_FORBIDDEN, ""},
    {"/..\\secret", HTTP_FORBIDDEN, ""},
    {"/%c0%ae%c0%ae/secret", HTTP_NOT_FOUND, ""},
    {"/etc/passwd", HTTP_NOT_FOUND, ""},
    {"//etc/passwd", HTTP_NOT_FOUND, ""},
    {"/%2fetc/passwd", HTTP_NOT_FOUND, ""},
    {"/file.txt%00.html", HTTP_BAD_REQUEST, ""},
};

/*
 * Mode 0711: who asks for a file by its name gets it, and nobody gets a list. Root may read any
 * folder, so it becomes somebody else here.
 */
Test(http_path, a_folder_that_cannot_be_listed_is_walked_through)
{
    enum { SOMEBODY = 12345 };
    static const struct opening through[] = {
        {"/folder/", HTTP_OK, "folder"},
        {"/folder", HTTP_MOVED, ""},
        {"/folder/deep/file.txt", HTTP_OK, "deep"},
        {"/folder/nothing", HTTP_NOT_FOUND, ""},
        {"/bare/", HTTP_FORBIDDEN, ""},
        {"/bare/file", HTTP_FORBIDDEN, ""},
    };
    char text[16];
    char name[64];
    make_tree();
    snprintf(name, sizeof(name), "%s/root", top);
    cr_assert_eq(chmod(top, 0711), 0);
    cr_assert_eq(fchmodat(top_fd, "root", 0311, 0), 0);
    cr_assert_eq(fchmodat(top_fd, "root/folder", 0311, 0), 0);
    cr_assert_eq(fchmodat(top_fd, "root/folder/deep", 0311, 0), 0);
    cr_assert_eq(fchmodat(top_fd, "root/bare", 0, 0), 0);
    bool was_root = geteuid() == 0;
    if (was_root && seteuid(SOMEBODY) != 0) {
        cr_skip_test("root, and it cannot become anybody else here");
    }
    close(root);
    root = http_files_root(name);
    cr_assert_geq(root, 0);
    for (size_t i = 0; i < sizeof(through) / sizeof(through[0]); i++) {
        enum http_status status = open_path(through[i].path, text);
        cr_assert_eq(status, through[i].status, "`%s`: %d", through[i].path, (int)status);
        cr_assert_str_eq(text, through[i].content, "`%s`", through[i].path);
    }
    strcat(name, "/bare");
    cr_assert_eq(http_files_root(name), -1);
    cr_assert_eq(errno, EACCES);
    cr_assert(!was_root || seteuid(0) == 0);
    fchmodat(top_fd, "root", 0755, 0);
    fchmodat(top_fd, "root/folder", 0755, 0);
    fchmodat(top_fd, "root/folder/deep", 0755, 0);
    fchmodat(top_fd, "root/bare", 0755, 0);
    remove_tree();
}

Test(http_path, files)
{
    make_tree();
    for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        char content[16];
        enum http_status status = open_path(openings[i].path, content);
        cr_expect_eq(status, openings[i].status, "%s: %d", openings[i].path, (int)status);
        cr_expect_str_eq(content, openings[i].content, "%s", openings[i].path);
    }
    remove_tree();
}

/* A pipe has nobody at its other end: an open that waits for somebody would never end. */
Test(http_path, what_is_no_file_is_not_opened_or_not_served)
{
    char content[16];
    make_tree();
    cr_expect_eq(open_path("/pipe", content), HTTP_FORBIDDEN);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/root/socket", top);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_expect_eq(open_path("/socket", content), HTTP_FORBIDDEN);
    close(fd);
    remove_tree();
}

/* A process that waits to write into a pipe would be let in, and then write to nobody. */
Test(http_path, a_pipe_is_not_even_opened_for_a_moment)
{
    char name[64];
    char event[sizeof(struct inotify_event) + NAME_MAX + 1];
    char content[16];
    make_tree();
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(name, sizeof(name), "%s/root/pipe", top);
    cr_assert_geq(inotify_add_watch(watch, name, IN_OPEN), 0, "%s", strerror(errno));
    cr_expect_eq(open_path("/pipe", content), HTTP_FORBIDDEN);
    cr_expect_lt(read(watch, event, sizeof(event)), 0, "somebody has opened the pipe");
    close(open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    cr_expect_gt(read(watch, event, sizeof(event)), 0, "an open would not have been seen");
    close(watch);
    remove_tree();
}

Test(http_path, a_name_that_no_file_can_have)
{
    char name[400] = "/";
    char content[16];
    memset(name + 1, 'a', 300);
    make_tree();
    cr_expect_eq(open_path(name, content), HTTP_NOT_FOUND);
    remove_tree();
}

Test(http_path, every_descriptor_is_closed_again)
{
    make_tree();
    int before = dup(0);
    close(before);
    for (size_t i = 0; i < sizeof(openings) / sizeof(openings[0]); i++) {
        char content[16];
        open_path(openings[i].path, content);
        int after = dup(0);
        close(after);
        cr_expect_eq(after, before, "%s", openings[i].path);
    }
    remove_tree();
}

/* Somebody puts a link in the place of a folder and takes it away again, all the time. */
static atomic_bool enough;

static void *swap(void *nothing)
{
    while (!atomic_load(&enough)) {
        renameat2(top_fd, "root/folder", top_fd, "root/linked", RENAME_EXCHANGE);
        renameat2(top_fd, "root/file.txt", top_fd, "root/link", RENAME_EXCHANGE);
    }
    return nothing;
}

Test(http_path, no_race_leads_outside)
{
    enum { TRIES = 20000 };
    static const char *const paths[] = {"/folder/index.html", "/linked/", "/linked/file.txt",
                                        "/file.txt", "/link"};
    pthread_t thread;
    int found = 0;
    make_tree();
    cr_assert_eq(pthread_create(&thread, NULL, swap, NULL), 0);
    for (int i = 0; i < TRIES; i++) {
        char content[16];
        const char *path = paths[i % (int)(sizeof(paths) / sizeof(paths[0]))];
        enum http_status status = open_path(path, content);
        if (strcmp(content, "secret") == 0)
            cr_assert_fail("%s led outside after %d tries", path, i);
        found += status == HTTP_OK;
    }
    atomic_store(&enough, true);
    pthread_join(thread, NULL);
    cr_assert_gt(found, 0, "now and then it was the folder");
    cr_assert_lt(found, TRIES, "and now and then the link");
    remove_tree();
}

Test(http_path, what_a_name_says_about_the_content)
{
    static const char *const types[][2] = {
        {"index.html", "text/html; charset=utf-8"},
        {"INDEX.HTML", "text/html; charset=utf-8"},
        {"a.b.css", "text/css; charset=utf-8"},
        {"search.js", "text/javascript; charset=utf-8"},
        {"a.svg", "image/svg+xml"},
        {"a.png", "image/png"},
        {"README", "application/octet-stream"},
        {"a.html.bin", "application/octet-stream"},
        {"a.", "application/octet-stream"},
        {"html", "application/octet-stream"},
        {"x.md", "text/markdown; charset=utf-8"},
        {"x.txt", "text/plain; charset=utf-8"},
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        cr_assert_str_eq(http_type_of(types[i][0]), types[i][1], "%s", types[i][0]);
}
