#include "common/base/signals.h"

#include "common/base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum {
    LAST_LINE_SIZE = 1024,
};

/* All that handlers touch. The last two stay as they are while signals are caught. */
static atomic_bool stop_came;
static atomic_bool stop_taken; /* main has heard of it */
static atomic_bool report_came;
static atomic_int doorbell = -1;       /* the writing end of the pipe */
static struct itimerval stop_limit;    /* zero: a stop has none */
static char last_line[LAST_LINE_SIZE]; /* how it begins */
static signals_describer *describe;    /* what holds the program; NULL: nobody knows */
static void *describer;

static sigset_t caught_signals(void)
{
    sigset_t caught;
    sigemptyset(&caught);
    sigaddset(&caught, SIGTERM);
    sigaddset(&caught, SIGINT);
    sigaddset(&caught, SIGUSR1);
    sigaddset(&caught, SIGALRM);
    return caught;
}

void signals_block(sigset_t *before)
{
    sigset_t caught = caught_signals();
    pthread_sigmask(SIG_BLOCK, &caught, before);
}

static void set_action(int signal_number, void (*action)(int))
{
    struct sigaction change = {.sa_handler = action, .sa_flags = SA_RESTART};
    sigemptyset(&change.sa_mask);
    sigaction(signal_number, &change, NULL);
}

void signals_ring(void)
{
    int error = errno;
    ssize_t written;
    do
        written = write(atomic_load(&doorbell), "", 1);
    while (written < 0 && errno == EINTR); /* EAGAIN: it is full, and has been heard already */
    errno = error;
}

static void on_stop(int signal_number)
{
    (void)signal_number;
    set_action(SIGTERM, SIG_DFL);
    set_action(SIGINT, SIG_DFL);
    atomic_store(&stop_came, true);
    setitimer(ITIMER_REAL, &stop_limit, NULL); /* one system call, so a handler may call it */
    signals_ring();
}

/*
 * Writes as much as fits at once: whoever reads the log may be what the stop waits for. Other
 * processes may write to the same pipe or terminal, so it is changed only for this one call.
 */
static void write_without_waiting(const char *text, size_t length)
{
    int flags = fcntl(STDERR_FILENO, F_GETFL);
    fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written; /* there is nobody left to tell */
    fcntl(STDERR_FILENO, F_SETFL, flags);
}

/*
 * The stop has taken too long. Main is one of those that have not ended, but if it has heard of the
 * stop it most likely waits for the others. No lock of the log or of the heap is taken here,
 * because a thread that hangs may hold it.
 */
static void on_overdue(int signal_number)
{
    (void)signal_number;
    char others[LAST_LINE_SIZE / 2];
    bool main_is_last = thread_list(others, sizeof(others)) == 0;
    char *end = last_line + strlen(last_line);
    if (main_is_last || !atomic_load(&stop_taken))
        end = stpcpy(end, main_is_last ? "main" : "main, ");
    end = stpcpy(stpcpy(end, others), "\"\n");
    if (describe != NULL)
        end += describe(describer, end, (size_t)(last_line + sizeof(last_line) - end));
    write_without_waiting(last_line, (size_t)(end - last_line));
    _exit(EXIT_FAILURE);
}

/* Main has not come back to its loop in time. */
static void say_late(void)
{
    char lines[LAST_LINE_SIZE / 2];
    if (describe != NULL) /* nobody is: the process was stopped, or the machine busy */
        write_without_waiting(lines, describe(describer, lines, sizeof(lines)));
}

static void on_alarm(int signal_number)
{
    int error = errno;
    if (atomic_load(&stop_came))
        on_overdue(signal_number);
    else
        say_late();
    errno = error;
}

static void on_report(int signal_number)
{
    (void)signal_number;
    atomic_store(&report_came, true);
    signals_ring();
}

bool signals_stop_came(void)
{
    return atomic_load(&stop_came);
}

static struct itimerval once_in(int64_t ms)
{
    return (struct itimerval){
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000 * 1000)}};
}

/* What the handlers read is there before the first signal can come. */
int signals_open(struct signals *signals, const char *program, int64_t stop_ms)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    *signals = (struct signals){.fd = ends[0]};
    atomic_store(&stop_came, false);
    atomic_store(&stop_taken, false);
    atomic_store(&report_came, false);
    stop_limit = once_in(stop_ms);
    describe = NULL;
    snprintf(last_line, sizeof(last_line) / 2 - 16,
             "%s: error: [main] event=stop_overdue threads=\"", program);
    atomic_store(&doorbell, ends[1]);
    set_action(SIGPIPE, SIG_IGN);
    set_action(SIGALRM, on_alarm);
    set_action(SIGTERM, on_stop);
    set_action(SIGINT, on_stop);
    set_action(SIGUSR1, on_report);
    sigset_t caught = caught_signals();
    pthread_sigmask(SIG_UNBLOCK, &caught, NULL); /* a parent may have blocked them */
    return 0;
}

void signals_describe(signals_describer *how, void *context)
{
    describer = context;
    describe = how;
}

/* A stop that comes between the two calls has set its limit, which is set again. */
void signals_expect(int64_t ms)
{
    struct itimerval limit = once_in(ms);
    if (atomic_load(&stop_came))
        return;
    setitimer(ITIMER_REAL, &limit, NULL);
    if (atomic_load(&stop_came))
        setitimer(ITIMER_REAL, &stop_limit, NULL);
}

/* SIGUSR1 would end a process that is about to end anyway, so it is ignored from here on. */
void signals_close(struct signals *signals)
{
    describe = NULL;
    stop_limit = (struct itimerval){0};
    setitimer(ITIMER_REAL, &stop_limit, NULL);
    set_action(SIGALRM, SIG_DFL);
    set_action(SIGUSR1, SIG_IGN);
    set_action(SIGTERM, SIG_DFL);
    set_action(SIGINT, SIG_DFL);
    close(atomic_exchange(&doorbell, -1));
    close(signals->fd);
    signals->fd = -1;
}

void signals_take(struct signals *signals)
{
    char bytes[64];
    while (read(signals->fd, bytes, sizeof(bytes)) > 0)
        ;
    signals->stop = atomic_load(&stop_came);
    atomic_store(&stop_taken, signals->stop);
    signals->report = atomic_exchange(&report_came, false);
}
