/*
 * Readiness selection with the words and the temper of java.nio (Hitchens, "Let's Quickly Review";
 * Lea, "Selector", "SelectionKey").
 *
 * A selector watches file descriptors. Each is registered with a key, which says what its owner is
 * interested in, and, after selector_select(), what it is ready for. Where the readiness comes from
 * is the provider's business: epoll(7), poll(2) (selector_provider.h).
 *
 * selector_select() holds the selector's lock while it sleeps, as in Java up to JDK 10 (Hitchens
 * calls such selectors cranky). So register, cancel and interest from another thread wait for that
 * lock until the sleep ends. Only selector_wakeup() may be called by any thread at any time.
 * Therefore stages 3 to 5 need a guard.
 *
 * Interface:
 * - One thread selects, and it alone looks at the selected keys and at what they are ready for.
 * - A key lives in its owner, stays where it is while registered, and is free for any use as soon
 *   as selector_cancel() has returned. The selector owns neither keys nor descriptors: cancel
 *   first, close afterwards.
 * - An event of a cancelled key is never delivered, even if it was selected already, and even if a
 *   new connection has got the same descriptor number since (erratum 11, case 24).
 *   Neither is one that its owner does not want any more when its turn comes: a handler that was
 *   given to a worker earlier in the same round is not run again by its own event.
 * - Its owner sees to it that two threads never change the same key at once.
 * - Level-triggered: what is ready and wanted is reported on each select until it is dealt with.
 *   A descriptor in error or hung up counts as ready for all that its key is interested in, so
 *   that the next read or write finds out. An owner that wants neither to read nor to write asks
 *   for SELECT_LOSS, or else it would never hear of an error. With SELECT_END it also hears that
 *   the peer has ended its stream, if the provider can tell: epoll can, poll cannot.
 * - Growing interest costs a system call. Shrinking costs none at first: if an event comes that
 *   nobody wants by the next select, the kernel is told then. So taking interest away and putting
 *   it back is mostly free. Where such an event surely comes, SELECT_ONCE costs one call instead of
 *   two: the kernel forgets the interest when it reports the event.
 */
#ifndef COMMON_SELECTOR_H
#define COMMON_SELECTOR_H

#include "common/base/lock.h"
#include "common/events/selection.h"

#include <stdatomic.h>
#include <stddef.h>

struct selector;
struct selector_provider;

/** Handle: one descriptor registered with one selector. */
struct selection_key {
    struct selector *selector; /* NULL while not registered */
    void *attachment;          /* its owner's; the selector does not use it */
    int fd;
    uint32_t index;    /* the provider's: its place in a set of the provider's own */
    uint32_t selected; /* its place in the selector's `selected`, if it is there; else any */
    uint8_t interest;  /* what the owner wants to be selected for */
    uint8_t watched;   /* what the kernel has been told to watch */
    uint8_t ready;     /* what the last select found, as far as it is still wanted */
};

enum {
    /** Events that one select can return. More wait for the next one. */
    SELECTOR_BATCH = 256,
};

struct selector {
    const struct selector_provider *provider;
    void *provider_state;
    atomic_int sleep;                      /* enum selector_sleep, in selector.c */
    atomic_uint_least64_t wakeups_asked;   /* calls of selector_wakeup() */
    atomic_uint_least64_t wakeups_written; /* those of them that cost a system call */
    struct mutex lock;                     /* held through select: the crankiness */
    _Atomic(const void *) thread;          /* that selected last, by an address of its own */
    size_t key_count GUARDED_BY(&lock);    /* registered */
    size_t selected_count;                 /* the selecting thread's */
    size_t unwanted_count GUARDED_BY(&lock);
    /* From its end on, those with an event that nobody wanted. Filled by the selecting thread,
     * which reads it without the lock, because the order with other fields does not matter. Any
     * thread that holds the lock may take a key out. */
    _Atomic(struct selection_key *) selected[SELECTOR_BATCH];
};

/** Opens a selector on top of a provider. 0, or -1 with errno; nothing is held then. */
int selector_open(struct selector *selector, const struct selector_provider *provider);

/** Closes it. Every key must have been cancelled. */
void selector_close(struct selector *selector);

/**
 * Registers fd with the key, which is the caller's and not registered. Any thread; waits while
 * another thread selects. 0, or -1 with errno; on error nothing is registered. Without interest it
 * cannot fail.
 */
int selector_register(struct selector *selector, struct selection_key *key, int fd,
                      unsigned interest, void *attachment);

/**
 * Ends a registration; does nothing for a key that is not registered. Any thread; waits while
 * another thread selects.
 */
void selector_cancel(struct selection_key *key);

/**
 * Sets what the key is interested in. Any thread; waits while another thread selects. The thread
 * that selects takes the lock only if the kernel's view has to grow. 0, or -1 with errno if the
 * kernel has no memory for it; then the key is interested in nothing.
 */
int selector_interest(struct selection_key *key, unsigned interest);

/**
 * Sleeps until a key is ready, a wakeup, or timeout_ms (-1: no limit; 0: does not sleep at all).
 * Returns how many keys are selected, perhaps none. One thread only.
 */
size_t selector_select(struct selector *selector, int timeout_ms);

/** The i-th selected key, or NULL if it was cancelled or lost interest since. The selecting thread
 * only. */
struct selection_key *selector_selected(struct selector *selector, size_t i);

/**
 * Makes the select that sleeps now, or else the next one, return at once. Any thread, any time;
 * never waits. All calls before the selecting thread is back cost one system call together, and
 * none if that thread is awake.
 */
void selector_wakeup(struct selector *selector);

#endif
