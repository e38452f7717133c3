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
 * - Only the thread that calls signals_open(), main, takes these signals: all other threads are
 *   started with signals_block(), by thread_start().
 * - An orderly stop may hang: in an application, in a log that nobody reads, in a look-up of a
 *   name. So it has a time. When that is over, a handler in main names the threads that have not
 *   ended and ends the process, whatever main waits for at that moment.
 */
#ifndef COMMON_SIGNALS_H
#define COMMON_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct signals {
    int fd;      /* readable as soon as a signal has come */
    bool stop;   /* SIGTERM or SIGINT has come */
    bool report; /* SIGUSR1 has come since the last signals_take() */
};

/**
 * Catches the signals from now on, in the calling thread. If signals_close() has not been called
 * `stop_ms` milliseconds after the first SIGTERM or SIGINT, one line on standard error, which
 * begins with the program's name, names the threads that have not ended, and the process ends with
 * status
 * 1. 0: a stop may take as long as it likes. Returns 0, or -1 with errno; nothing is changed then.
 */
int signals_open(struct signals *signals, const char *program, int64_t stop_ms);

/**
 * Writes what holds the program to text, with a zero at its end: a line for each thread that is in
 * a handler, for which peer, for how long. Returns the length. It runs in a signal handler.
 */
typedef size_t signals_describer(void *context, char *text, size_t size);

/** A stop that takes too long writes this, too, behind its own line; signals_expect() only this. */
void signals_describe(signals_describer *how, void *context);

/**
 * For a main that runs handlers itself: if this is not called again in so many milliseconds, a
 * line on standard error says what holds it (signals_describe()), in the middle of that. So a
 * system call of a handler that takes longer may be interrupted, once: a sleep ends then. Called
 * again and again it costs nothing but the calls. Main only; not once a stop has come.
 */
void signals_expect(int64_t ms);

/**
 * Blocks these signals in the calling thread; the mask that it had before is in `before`. Any
 * thread.
 */
void signals_block(sigset_t *before);

/** Ends the catching: a stop signal ends the process from here on, a report is ignored. */
void signals_close(struct signals *signals);

/** Whether SIGTERM or SIGINT has come, whoever has taken it or not. Any thread. */
bool signals_stop_came(void);

/** Makes the descriptor readable, so that whoever waits for it looks round. Any thread. */
void signals_ring(void);

/** Empties the descriptor and brings stop and report up to date. One thread at a time. */
void signals_take(struct signals *signals);

#endif
