/*
 * Signals as events: none is lost however many come, and the second stop ends the process.
 */
#include "common/base/signals.h"
#include "support/deadline.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(signals, .timeout = 60);

static struct signals opened(void)
{
    struct signals signals;
    cr_assert_eq(signals_open(&signals), 0);
    return signals;
}

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

Test(signals, sigterm_asks_for_a_stop)
{
    assert_stops(SIGTERM);
}

Test(signals, sigint_asks_for_a_stop)
{
    assert_stops(SIGINT);
}

Test(signals, sigusr1_asks_for_a_report_each_time)
{
    struct signals signals = opened();
    for (int i = 0; i < 3; i++) {
        raise(SIGUSR1);
        cr_assert(readable(signals.fd));
        signals_take(&signals);
        cr_assert(signals.report, "report %d", i);
        cr_assert_not(signals.stop);
        signals_take(&signals);
        cr_assert_not(signals.report, "it was taken");
    }
    signals_close(&signals);
}

Test(signals, report_and_stop_may_come_together)
{
    struct signals signals = opened();
    raise(SIGUSR1);
    raise(SIGTERM);
    signals_take(&signals);
    cr_assert(signals.report);
    cr_assert(signals.stop);
    signals_close(&signals);
}

Test(signals, sigpipe_is_ignored)
{
    int ends[2];
    struct signals signals = opened();
    cr_assert_eq(pipe(ends), 0);
    close(ends[0]);
    cr_assert_eq(write(ends[1], "x", 1), -1);
    cr_assert_eq(errno, EPIPE);
    close(ends[1]);
    signals_close(&signals);
}

/* In a child: two signals, one after the other. How the child ended. */
static int end_after(int first, int second)
{
    pid_t child = fork();
    if (child == 0) {
        struct signals signals;
        if (signals_open(&signals) != 0)
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

Test(signals, may_be_opened_again_and_have_forgotten_all)
{
    struct signals signals = opened();
    raise(SIGTERM);
    raise(SIGUSR1);
    signals_close(&signals);
    signals = opened();
    cr_assert_not(readable(signals.fd));
    signals_take(&signals);
    cr_assert_not(signals.stop);
    cr_assert_not(signals.report);
    raise(SIGINT);
    signals_take(&signals);
    cr_assert(signals.stop);
    signals_close(&signals);
}

Test(signals, ringing_only_makes_the_descriptor_readable)
{
    struct signals signals = opened();
    signals_ring();
    cr_assert(readable(signals.fd));
    signals_take(&signals);
    cr_assert_not(signals.stop);
    cr_assert_not(signals.report);
    cr_assert_not(readable(signals.fd));
    signals_close(&signals);
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

Test(signals, the_descriptors_are_non_blocking_and_close_on_exec)
{
    struct signals signals = opened();
    cr_assert(fcntl(signals.fd, F_GETFL) & O_NONBLOCK);
    cr_assert(fcntl(signals.fd, F_GETFD) & FD_CLOEXEC);
    signals_close(&signals);
}

/* More than any pipe holds. A signal that comes then cannot write its byte, and still counts. */
Test(signals, a_full_pipe_neither_blocks_nor_loses_a_signal)
{
    struct signals signals = opened();
    for (int i = 0; i < 100000; i++)
        signals_ring();
    raise(SIGUSR1);
    raise(SIGTERM);
    cr_assert(readable(signals.fd));
    signals_take(&signals);
    cr_assert(signals.stop);
    cr_assert(signals.report);
    cr_assert_not(readable(signals.fd));
    signals_close(&signals);
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

Test(signals, case_37_of_thousands_of_signals_none_is_slept_through)
{
    struct signals signals = opened();
    struct sender sender = {.target = pthread_self()};
    pthread_t thread;
    int reports = 0;
    cr_assert_eq(pthread_create(&thread, NULL, send_signals, &sender), 0);
    double end = test_now() + test_deadline_ms() / 1000.0;
    while (!atomic_load(&sender.done)) {
        cr_assert(test_await(signals.fd, POLLIN, end));
        signals_take(&signals);
        reports += signals.report;
    }
    pthread_join(thread, NULL);
    reports += take_report(&signals);
    cr_assert_gt(reports, 0);
    cr_assert_not(signals.stop);
    raise(SIGUSR1);
    cr_assert(take_report(&signals), "one more, after the storm");
    signals_close(&signals);
}

static void *ring_once(void *argument)
{
    signals_ring();
    return argument;
}

Test(signals, any_thread_may_ring)
{
    struct signals signals = opened();
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, ring_once, NULL), 0);
    cr_assert(test_await(signals.fd, POLLIN, test_now() + test_deadline_ms() / 1000.0));
    signals_take(&signals);
    cr_assert_not(signals.stop);
    pthread_join(thread, NULL);
    signals_close(&signals);
}
