/*
 * What ends a thread's sleep in poll(2) from another thread: an eventfd(2) that is there only once
 * somebody may have to be woken by it.
 *
 * Interface: the thread that sleeps opens it, polls wakeup_fd(), hears, and closes; any thread
 * rings. A ring before it is open wakes nobody, so the sleeper looks once more, after opening and
 * before it sleeps, at what the other thread had written before it rang.
 */
#ifndef COMMON_WAKEUP_H
#define COMMON_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct wakeup {
    atomic_int descriptor; /* plus one; 0: it is not open */
};

/** What to poll for reading; -1: it is not open. */
static inline int wakeup_fd(struct wakeup *wakeup)
{
    return atomic_load(&wakeup->descriptor) - 1;
}

/** Opens it, if it is not open. False: there is no descriptor. */
static inline bool wakeup_open(struct wakeup *wakeup)
{
    if (wakeup_fd(wakeup) < 0)
        atomic_store(&wakeup->descriptor, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) + 1);
    return wakeup_fd(wakeup) >= 0;
}

/** Has the poll that goes on now, or else the next one, return. Any thread; never waits. */
static inline void wakeup_ring(struct wakeup *wakeup)
{
    int fd = wakeup_fd(wakeup);
    if (fd >= 0)
        eventfd_write(fd, 1);
}

/** It was heard, and is silent until the next ring. */
static inline void wakeup_hear(struct wakeup *wakeup)
{
    eventfd_t times;
    eventfd_read(wakeup_fd(wakeup), &times);
}

/** Nobody rings any more. */
static inline void wakeup_close(struct wakeup *wakeup)
{
    if (wakeup_fd(wakeup) >= 0)
        close(wakeup_fd(wakeup));
}

#endif
