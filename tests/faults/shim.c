/*
 * System calls and allocations that fail on demand: what servers are linked with a second time, so
 * that tests can see what becomes of them when the system runs out of something (case 40).
 *
 * The linker sends each call that a server makes through here (--wrap), and from here to the C
 * library or to a sanitizer's version of it. The objects of the server are those of the normal
 * build; nothing of this is in them. What is wrapped are the names in the WRAP lines, which the
 * Makefile reads; calls that the C library makes on its own account are not.
 *
 * The environment says what fails:
 *
 *   FAULT_PLAN=calloc:7=ENOMEM,readv:3-9=SHORT,accept4:2-=EMFILE,any:20=#1
 *       The 7th calloc; the 3rd to 9th readv; every accept4 from the 2nd on; the 20th call of all,
 *       with the error that stands at place 1 of that call's list (its last one, if the list is
 *       shorter). SHORT is a success that moves one byte; HANG never returns.
 *   FAULT_CHANCE=50  FAULT_SEED=1234
 *       One call in 50 fails with an error of its list, drawn from a sequence that the seed begins.
 *   FAULT_NAMES=readv,writev
 *       Only these calls count for `any` and for chance.
 *   FAULT_ERRORS=SHORT,EINTR
 *       Chance draws only these.
 *   FAULT_ARMED=0
 *       Nothing is counted, and nothing fails, before SIGUSR2 says so; each SIGUSR2 turns it about.
 *
 * On standard error there is one line for each fault of a plan, one for each SIGUSR2, one for the
 * seed, and a last one at exit: `faults: calls 153, injected 1`.
 *
 * Rules:
 * - A fault happens instead of the call: nothing is read, written, opened or allocated.
 * - Only errors that the call can have in the place where servers make it. A wakeup that a full
 *   pipe refuses, for instance, is no loss; one that an empty pipe refused would be, and no system
 *   does that.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    ERRORS_MOST = 8,
    RULES_MOST = 32,
    SHORT = 1000000, /* no errno: the call moves one byte */
    HANG,            /* no errno: the call never returns */
};

/* A call that can fail, and how. */
struct call {
    const char *name;
    int errors[ERRORS_MOST]; /* ended by 0 */
    atomic_long count;
};

/* From the first to the last call of a name, that error. */
struct rule {
    char name[32];
    long first;
    long last;
    int error; /* 0: the one at `place` of the call's list */
    int place;
};

static const struct {
    const char *name;
    int number;
} error_names[] = {
    {"SHORT", SHORT},
    {"HANG", HANG},
    {"EINTR", EINTR},
    {"EAGAIN", EAGAIN},
    {"EMFILE", EMFILE},
    {"ENFILE", ENFILE},
    {"ENOMEM", ENOMEM},
    {"EPERM", EPERM},
    {"ENOBUFS", ENOBUFS},
    {"ENOSPC", ENOSPC},
    {"EIO", EIO},
    {"EACCES", EACCES},
    {"ENOLCK", ENOLCK},
    {"EPIPE", EPIPE},
    {"EPROTO", EPROTO},
    {"ENOTCONN", ENOTCONN},
    {"ETIMEDOUT", ETIMEDOUT},
    {"EADDRINUSE", EADDRINUSE},
    {"ECONNRESET", ECONNRESET},
    {"ECONNABORTED", ECONNABORTED},
};

enum { ERROR_NAMES = sizeof(error_names) / sizeof(error_names[0]) };

/* Set once, before main(), and only read from then on. */
static struct rule rules[RULES_MOST];
static size_t rule_count;
static long chance;
static const char *only_names;
static const char *only_errors;

static atomic_bool armed;
static atomic_long calls;
static atomic_long injected;
static atomic_uint_least64_t drawn;

/* ---- What the environment says ------------------------------------------------------------- */

/* Past stdio, which the server may be in the middle of. */
static void say(const char *text)
{
    syscall(SYS_write, STDERR_FILENO, text, strlen(text));
}

static const char *error_text(int error)
{
    for (size_t i = 0; i < ERROR_NAMES; i++) {
        if (error_names[i].number == error) {
            return error_names[i].name;
        }
    }
    return "?";
}

static _Noreturn void refuse(const char *what)
{
    say("faults: cannot understand ");
    say(what);
    say("\n");
    _exit(3);
}

static int error_number(const char *text)
{
    for (size_t i = 0; i < ERROR_NAMES; i++) {
        if (strcmp(error_names[i].name, text) == 0) {
            return error_names[i].number;
        }
    }
    refuse(text);
}

/* Whether a list like "readv,writev" has the name; no list has all. */
static bool listed(const char *list, const char *name)
{
    size_t length = strlen(name);
    if (list == NULL || *list == '\0') {
        return true;
    }
    for (const char *found = list; (found = strstr(found, name)) != NULL; found += length) {
        bool begins = found == list || found[-1] == ',';
        if (begins && (found[length] == ',' || found[length] == '\0')) {
            return true;
        }
    }
    return false;
}

/* NAME:FIRST[-[LAST]]=ERROR */
static void read_rule(char *text)
{
    struct rule *rule = &rules[rule_count++];
    char *colon = strchr(text, ':');
    char *equals = strchr(text, '=');
    if (rule_count > RULES_MOST || colon == NULL || equals == NULL || equals < colon) {
        refuse(text);
    }
    *colon = *equals = '\0';
    snprintf(rule->name, sizeof(rule->name), "%s", text);
    char *rest;
    rule->first = rule->last = strtol(colon + 1, &rest, 10);
    if (*rest == '-') {
        rule->last = rest[1] != '\0' ? strtol(rest + 1, &rest, 10) : INT32_MAX;
    }
    if (equals[1] == '#') {
        rule->place = atoi(equals + 2);
    } else {
        rule->error = error_number(equals + 1);
    }
}

static void read_plan(const char *plan)
{
    static char copy[1024];
    char *rest = NULL;
    snprintf(copy, sizeof(copy), "%s", plan);
    for (char *rule = strtok_r(copy, ",", &rest); rule; rule = strtok_r(NULL, ",", &rest)) {
        read_rule(rule);
    }
}

static void on_signal(int number)
{
    int error = errno;
    (void)number;
    bool on = !atomic_load(&armed);
    atomic_store(&armed, on);
    say(on ? "faults: on\n" : "faults: off\n");
    errno = error;
}

__attribute__((constructor)) static void begin(void)
{
    const char *plan = getenv("FAULT_PLAN");
    const char *one_in = getenv("FAULT_CHANCE");
    const char *seed = getenv("FAULT_SEED");
    const char *armed_text = getenv("FAULT_ARMED");
    char line[80];
    only_names = getenv("FAULT_NAMES");
    only_errors = getenv("FAULT_ERRORS");
    if (plan != NULL) {
        read_plan(plan);
    }
    if (one_in != NULL && (chance = atol(one_in)) > 0) {
        unsigned long long start = seed != NULL ? strtoull(seed, NULL, 10) : (unsigned)getpid();
        atomic_store(&drawn, start * 0x9e3779b97f4a7c15u);
        snprintf(line, sizeof(line), "faults: one in %ld, seed %llu\n", chance, start);
        say(line);
    }
    struct sigaction change = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&change.sa_mask);
    sigaction(SIGUSR2, &change, NULL);
    atomic_store(&armed, armed_text == NULL || strcmp(armed_text, "0") != 0);
}

/* What comes after that is no call of the server's, but of those who count and check it. */
__attribute__((destructor)) static void end(void)
{
    char line[80];
    atomic_store(&armed, false);
    snprintf(line, sizeof(line), "faults: calls %ld, injected %ld\n", atomic_load(&calls),
             atomic_load(&injected));
    say(line);
}

/* ---- Whether a call fails ------------------------------------------------------------------ */

static int errors_of(const struct call *call)
{
    int count = 0;
    while (count < ERRORS_MOST && call->errors[count] != 0) {
        count++;
    }
    return count;
}

static void tell(const struct call *call, long number, int error)
{
    char line[96];
    snprintf(line, sizeof(line), "faults: %s %ld: %s\n", call->name, number, error_text(error));
    say(line);
}

/* The error that the plan has for the call; 0: none. */
static int planned(const struct call *call, long number, long number_of_all)
{
    for (size_t i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        bool any = strcmp(rule->name, "any") == 0;
        long n = any ? number_of_all : number;
        if ((!any && strcmp(rule->name, call->name) != 0) || n < rule->first || n > rule->last) {
            continue;
        }
        int last = errors_of(call) - 1;
        int error =
            rule->error != 0 ? rule->error : call->errors[rule->place < last ? rule->place : last];
        if (rule->last < INT32_MAX) {
            tell(call, number, error);
        }
        return error;
    }
    return 0;
}

/* Threads draw from one sequence (splitmix64). */
static uint64_t draw(void)
{
    uint64_t z = atomic_fetch_add(&drawn, 0x9e3779b97f4a7c15u) + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int by_chance(const struct call *call)
{
    int chosen[ERRORS_MOST];
    size_t count = 0;
    for (int i = 0; i < errors_of(call); i++) {
        if (listed(only_errors, error_text(call->errors[i]))) {
            chosen[count++] = call->errors[i];
        }
    }
    if (chance == 0 || count == 0 || draw() % (uint64_t)chance != 0) {
        return 0;
    }
    return chosen[draw() % count];
}

/* What is to become of this call: 0, SHORT or an errno. It does not return from HANG. */
static int fault(struct call *call)
{
    if (!atomic_load(&armed)) {
        return 0;
    }
    long number = atomic_fetch_add(&call->count, 1) + 1;
    bool counts = listed(only_names, call->name);
    long number_of_all = counts ? atomic_fetch_add(&calls, 1) + 1 : -1;
    int error = planned(call, number, number_of_all);
    if (error == 0 && counts) {
        error = by_chance(call);
    }
    if (error != 0) {
        atomic_fetch_add(&injected, 1);
    }
    while (error == HANG) {
        pause();
    }
    return error;
}

/* ---- The calls ----------------------------------------------------------------------------- */

/*
 * WRAP(type, name, parameters) begins the stand-in of a call: FAILS lists its errors, and `error`
 * is what becomes of it this time.
 */
#define WRAP(type, name, parameters)                                                               \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters

#define FAILS(name, ...)                                                                           \
    static struct call call = {name, {__VA_ARGS__}, 0};                                            \
    int error = fault(&call)

/* A call that has failed returns -1, or NULL. */
#define FAIL_WITH(result)                                                                          \
    if (error != 0 && error != SHORT) {                                                            \
        errno = error;                                                                             \
        return result;                                                                             \
    }

/* ---- Memory and threads ---- */

WRAP(void *, malloc, (size_t size))
{
    FAILS("malloc", ENOMEM);
    FAIL_WITH(NULL)
    return __real_malloc(size);
}

WRAP(void *, calloc, (size_t count, size_t size))
{
    FAILS("calloc", ENOMEM);
    FAIL_WITH(NULL)
    return __real_calloc(count, size);
}

WRAP(void *, aligned_alloc, (size_t alignment, size_t size))
{
    FAILS("aligned_alloc", ENOMEM);
    FAIL_WITH(NULL)
    return __real_aligned_alloc(alignment, size);
}

WRAP(void *, realloc, (void *block, size_t size))
{
    FAILS("realloc", ENOMEM);
    FAIL_WITH(NULL)
    return __real_realloc(block, size);
}

WRAP(void *, reallocarray, (void *block, size_t count, size_t size))
{
    FAILS("reallocarray", ENOMEM);
    FAIL_WITH(NULL)
    return __real_reallocarray(block, count, size);
}

WRAP(char *, strdup, (const char *text))
{
    FAILS("strdup", ENOMEM);
    FAIL_WITH(NULL)
    return __real_strdup(text);
}

/* These two return the error instead of leaving it in errno. */
WRAP(int, pthread_attr_init, (pthread_attr_t * attributes))
{
    FAILS("pthread_attr_init", ENOMEM);
    return error != 0 ? error : __real_pthread_attr_init(attributes);
}

WRAP(int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument))
{
    FAILS("pthread_create", EAGAIN);
    sigset_t before;
    sigset_t own;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &own, &before); /* only main takes it */
    error = error != 0 ? error : __real_pthread_create(thread, attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

WRAP(pid_t, fork, (void))
{
    FAILS("fork", EAGAIN, ENOMEM);
    FAIL_WITH(-1)
    return __real_fork();
}

/* ---- Bytes ---- */

/* The first byte of the first piece that has one. */
static struct iovec one_byte(const struct iovec *iov, int count)
{
    for (int i = 0; i < count; i++) {
        if (iov[i].iov_len > 0) {
            return (struct iovec){iov[i].iov_base, 1};
        }
    }
    return (struct iovec){NULL, 0};
}

WRAP(ssize_t, readv, (int fd, const struct iovec *iov, int count))
{
    FAILS("readv", ECONNRESET, EINTR, SHORT, EAGAIN, ETIMEDOUT, ENOMEM);
    FAIL_WITH(-1)
    struct iovec byte = one_byte(iov, count);
    return error == SHORT ? __real_readv(fd, &byte, 1) : __real_readv(fd, iov, count);
}

WRAP(ssize_t, writev, (int fd, const struct iovec *iov, int count))
{
    FAILS("writev", EPIPE, EINTR, SHORT, EAGAIN, ECONNRESET, ENOBUFS);
    FAIL_WITH(-1)
    struct iovec byte = one_byte(iov, count);
    return error == SHORT ? __real_writev(fd, &byte, 1) : __real_writev(fd, iov, count);
}

WRAP(ssize_t, read, (int fd, void *data, size_t size))
{
    FAILS("read", EINTR, SHORT, EIO);
    FAIL_WITH(-1)
    return __real_read(fd, data, error == SHORT && size > 1 ? 1 : size);
}

WRAP(ssize_t, write, (int fd, const void *data, size_t size))
{
    FAILS("write", EINTR, SHORT);
    FAIL_WITH(-1)
    /* A counter takes all of its eight bytes or none. */
    return __real_write(fd, data, error == SHORT && size > sizeof(uint64_t) ? 1 : size);
}

WRAP(ssize_t, recv, (int fd, void *data, size_t size, int flags))
{
    FAILS("recv", ECONNRESET, EINTR, SHORT, EAGAIN, ETIMEDOUT, ENOMEM);
    FAIL_WITH(-1)
    return __real_recv(fd, data, error == SHORT && size > 1 ? 1 : size, flags);
}

WRAP(ssize_t, send, (int fd, const void *data, size_t size, int flags))
{
    FAILS("send", EPIPE, EINTR, SHORT, EAGAIN, ECONNRESET, ENOBUFS);
    FAIL_WITH(-1)
    return __real_send(fd, data, error == SHORT && size > 1 ? 1 : size, flags);
}

WRAP(ssize_t, sendfile, (int to, int from, off_t *offset, size_t count))
{
    FAILS("sendfile", EPIPE, EINTR, SHORT, EAGAIN, ECONNRESET, EIO);
    FAIL_WITH(-1)
    return __real_sendfile(to, from, offset, error == SHORT && count > 1 ? 1 : count);
}

/* ---- Files ---- */

WRAP(ssize_t, pread, (int fd, void *data, size_t size, off_t offset))
{
    FAILS("pread", EIO, EINTR, SHORT);
    FAIL_WITH(-1)
    return __real_pread(fd, data, error == SHORT && size > 1 ? 1 : size, offset);
}

WRAP(int, openat, (int folder, const char *name, int flags, ...))
{
    FAILS("openat", EMFILE, ENFILE, ENOMEM, EIO);
    FAIL_WITH(-1)
    va_list rest;
    va_start(rest, flags);
    int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    return __real_openat(folder, name, flags, mode);
}

WRAP(int, fstat, (int fd, struct stat *status))
{
    FAILS("fstat", EIO, ENOMEM);
    FAIL_WITH(-1)
    return __real_fstat(fd, status);
}

WRAP(DIR *, fdopendir, (int fd))
{
    FAILS("fdopendir", ENOMEM);
    FAIL_WITH(NULL)
    return __real_fdopendir(fd);
}

WRAP(struct dirent *, readdir, (DIR * folder))
{
    FAILS("readdir", EIO);
    FAIL_WITH(NULL)
    return __real_readdir(folder);
}

WRAP(FILE *, fopen, (const char *path, const char *mode))
{
    FAILS("fopen", EMFILE, ENFILE, ENOMEM, EACCES);
    FAIL_WITH(NULL)
    return __real_fopen(path, mode);
}

WRAP(int, flock, (int fd, int operation))
{
    FAILS("flock", ENOLCK);
    FAIL_WITH(-1)
    return __real_flock(fd, operation);
}

WRAP(char *, mkdtemp, (char *name))
{
    FAILS("mkdtemp", ENOSPC, EACCES);
    FAIL_WITH(NULL)
    return __real_mkdtemp(name);
}

WRAP(int, mkdirat, (int folder, const char *name, mode_t mode))
{
    FAILS("mkdirat", ENOSPC, EIO);
    FAIL_WITH(-1)
    return __real_mkdirat(folder, name, mode);
}

WRAP(int, unlinkat, (int folder, const char *name, int flags))
{
    FAILS("unlinkat", EIO, EACCES);
    FAIL_WITH(-1)
    return __real_unlinkat(folder, name, flags);
}

/* ---- Descriptors ---- */

WRAP(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags))
{
    FAILS("accept4", EMFILE, EINTR, ECONNABORTED, EAGAIN, ENFILE, ENOBUFS, ENOMEM, EPROTO);
    FAIL_WITH(-1)
    return __real_accept4(fd, address, length, flags);
}

WRAP(int, socket, (int family, int type, int protocol))
{
    FAILS("socket", EMFILE, ENFILE, ENOBUFS, ENOMEM);
    FAIL_WITH(-1)
    return __real_socket(family, type, protocol);
}

WRAP(int, connect, (int fd, const struct sockaddr *address, socklen_t length))
{
    FAILS("connect", ECONNREFUSED, EINTR, ENETUNREACH, EADDRNOTAVAIL, EAGAIN, ENOBUFS);
    FAIL_WITH(-1)
    return __real_connect(fd, address, length);
}

WRAP(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *length))
{
    FAILS("getsockopt", ENOBUFS);
    FAIL_WITH(-1)
    return __real_getsockopt(fd, level, name, value, length);
}

WRAP(int, bind, (int fd, const struct sockaddr *address, socklen_t length))
{
    FAILS("bind", EADDRINUSE, EACCES);
    FAIL_WITH(-1)
    return __real_bind(fd, address, length);
}

WRAP(int, listen, (int fd, int backlog))
{
    FAILS("listen", EADDRINUSE);
    FAIL_WITH(-1)
    return __real_listen(fd, backlog);
}

WRAP(int, getsockname, (int fd, struct sockaddr *address, socklen_t *length))
{
    FAILS("getsockname", ENOBUFS);
    FAIL_WITH(-1)
    return __real_getsockname(fd, address, length);
}

WRAP(int, getpeername, (int fd, struct sockaddr *address, socklen_t *length))
{
    FAILS("getpeername", ENOTCONN, ENOBUFS);
    FAIL_WITH(-1)
    return __real_getpeername(fd, address, length);
}

WRAP(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length))
{
    FAILS("setsockopt", ENOMEM, ENOBUFS);
    FAIL_WITH(-1)
    return __real_setsockopt(fd, level, name, value, length);
}

/* Nobody has to look at this error: the connection is over, and a read says so. So it is over here.
 */
WRAP(int, shutdown, (int fd, int how))
{
    FAILS("shutdown", ENOTCONN);
    int result = __real_shutdown(fd, error != 0 ? SHUT_RDWR : how);
    FAIL_WITH(-1)
    return result;
}

WRAP(int, getaddrinfo,
     (const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found))
{
    FAILS("getaddrinfo", EAGAIN);
    return error != 0 ? EAI_AGAIN : __real_getaddrinfo(host, service, hints, found);
}

WRAP(int, open, (const char *path, int flags, ...))
{
    FAILS("open", EMFILE, ENFILE, ENOMEM);
    FAIL_WITH(-1)
    va_list rest;
    va_start(rest, flags);
    int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    return __real_open(path, flags, mode);
}

WRAP(int, dup, (int fd))
{
    FAILS("dup", EMFILE);
    FAIL_WITH(-1)
    return __real_dup(fd);
}

WRAP(int, pipe2, (int ends[2], int flags))
{
    FAILS("pipe2", EMFILE, ENFILE);
    FAIL_WITH(-1)
    return __real_pipe2(ends, flags);
}

WRAP(int, eventfd, (unsigned count, int flags))
{
    FAILS("eventfd", EMFILE, ENFILE, ENOMEM);
    FAIL_WITH(-1)
    return __real_eventfd(count, flags);
}

/* ---- Selection ---- */

WRAP(int, poll, (struct pollfd * fds, nfds_t count, int timeout))
{
    FAILS("poll", EINTR, ENOMEM);
    FAIL_WITH(-1)
    return __real_poll(fds, count, timeout);
}

WRAP(int, epoll_create1, (int flags))
{
    FAILS("epoll_create1", EMFILE, ENFILE, ENOMEM);
    FAIL_WITH(-1)
    return __real_epoll_create1(flags);
}

/* Only a new member of the set needs memory of the kernel. */
WRAP(int, epoll_ctl, (int epoll, int operation, int fd, struct epoll_event *event))
{
    if (operation == EPOLL_CTL_ADD) {
        FAILS("epoll_ctl", ENOMEM, ENOSPC);
        FAIL_WITH(-1)
    }
    return __real_epoll_ctl(epoll, operation, fd, event);
}

WRAP(int, epoll_wait, (int epoll, struct epoll_event *events, int most, int timeout))
{
    FAILS("epoll_wait", EINTR);
    FAIL_WITH(-1)
    return __real_epoll_wait(epoll, events, most, timeout);
}
