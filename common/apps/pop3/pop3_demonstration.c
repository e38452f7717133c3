#include "common/apps/pop3/pop3_demonstration.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MAX_DESCRIPTORS = 65536, /* that a process is taken to have */
};

/* Those of the examples in RFC 1939. */
static const char user[] = "mrose";
static const char password[] = "tanstaaf";
static const char password_hash[] =
    "$6$rounds=1000$reactor$qzXeEHYGRytfDsyhUY70MeEn2.5Fi4EDnleSekyVTlgoMYKCKLkXP77FHcdRVUoCbGUmxeS"
    "QiJ5VlL0rYJL4C.";

static const char *const folders[] = {"mrose", "mrose/tmp", "mrose/new", "mrose/cur"};

static const struct {
    const char *path;
    const char *text;
} messages[] = {
    {"mrose/cur/1000000001.one.demonstration:2,S",
     "From: The course <course@localhost>\n"
     "To: mrose@localhost\n"
     "Subject: Welcome\n"
     "Date: Sun, 09 Sep 2001 01:46:41 +0000\n"
     "\n"
     "This message is a file with lines that end in LF.\n"
     "What you see has come with CR LF.\n"},
    {"mrose/new/1000000002.two.demonstration",
     "From: The course <course@localhost>\n"
     "To: mrose@localhost\n"
     "Subject: Dots\n"
     "Date: Sun, 09 Sep 2001 01:46:42 +0000\n"
     "\n"
     "The next line is a dot and nothing else.\n"
     ".\n"
     "It is not the end. This line is, and the file has no line end there."},
    {"mrose/new/1000000003.three.demonstration", "From: The course <course@localhost>\n"
                                                 "To: mrose@localhost\n"
                                                 "Subject: Lines to count\n"
                                                 "Date: Sun, 09 Sep 2001 01:46:43 +0000\n"
                                                 "\n"
                                                 "one\n"
                                                 "two\n"
                                                 "three\n"
                                                 "four\n"
                                                 "five\n"},
};

static bool make_folders(int place)
{
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        if (mkdirat(place, folders[i], 0700) != 0)
            return false;
    return true;
}

static bool write_file(int place, const char *path, const char *text)
{
    int fd = openat(place, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    bool written = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    return close(fd) == 0 && written;
}

static bool write_messages(int place)
{
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++)
        if (!write_file(place, messages[i].path, messages[i].text))
            return false;
    return true;
}

static bool fill(const char *folder)
{
    int place = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (place < 0)
        return false;
    bool filled = make_folders(place) && write_messages(place);
    int error = errno;
    close(place);
    errno = error;
    return filled;
}

/* ---- Its end ------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return remove(path);
}

static void remove_all(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* All but that one; the listener is among them, and would keep its port. */
static void close_others(int fd)
{
    long max = sysconf(_SC_OPEN_MAX);
    if (max < 0 || max > MAX_DESCRIPTORS)
        max = MAX_DESCRIPTORS;
    for (int other = 0; other < (int)max; other++)
        if (other != fd)
            close(other);
}

/* Waits for the end of the process that holds the other end of the pipe, then tidies up. */
static _Noreturn void take_care(const char *folder, int life)
{
    char byte;
    close_others(life);
    while (read(life, &byte, 1) < 0 && errno == EINTR)
        ;
    remove_all(folder);
    _exit(EXIT_SUCCESS);
}

/* Forks with all signals blocked: those that end the server must not end the child. */
static pid_t fork_deaf(void)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid_t child = fork();
    if (child != 0)
        sigprocmask(SIG_SETMASK, &before, NULL);
    return child;
}

/*
 * A signal can end a server at once: a second SIGTERM, the SIGHUP of a terminal that is closed, a
 * SIGKILL. What it could do in a signal handler is not enough to remove folders, so a child does
 * it. The child sees the end of the server as the end of a pipe, however that end comes about.
 */
static bool find_caretaker(struct pop3_demonstration *demonstration)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    demonstration->caretaker = fork_deaf();
    if (demonstration->caretaker == 0)
        take_care(demonstration->folder, ends[0]);
    int error = errno;
    close(ends[0]);
    demonstration->alive = ends[1];
    if (demonstration->caretaker < 0)
        close(ends[1]);
    errno = error;
    return demonstration->caretaker > 0;
}

void pop3_demonstration_close(struct pop3_demonstration *demonstration)
{
    if (demonstration->folder[0] == '\0')
        return;
    demonstration->folder[0] = '\0';
    close(demonstration->alive);
    while (waitpid(demonstration->caretaker, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- Its beginning ------------------------------------------------------------------------- */

bool pop3_demonstration_open(struct pop3_demonstration *demonstration, struct pop3_users *users)
{
    const char *place = getenv("TMPDIR");
    if (place == NULL || *place == '\0')
        place = "/tmp";
    int length = snprintf(demonstration->folder, sizeof(demonstration->folder),
                          "%s/demonstration.XXXXXX", place);
    errno = ENAMETOOLONG;
    if (length >= (int)sizeof(demonstration->folder) || mkdtemp(demonstration->folder) == NULL) {
        demonstration->folder[0] = '\0';
        return false;
    }
    if (!find_caretaker(demonstration)) {
        int error = errno;
        rmdir(demonstration->folder);
        demonstration->folder[0] = '\0';
        errno = error;
        return false;
    }
    if (fill(demonstration->folder) && pop3_users_add(users, user, password_hash))
        return true;
    int error = errno;
    pop3_demonstration_close(demonstration);
    errno = error;
    return false;
}

void pop3_demonstration_tell(const char *program)
{
    fprintf(stderr, "%s: a mailbox to try: user %s, password %s\n", program, user, password);
}
