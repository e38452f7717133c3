/*
 * Signals as events: what asks the server to stop, or to print its counters, arrives as bytes on a
 * descriptor that can be waited for like any other.
 *
 * A signal handler may do next to nothing, so ours sets a flag and writes one byte into a pipe. The
 * flag cannot be lost, however many signals fill the pipe; the byte ends whatever sleep the server
 * is in. Other threads may ring the same bell when the main thread has to look at something.
 *
 * Interface:
 * - One struct signals for each process: what a handler writes to has to be global.
 * - SIGPIPE is ignored from then on: a write to a peer that is gone returns EPIPE.
 * - The first SIGTERM or SIGINT asks for an orderly stop and gives both back their default action,
 *   so a second one ends the process at once.
 */
#ifndef COMMON_SIGNALS_H
#define COMMON_SIGNALS_H

#include <stdbool.h>

struct signals {
    int fd;      /* readable as soon as a signal has come */
    bool stop;   /* SIGTERM or SIGINT has come */
    bool report; /* SIGUSR1 has come since the last signals_take() */
};

/** Catches the signals from now on. 0, or -1 with errno; nothing is changed then. */
int signals_open(struct signals *signals);

/** Ends the catching: a stop signal ends the process from here on, a report is ignored. */
void signals_close(struct signals *signals);

/** Whether SIGTERM or SIGINT has come, whoever has taken it or not. Any thread. */
bool signals_stop_came(void);

/** Makes the descriptor readable, so that whoever waits for it looks round. Any thread. */
void signals_ring(void);

/** Empties the descriptor and brings stop and report up to date. One thread at a time. */
void signals_take(struct signals *signals);

#endif
