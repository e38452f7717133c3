/*
 * Signals as events: none is lost however many come, and the second stop ends the process.
 */
#include "common/base/signals.h"

#include "common/base/thread.h"
#include "support/deadline.h"
#include "support/probe.h"
#include "support/with.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(signals, .timeout = 120);

static struct signals opened(void)
{
    struct signals signals;
    cr_assert_eq(signals_open(&signals, "prog", 0), 0);
    return signals;
}

/* A test that has `signals`. */
#define SignalsTest(suite, name)                                                                   \
    TestWith(suite, name, struct signals, signals, *signals = opened(), signals_close(signals))

static bool readable(int fd)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    return poll(&watched, 1, 0) == 1;
}

static void (*action_of(int signal_number))(int)
{
    struct sigaction action;
    cr_assert_eq(sigaction(signal_number, NULL, &action), 0);
    return action.sa_handler;
}

Test(signals, nothing_has_come_at_first)
{
    struct signals signals = opened();
    cr_assert_not(readable(signals.fd));
    signals_take(&signals);
    cr_assert_not(signals.stop);
    cr_assert_not(signals.report);
    signals_close(&signals);
    cr_assert_eq(signals.fd, -1);
}

static void assert_stops(int signal_number)
{
    struct signals signals = opened();
    raise(signal_number);
    cr_assert(readable(signals.fd));
    signals_take(&signals);
    cr_assert(signals.stop);
    cr_assert_not(signals.report);
    cr_assert_not(readable(signals.fd), "the descriptor is empty again");
    signals_take(&signals);
    cr_assert(signals.stop, "a stop is forever");
    signals_close(&signals);
}

Test(signals, sigterm_and_sigint_ask_for_a_stop)
{
    assert_stops(SIGTERM);
    assert_stops(SIGINT);
}

SignalsTest(signals, sigusr1_asks_for_a_report_each_time)
{
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        cr_assert(readable(signals->fd));
        signals_take(signals);
        cr_assert(signals->report, "report %d", i);
        cr_assert_not(signals->stop);
        signals_take(signals);
        cr_assert_not(signals->report, "it was taken");
    }
}

SignalsTest(signals, report_and_stop_may_come_together)
{
    raise(SIGUSR1);
    raise(SIGTERM);
    signals_take(signals);
    cr_assert(signals->report);
    cr_assert(signals->stop);
}

SignalsTest(signals, sigpipe_is_ignored)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    cr_assert_eq(write(ends[1], "x", 1), -1);
    cr_assert_eq(errno, EPIPE);
    close(ends[1]);
}

/* In a child: two signals, one after the other. How the child ended. */
static int end_after(int first, int second)
{
    pid_t child = fork();
    if (child == 0) {
        struct signals signals;
        if (signals_open(&signals, "prog", 0) != 0)
            _exit(1);
        raise(first);
        signals_take(&signals);
        if (!signals.stop)
            _exit(2);
        raise(second);
        _exit(3);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(signals, a_second_stop_ends_the_process_at_once)
{
    static const int stops[] = {SIGTERM, SIGINT};
    for (int first = 0; first < 2; first++) {
        for (int second = 0; second < 2; second++) {
            int status = end_after(stops[first], stops[second]);
            cr_assert(WIFSIGNALED(status), "status %#x", (unsigned)status);
            cr_assert_eq(WTERMSIG(status), stops[second]);
        }
    }
}

Test(signals, a_report_after_the_stop_does_not_end_the_process)
{
    int status = end_after(SIGTERM, SIGUSR1);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3, "status %#x", (unsigned)status);
}

/* ---- A stop that takes too long ---- */

static void *hang(void *unused)
{
    thread_set_name("worker %d", 7);
    for (;;)
        pause();
    return unused;
}

/* How a child's stop may go on. */
enum course { MAIN_HANGS, STOPPED_AT_ONCE, A_THREAD_HANGS, BOTH_HANG, NOTHING_HANGS };

/* In the child, whose standard error is `err`. */
static _Noreturn void stop_in_time_or_not(enum course course, int err)
{
    struct signals signals;
    pthread_t thread;
    dup2(err, STDERR_FILENO);
    if (course == STOPPED_AT_ONCE) {
        signals_block(NULL); /* so that it comes as soon as it can, in the middle of the opening */
        raise(SIGTERM);
    }
    if (signals_open(&signals, "prog", course == NOTHING_HANGS ? 60000 : 50) != 0)
        _exit(2);
    if (course == A_THREAD_HANGS || course == BOTH_HANG) {
        char list[64];
        thread_start(&thread, hang, NULL);
        while (thread_list(list, sizeof(list)) == 0)
            sched_yield();
    }
    if (course != STOPPED_AT_ONCE)
        raise(SIGTERM);
    if (course == A_THREAD_HANGS || course == NOTHING_HANGS)
        signals_take(&signals);
    if (course == NOTHING_HANGS) {
        signals_close(&signals);
        struct itimerval left;
        getitimer(ITIMER_REAL, &left);
        _exit(left.it_value.tv_sec == 0 && left.it_value.tv_usec == 0 ? 0 : 3);
    }
    while (poll(NULL, 0, 30000) < 0) /* a signal came */
        ;
    _exit(4);
}

/* The child's exit status; what it wrote is in text. */
static int status_of(enum course course, char *text, size_t size)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        stop_in_time_or_not(course, ends[1]);
    close(ends[1]);
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    ssize_t length = read(ends[0], text, size - 1);
    text[length > 0 ? length : 0] = '\0';
    close(ends[0]);
    cr_assert(WIFEXITED(status), "status %#x", (unsigned)status);
    return WEXITSTATUS(status);
}

#define TOO_LONG "prog: error: [main] event=stop_overdue threads=\""

Test(signals, a_stop_that_takes_too_long_is_ended_and_names_the_threads)
{
    if (probe_thread_sanitized())
        cr_skip_test("ThreadSanitizer keeps signals back in a child of several threads");
    static const char *const lines[] = {[MAIN_HANGS] = TOO_LONG "main\"\n",
                                        [STOPPED_AT_ONCE] = TOO_LONG "main\"\n",
                                        [A_THREAD_HANGS] = TOO_LONG "worker 7\"\n",
                                        [BOTH_HANG] = TOO_LONG "main, worker 7\"\n"};
    for (enum course course = MAIN_HANGS; course <= BOTH_HANG; course++) {
        char text[1024];
        cr_assert_eq(status_of(course, text, sizeof(text)), 1);
        cr_assert_str_eq(text, lines[course], "got: %s", text);
    }
}

Test(signals, a_stop_in_time_is_not_ended)
{
    char text[1024];
    cr_assert_eq(status_of(NOTHING_HANGS, text, sizeof(text)), 0);
    cr_assert_str_eq(text, "");
}

/* Nobody reads its standard error, and there is no room in it for one byte more. */
Test(signals, a_stop_that_takes_too_long_does_not_wait_for_a_reader)
{
    if (probe_thread_sanitized())
        cr_skip_test("ThreadSanitizer keeps signals back in a child of several threads");
    int ends[2];
    char bytes[4096] = "";
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        ;
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
    pid_t child = fork();
    if (child == 0)
        stop_in_time_or_not(MAIN_HANGS, ends[1]);
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child); /* the suite's time limit is the judge */
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1, "status %#x", (unsigned)status);
    cr_assert_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0, "others share it, and want it to block");
}

Test(signals, a_thread_that_began_with_its_signals_blocked_takes_them_now)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    assert_stops(SIGTERM);
}

Test(signals, closing_gives_the_signals_back)
{
    struct signals signals = opened();
    cr_assert_neq(action_of(SIGTERM), SIG_DFL);
    signals_close(&signals);
    cr_assert_eq(action_of(SIGTERM), SIG_DFL);
    cr_assert_eq(action_of(SIGINT), SIG_DFL);
    cr_assert_eq(action_of(SIGUSR1), SIG_IGN);
    raise(SIGUSR1);
}

SignalsTest(signals, may_be_opened_again_and_have_forgotten_all)
{
    raise(SIGTERM);
    raise(SIGUSR1);
    signals_close(signals);
    *signals = opened();
    cr_assert_not(readable(signals->fd));
    signals_take(signals);
    cr_assert_not(signals->stop);
    cr_assert_not(signals->report);
    raise(SIGINT);
    signals_take(signals);
    cr_assert(signals->stop);
}

SignalsTest(signals, ringing_only_makes_the_descriptor_readable)
{
    signals_ring();
    cr_assert(readable(signals->fd));
    signals_take(signals);
    cr_assert_not(signals->stop);
    cr_assert_not(signals->report);
    cr_assert_not(readable(signals->fd));
}

Test(signals, ringing_before_opening_and_after_closing_does_nothing)
{
    errno = ERANGE;
    signals_ring();
    struct signals signals = opened();
    cr_assert_not(readable(signals.fd));
    signals_close(&signals);
    errno = ERANGE;
    signals_ring();
    cr_assert_eq(errno, ERANGE, "what runs in a handler leaves errno alone");
}

SignalsTest(signals, the_descriptors_are_non_blocking_and_close_on_exec)
{
    cr_assert(fcntl(signals->fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(signals->fd, F_GETFD) & FD_CLOEXEC);
}

/* More than any pipe holds. A signal that comes then cannot write its byte, and still counts. */
SignalsTest(signals, a_full_pipe_neither_blocks_nor_loses_a_signal)
{
    for (int i = 0; i < 100000; i++)
        signals_ring();
    raise(SIGUSR1);
    raise(SIGTERM);
    cr_assert(readable(signals->fd));
    signals_take(signals);
    cr_assert(signals->stop);
    cr_assert(signals->report);
    cr_assert_not(readable(signals->fd));
}

enum {
    SIGNALS = 2000,
};

struct sender {
    pthread_t target;
    atomic_bool done;
};

static void *send_signals(void *argument)
{
    struct sender *sender = argument;
    for (int i = 0; i < SIGNALS; i++)
        pthread_kill(sender->target, SIGUSR1);
    atomic_store(&sender->done, true);
    signals_ring();
    return NULL;
}

/* Takes once; a report that was not to be seen at the descriptor would have been slept through. */
static bool take_report(struct signals *signals)
{
    bool heard = readable(signals->fd);
    signals_take(signals);
    cr_assert(heard || !signals->report, "a report that made no sound");
    return signals->report;
}

SignalsTest(signals, case_37_of_thousands_of_signals_none_is_slept_through)
{
    struct sender sender = {.target = pthread_self()};
    pthread_t thread;
    int reports = 0;
    cr_assert_eq(pthread_create(&thread, NULL, send_signals, &sender), 0);
    double end = test_deadline();
    while (!atomic_load(&sender.done)) {
        cr_assert(test_await(signals->fd, POLLIN, end));
        signals_take(signals);
        reports += signals->report;
    }
    pthread_join(thread, NULL);
    reports += take_report(signals);
    cr_assert_gt(reports, 0);
    cr_assert_not(signals->stop);
    raise(SIGUSR1);
    cr_assert(take_report(signals), "one more, after the storm");
}

static void *ring_once(void *argument)
{
    signals_ring();
    return argument;
}

SignalsTest(signals, any_thread_may_ring)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, ring_once, NULL), 0);
    cr_assert(test_await(signals->fd, POLLIN, test_deadline()));
    signals_take(signals);
    cr_assert_not(signals->stop);
    pthread_join(thread, NULL);
}
