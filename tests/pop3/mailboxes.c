/*
 * Mailboxes for the tests of POP3: see mailboxes.h.
 */
#include "mailboxes.h"

#include <criterion/criterion.h>
#include <crypt.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

void mailboxes_remove(void)
{
    if (folder[0]) {
        nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    folder[0] = '\0';
}

void mailboxes_make(void)
{
    snprintf(folder, sizeof folder, "/tmp/pop3-test.XXXXXX");
    cr_assert_not_null(mkdtemp(folder), "mkdtemp: %s", strerror(errno));
    mailboxes_add_user("ann");
    mailboxes_add_mailbox("ann");
}

const char *mailboxes_path(const char *format, ...)
{
    static char path[512];
    int used = snprintf(path, sizeof path, "%s/", folder);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path + used, sizeof path - (size_t)used, format, arguments);
    va_end(arguments);
    return path;
}

/** Hashes of all who have the same salt are the same, and made once: it takes its time. */
static void add_user(const char *user, const char *salt)
{
    static const char *made_with;
    static char hash[CRYPT_OUTPUT_SIZE];
    FILE *file = fopen(mailboxes_path("users"), "ae");
    cr_assert_not_null(file, "users: %s", strerror(errno));
    if (made_with != salt) {
        snprintf(hash, sizeof hash, "%s", crypt(MAILBOX_PASSWORD, salt));
    }
    made_with = salt;
    fprintf(file, "%s:%s\n", user, hash);
    fclose(file);
}

void mailboxes_add_user(const char *user)
{
    static const char salt[] = "$6$rounds=1000$salt";
    add_user(user, salt);
}

void mailboxes_add_slow_user(const char *user)
{
    static const char salt[] = "$6$rounds=50000$salt";
    add_user(user, salt);
}

void mailboxes_add_mailbox(const char *user)
{
    static const char *const parts[] = {"", "/new", "/cur", "/tmp"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        cr_assert_eq(mkdir(mailboxes_path("%s%s", user, parts[i]), 0700), 0, "mkdir: %s",
                     strerror(errno));
    }
}

void mailboxes_deliver_bytes(const char *place, const void *data, size_t length)
{
    FILE *file = fopen(mailboxes_path("%s", place), "we");
    cr_assert_not_null(file, "%s: %s", place, strerror(errno));
    cr_assert_eq(fwrite(data, 1, length, file), length, "%s: %s", place, strerror(errno));
    fclose(file);
}

void mailboxes_deliver(const char *place, const char *text)
{
    mailboxes_deliver_bytes(place, text, strlen(text));
}

void mailboxes_deliver_again(const char *place, const char *from)
{
    char old[4096];
    snprintf(old, sizeof old, "%s", mailboxes_path("%s", from));
    cr_assert_eq(link(old, mailboxes_path("%s", place)), 0, "%s: %s", place, strerror(errno));
}

bool mailboxes_have(const char *place)
{
    return access(mailboxes_path("%s", place), F_OK) == 0;
}

int mailboxes_lock(void)
{
    int fd = open(mailboxes_path("ann"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cr_assert_geq(fd, 0, "ann: %s", strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        return fd;
    }
    close(fd);
    return -1;
}

struct server_process mailboxes_serve_at(const char *where, const char *options)
{
    return server_start_at(where, (struct server_limits){0},
                           "--app pop3 --mail-dir %s --users %s/users %s", folder, folder, options);
}

const char *shell(const char *format, ...)
{
    static char output[65536];
    char text[4096];
    char command[sizeof text + 64];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(command, sizeof command, "(%s) </dev/null 2>&1", text);
    FILE *stream = popen(command, "re");
    cr_assert_not_null(stream, "popen: %s", strerror(errno));
    size_t length = fread(output, 1, sizeof output - 1, stream);
    output[length] = '\0';
    pclose(stream);
    return output;
}
