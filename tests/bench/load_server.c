/*
 * The server under load: a process that we start, account for by its pid, and end.
 */
#include "load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    START_MS = 10000, /* for the ready line */
    STOP_MS = 30000,  /* from SIGTERM to the end */
};

/* ---- starting ---- */

void pin_to(const char *processors)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const char *rest = processors; *rest != '\0';) {
        char *end;
        long processor = strtol(rest, &end, 10);
        if (end == rest || processor < 0 || processor >= CPU_SETSIZE || strchr(",", *end) == NULL)
            load_fail("not a list of processors: %s", processors);
        CPU_SET((size_t)processor, &set);
        rest = *end == ',' ? end + 1 : end;
    }
    if (sched_setaffinity(0, sizeof(set), &set) != 0)
        load_fail("cannot run on processors %s: %s", processors, strerror(errno));
}

/* In the child. What is exec'ed dies with us, whatever happens to us. */
static _Noreturn void become_server(const struct load_settings *settings, int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (settings->pin_server != NULL)
        pin_to(settings->pin_server);
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    execvp(settings->server[0], settings->server);
    fprintf(stderr, "load: cannot run %s: %s\n", settings->server[0], strerror(errno));
    _exit(127);
}

/* The first line of the server's output, without its LF. Fails if it does not come. */
static void read_ready_line(int fd, char *line, size_t size)
{
    int64_t end = now_ns() + (int64_t)START_MS * 1000000;
    size_t length = 0;
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    while (length + 1 < size) {
        int left = (int)((end - now_ns()) / 1000000);
        if (left <= 0 || poll(&wait, 1, left) <= 0 || read(fd, line + length, 1) != 1)
            load_fail("the server did not say where it listens");
        if (line[length] == '\n')
            break;
        length++;
    }
    line[length] = '\0';
}

/* `NAME: echo on 127.0.0.1:7002` */
static void parse_ready_line(struct load_server *server, const char *line)
{
    const char *name_end = strchr(line, ':');
    const char *colon = strrchr(line, ':');
    if (name_end == NULL || colon == name_end || strstr(line, " on ") == NULL)
        load_fail("the server's first line is not like `name: echo on 127.0.0.1:7002`: %s", line);
    snprintf(server->name, sizeof(server->name), "%.*s", (int)(name_end - line), line);
    server->port = atoi(colon + 1);
}

static void start(struct load_server *server, const struct load_settings *settings)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        load_fail("cannot make a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        load_fail("cannot start a process: %s", strerror(errno));
    if (pid == 0)
        become_server(settings, ends[1]);
    *server = (struct load_server){.pid = pid, .ours = true};
    close(ends[1]);
    char line[256];
    read_ready_line(ends[0], line, sizeof(line));
    parse_ready_line(server, line);
    /* ends[0] stays open: a server that prints more must not be killed by it */
}

void server_begin(struct load_server *server, const struct load_settings *settings)
{
    if (settings->port != 0) {
        *server = (struct load_server){
            .pid = (pid_t)settings->pid, .port = (int)settings->port, .name = "server"};
    } else {
        start(server, settings);
    }
}

/* ---- ending ---- */

/* Waits for the end; false if it has not come in time. */
static bool await_end(pid_t pid, int timeout_ms, int *status)
{
    int64_t end = now_ns() + (int64_t)timeout_ms * 1000000;
    const struct timespec pause = {.tv_nsec = 1000000};
    pid_t ended;
    while ((ended = waitpid(pid, status, WNOHANG)) == 0 && now_ns() < end)
        nanosleep(&pause, NULL);
    return ended == pid;
}

static bool ended_well(int status)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGTERM; /* the floors and peers do not catch it */
    return WEXITSTATUS(status) == 0;
}

void server_finish(struct load_server *server)
{
    int status = 0;
    pid_t pid = server->pid;
    if (!server->ours || pid == 0)
        return;
    server->pid = 0; /* once only, even if this fails */
    kill(pid, SIGTERM);
    if (!await_end(pid, STOP_MS, &status)) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        load_fail("the server did not end within %d s of SIGTERM", STOP_MS / 1000);
    }
    if (!ended_well(status))
        load_fail("the server did not end well: wait status 0x%x", (unsigned)status);
}

const char *server_fate(struct load_server *server)
{
    static char text[64];
    int status;
    if (!server->ours || server->pid == 0 || !await_end(server->pid, 100, &status))
        return "";
    server->pid = 0;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof(text), "; the server was killed by signal %d", WTERMSIG(status));
    else
        snprintf(text, sizeof(text), "; the server has ended with %d", WEXITSTATUS(status));
    return text;
}

/* ---- accounting ---- */

/* The number behind `name` in /proc/PID/status; -1 if there is none. */
static long long status_field(pid_t pid, const char *name)
{
    char path[64];
    char line[256];
    long long value = -1;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return -1;
    while (value < 0 && fgets(line, sizeof(line), file) != NULL)
        if (strncmp(line, name, strlen(name)) == 0)
            value = atoll(line + strlen(name));
    fclose(file);
    return value;
}

long long server_memory(const struct load_server *server)
{
    return status_field(server->pid, "RssAnon:") * 1024;
}

long server_threads(const struct load_server *server)
{
    return (long)status_field(server->pid, "Threads:");
}

/* The clock of a process counts in nanoseconds what its threads have run, ended ones included. */
static double cpu_seconds(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

struct usage server_usage(const struct load_server *server)
{
    struct usage usage = {.cpu = cpu_seconds(server->pid)};
    char path[64];
    char text[1024];
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)server->pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return usage;
    if (fgets(text, sizeof(text), file) != NULL) {
        const char *behind_name = strrchr(text, ')');
        if (behind_name != NULL)
            sscanf(behind_name, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
                   &system);
    }
    fclose(file);
    double ticks = (double)sysconf(_SC_CLK_TCK);
    usage.user = (double)user / ticks;
    usage.system = (double)system / ticks;
    return usage;
}
