/*
 * Starting and stopping the program under test: see server_process.h.
 *
 * The child must not inherit what belongs to Criterion (its pipes, its arena, its two environment
 * variables), reads /dev/null, and dies with the test that started it.
 */
#include "server_process.h"

#include "deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_MAX = 64, ERRORS_SHOWN = 2048 };

/**
 * The server that stands beside the tests, if SERVER names none: build/tests/stage2 tests
 * build/stage2-*, and a suite for all stages the last one.
 */
static const char *server_beside(void)
{
    static glob_t found;
    char path[4096] = "", pattern[4200];
    if (found.gl_pathc == 0 && readlink("/proc/self/exe", path, sizeof path - 1) > 0) {
        char *slash = strrchr(path, '/');
        const char *suite = slash + 1;
        snprintf(pattern, sizeof pattern, "%.*s/../%s-*", (int)(slash - path), path,
                 strncmp(suite, "stage", 5) == 0 ? suite : "stage[1-9]");
        glob(pattern, 0, NULL, &found);
    }
    return found.gl_pathc > 0 ? found.gl_pathv[found.gl_pathc - 1] : NULL;
}

const char *server_program(void)
{
    const char *path = getenv("SERVER");
    if (!path) {
        path = server_beside();
    }
    cr_assert_not_null(path, "set SERVER to the path of the server program under test");
    return path;
}

/** Whether a server that somebody else has written says that it takes an option. */
static bool takes(const char *options, const char *option)
{
    size_t length = strcspn(option, " =");
    for (const char *at = options; (at = strstr(at, option)) != NULL; at++) {
        if (strncmp(at, option, length) == 0 && strchr(" \n", at[length])) {
            return true;
        }
    }
    return false;
}

/** Skips a test that wants an option which the server that is graded does not take. */
static void skip_without(const char *arguments)
{
    const char *options = getenv("GRADED_OPTIONS"); /* tests/outside.sh */
    char wanted[64];
    while (options && (arguments = strstr(arguments, "--")) != NULL) {
        snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(arguments, " ="), arguments);
        if (strcmp(wanted, "--port") != 0 && !takes(options, wanted)) {
            cr_skip_test("wants %s, which --help of the server does not name", wanted);
        }
        arguments += strlen(wanted);
    }
}

const char *server_name(void)
{
    const char *name = getenv("SERVER_NAME");
    if (name && *name) {
        return name;
    }
    const char *path = server_program();
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/** Splits @p text at spaces, in place, behind the program's path. */
static void split_arguments(char *text, char *argv[ARGUMENTS_MAX])
{
    static char path[4096];
    snprintf(path, sizeof path, "%s", server_program());
    int count = 0;
    argv[count++] = path;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word && count < ARGUMENTS_MAX - 1;
         word = strtok_r(NULL, " ", &rest)) {
        argv[count++] = word;
    }
    argv[count] = NULL;
}

static struct rlimit both_limits(size_t value)
{
    return (struct rlimit){.rlim_cur = value, .rlim_max = value};
}

static void set_limits(struct server_limits limits)
{
    struct rlimit descriptors = both_limits(limits.descriptors);
    struct rlimit address_space = both_limits(limits.address_space);
    if (limits.descriptors > 0) {
        setrlimit(RLIMIT_NOFILE, &descriptors);
    }
    if (limits.address_space > 0) {
        setrlimit(RLIMIT_AS, &address_space);
    }
}

/** In the child: no cr_ function, nothing that returns. */
static _Noreturn void become_program(char *argv[], int out, int err, struct server_limits limits,
                                     pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(126);
    }
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    syscall(SYS_close_range, 3U, ~0U, 0U);
    unsetenv("BXFI_MAP");
    unsetenv("GMON_OUT_PREFIX");
    set_limits(limits);
    execv(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static pid_t spawn(char *argv[], int out, int err, struct server_limits limits)
{
    pid_t parent = getpid();
    pid_t pid = fork();
    cr_assert(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) {
        become_program(argv, out, err, limits, parent);
    }
    return pid;
}

static int pidfd_of(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0U);
    cr_assert(fd >= 0, "pidfd_open: %s", strerror(errno));
    return fd;
}

static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    cr_assert(fd >= 0, "memfd_create: %s", strerror(errno));
    fcntl(fd, F_SETFL, O_APPEND); /* or else two threads' lines can land in one place */
    return fd;
}

/** Copies what stands behind the first bytes of a file. */
static void file_text(int fd, off_t from, char *text, size_t size)
{
    size_t length = 0;
    while (length + 1 < size) {
        ssize_t got = pread(fd, text + length, size - 1 - length, from + (off_t)length);
        if (got <= 0) {
            break;
        }
        length += (size_t)got;
    }
    text[length] = '\0';
}

static off_t file_length(int fd)
{
    struct stat status;
    cr_assert_eq(fstat(fd, &status), 0, "fstat: %s", strerror(errno));
    return status.st_size;
}

void server_errors(const struct server_process *server, char *text, size_t size)
{
    off_t length = file_length(server->err);
    off_t room = (off_t)size - 1;
    file_text(server->err, length > room ? length - room : 0, text, size);
    char *line_end = length > room ? strchr(text, '\n') : NULL;
    if (line_end) {
        memmove(text, line_end + 1, strlen(line_end + 1) + 1);
    }
}

/** Reads the ready line byte by byte (nothing behind it is taken). Returns false at end or
 * deadline. */
static bool read_ready_line(struct server_process *server)
{
    double end = test_deadline();
    size_t length = 0;
    while (length + 1 < sizeof server->ready_line && test_await(server->out, POLLIN, end)) {
        char byte;
        if (read(server->out, &byte, 1) != 1) {
            break;
        }
        if (byte == '\n') {
            return true;
        }
        server->ready_line[length++] = byte;
    }
    return false;
}

/** Finds the port behind the last colon, and the family by the bracket before it. */
static bool parse_ready_line(struct server_process *server)
{
    const char *colon = strrchr(server->ready_line, ':');
    if (!colon || !strstr(server->ready_line, " on ")) {
        return false;
    }
    char *rest = NULL;
    long port = strtol(colon + 1, &rest, 10);
    server->port = (int)port;
    server->family = colon > server->ready_line && colon[-1] == ']' ? AF_INET6 : AF_INET;
    return port > 0 && port < 65536 && *rest == '\0';
}

static pid_t latest;

pid_t server_latest(void)
{
    return latest;
}

/**
 * Starts the program with `--port 0` and SERVER_OPTIONS in front of the options. @param shown
 * receives its whole command line. @return whether it serves
 */
static bool launch(struct server_process *server, struct server_limits limits, char shown[4096],
                   const char *options, va_list arguments)
{
    char text[2048];
    const char *always = getenv("SERVER_OPTIONS");
    snprintf(text, sizeof text, "--port 0 %s ", always ? always : "");
    size_t used = strlen(text);
    vsnprintf(text + used, sizeof text - used, options, arguments);
    skip_without(text);
    snprintf(shown, 4096, "%.1500s %s", server_program(), text);
    char *argv[ARGUMENTS_MAX];
    split_arguments(text, argv);

    int pipe_ends[2];
    cr_assert_eq(pipe2(pipe_ends, O_CLOEXEC), 0, "pipe: %s", strerror(errno));
    *server = (struct server_process){.out = pipe_ends[0],
                                      .err = limits.err > 0 ? dup(limits.err)
                                                            : memory_file("server-stderr")};
    server->pid = latest = spawn(argv, pipe_ends[1], server->err, limits);
    server->pidfd = pidfd_of(server->pid);
    close(pipe_ends[1]);
    return read_ready_line(server) && parse_ready_line(server);
}

/** Clients go through a relay, if there is a program for that (RELAY). It ends with the server. */
static void put_relay_before(struct server_process *server)
{
    char text[2048];
    char *argv[ARGUMENTS_MAX];
    bool six = server->family == AF_INET6;
    const char *more = getenv("RELAY_OPTIONS");
    if (!getenv("RELAY")) {
        return;
    }
    snprintf(text, sizeof text,
             "--port 0 --bind %s --app relay --to %s:%d --idle-timeout 0 --request-timeout 0 %s",
             six ? "::1" : "127.0.0.1", six ? "[::1]" : "127.0.0.1", server->port,
             more ? more : "");
    split_arguments(text, argv);
    argv[0] = getenv("RELAY");
    int pipe_ends[2];
    cr_assert_eq(pipe2(pipe_ends, O_CLOEXEC), 0, "pipe: %s", strerror(errno));
    struct server_process relay = {.out = pipe_ends[0], .err = memory_file("relay-stderr")};
    relay.pid = spawn(argv, pipe_ends[1], relay.err, (struct server_limits){0});
    close(pipe_ends[1]);
    cr_assert(read_ready_line(&relay) && parse_ready_line(&relay), "the relay does not serve");
    close(relay.out);
    close(relay.err);
    server->relay = relay.pid;
    server->port = relay.port;
}

struct server_process server_start_at(const char *where, struct server_limits limits,
                                      const char *options, ...)
{
    struct server_process server;
    char shown[4096];
    va_list arguments;
    va_start(arguments, options);
    bool serves = launch(&server, limits, shown, options, arguments);
    va_end(arguments);
    if (!serves) {
        char errors[ERRORS_SHOWN];
        server_errors(&server, errors, sizeof errors);
        cr_assert_fail("%s: ran `%s` and waited %d ms for a first line on standard output like "
                       "`%s: echo on 127.0.0.1:7002`; got \"%s\"; its standard error: %s",
                       where, shown, test_deadline_ms(), server_name(), server.ready_line, errors);
    }
    put_relay_before(&server);
    return server;
}

bool server_try_start(struct server_process *server, const char *options, ...)
{
    char shown[4096];
    va_list arguments;
    va_start(arguments, options);
    bool serves = launch(server, (struct server_limits){0}, shown, options, arguments);
    va_end(arguments);
    return serves;
}

int server_await_end(struct server_process *server, double end)
{
    siginfo_t info = {0};
    test_await(server->pidfd, POLLIN, end);
    if (waitid(P_PID, (id_t)server->pid, &info, WEXITED | WNOHANG | WNOWAIT) == -1 ||
        info.si_pid == 0) {
        return -1;
    }
    int status = -1;
    if (info.si_code == CLD_EXITED) {
        status = info.si_status << 8;
    } else {
        status = info.si_status;
    }
    return status;
}

void server_forget(struct server_process *server)
{
    if (server->relay > 0) {
        kill(server->relay, SIGKILL);
        waitpid(server->relay, NULL, 0);
    }
    waitpid(server->pid, NULL, 0);
    close(server->out);
    close(server->err);
    close(server->pidfd);
    server->pid = 0;
}

void server_stop_at(const char *where, struct server_process *server)
{
    server_signal(server, SIGTERM);
    server_expect_exit_at(where, server);
}

void server_expect_exit_at(const char *where, struct server_process *server)
{
    char errors[ERRORS_SHOWN];
    int status = server_await_end(server, test_deadline());
    server_errors(server, errors, sizeof errors);
    if (status == -1) {
        server_signal(server, SIGKILL);
        server_forget(server);
        cr_assert_fail(
            "%s: the server was told to stop and still runs, %d ms later; its standard error: %s",
            where, test_deadline_ms(), errors);
    }
    server_forget(server);
    if (status == SIGTERM && getenv("GRADED_ENDS_BY_SIGNAL")) {
        return; /* which has been told already */
    }
    cr_assert(
        WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "%s: the server was told to stop and should exit with 0; it %s %d; its standard error: %s",
        where, WIFEXITED(status) ? "exited with" : "was killed by signal",
        WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), errors);
}

void server_signal(const struct server_process *server, int signal)
{
    kill(server->pid, signal);
}

/** The value of ` name=` in one line, -1 if it is not there. */
static long long value_in_line(const char *line, size_t length, const char *name)
{
    char wanted[64];
    snprintf(wanted, sizeof wanted, " %s=", name);
    const char *found = memmem(line, length, wanted, strlen(wanted));
    return found ? strtoll(found + strlen(wanted), NULL, 10) : -1;
}

long long stats_value(const char *text, const char *name, int *lines)
{
    char prefix[256];
    snprintf(prefix, sizeof prefix, "%s: stats ", server_name());
    long long value = -1;
    int count = 0;
    for (const char *line = text; *line;) {
        const char *end = strchr(line, '\n');
        if (!end) {
            break;
        }
        if (strncmp(line, prefix, strlen(prefix)) == 0) {
            count++;
            value = value_in_line(line, (size_t)(end - line), name);
        }
        line = end + 1;
    }
    if (lines) {
        *lines = count;
    }
    return value;
}

long long server_counter_at(const char *where, const struct server_process *server,
                            const char *name)
{
    static char text[1 << 16];
    int lines = 0;
    /* Only what comes now is looked at: thousands of lines may stand there. */
    off_t before = file_length(server->err);
    server_signal(server, SIGUSR1);
    double end = test_deadline();
    while (lines == 0 && test_left_ms(end) > 0) {
        /* A file gives no event; a server that died does. */
        test_await(server->pidfd, POLLIN, test_now() + 0.002);
        file_text(server->err, before, text, sizeof text);
        stats_value(text, name, &lines);
    }
    if (lines == 0 && getenv("GRADED_OPTIONS") && test_await(server->pidfd, POLLIN, test_now())) {
        cr_skip_test("wants counters, and the server has none: SIGUSR1 ends it");
    }
    cr_assert_gt(lines, 0,
                 "%s: sent SIGUSR1 and waited %d ms for a line `%s: stats name=value ...` on "
                 "standard error; then came: %.*s",
                 where, test_deadline_ms(), server_name(), ERRORS_SHOWN, text);
    long long value = stats_value(text, name, NULL);
    return value >= 0 ? value : 0; /* what has not happened yet may be left out */
}

void server_await_counter_at(const char *where, const struct server_process *server,
                             const char *name, long long least)
{
    double end = test_deadline();
    long long value = 0, before = -1;
    while ((value = server_counter_at(where, server, name)) < least && test_left_ms(end) > 0) {
        if (value > before)
            end = test_deadline(); /* it goes on, however slow the machine is */
        before = value;
        test_pause_ms(1); /* each look costs the server a report */
    }
    cr_assert(value >= least, "%s: waited %d ms for %s to reach %lld; it has stopped at %lld",
              where, test_deadline_ms(), name, least, value);
}

static bool is_ready_line(const char *text)
{
    char prefix[256];
    snprintf(prefix, sizeof prefix, "%s: echo on ", server_name());
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

struct program_result program_run(const char *options, ...)
{
    struct program_result result = {.exit_status = -1};
    va_list arguments;
    va_start(arguments, options);
    vsnprintf(result.command, sizeof result.command, options, arguments);
    va_end(arguments);
    char text[sizeof result.command];
    memcpy(text, result.command, sizeof text);
    if (getenv("GRADED_OPTIONS") && !takes(getenv("GRADED_OPTIONS"), "--help")) {
        cr_skip_test("wants --help, which --help of the server does not name");
    }
    char *argv[ARGUMENTS_MAX];
    split_arguments(text, argv);

    int out = memory_file("program-stdout");
    struct server_process process = {.err = memory_file("program-stderr")};
    process.pid = spawn(argv, out, process.err, (struct server_limits){0});
    process.pidfd = pidfd_of(process.pid);
    process.out = out;
    double end = test_deadline();
    int status = -1;
    while (status == -1 && !result.started && !result.late) {
        status = server_await_end(&process, test_now() + 0.02);
        file_text(out, 0, result.out, sizeof result.out);
        result.started = status == -1 && is_ready_line(result.out);
        result.late = status == -1 && test_left_ms(end) == 0;
    }
    if (status == -1) {
        server_signal(&process, SIGKILL);
    } else if (WIFEXITED(status)) {
        result.exit_status = WEXITSTATUS(status);
    }
    server_errors(&process, result.err, sizeof result.err);
    file_text(out, 0, result.out, sizeof result.out);
    server_forget(&process);
    return result;
}

bool server_has_option(const char *name)
{
    char command[512];
    snprintf(command, sizeof command, "%s --help | grep -q -e ' %s '", server_program(), name);
    return system(command) == 0;
}

void program_expect_lack(const char *application, const char *needs)
{
    char complaint[256];
    struct program_result result = program_run("--app %s --port 0", application);
    snprintf(complaint, sizeof complaint,
             "--app: %s needs %s, which %s does not offer; stages 4 and 5 do\n", application, needs,
             server_name());
    cr_assert_not(result.started, "it serves a %s", application);
    cr_assert_eq(result.exit_status, 2);
    cr_assert(strstr(result.err, complaint), "%s", result.err);
}
