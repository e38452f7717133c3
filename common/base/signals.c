#include "common/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* All that the handler touches. */
static atomic_bool stop_came;
static atomic_bool report_came;
static atomic_int doorbell = -1; /* the writing end of the pipe */

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
    signals_ring();
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

int signals_open(struct signals *signals)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    *signals = (struct signals){.fd = ends[0]};
    atomic_store(&stop_came, false);
    atomic_store(&report_came, false);
    atomic_store(&doorbell, ends[1]);
    set_action(SIGPIPE, SIG_IGN);
    set_action(SIGTERM, on_stop);
    set_action(SIGINT, on_stop);
    set_action(SIGUSR1, on_report);
    return 0;
}

/* SIGUSR1 would end a process that is about to end anyway, so it is ignored from here on. */
void signals_close(struct signals *signals)
{
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
    signals->report = atomic_exchange(&report_came, false);
}
