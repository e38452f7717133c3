/*
 * The system's own readiness selection, behind one set of verbs (java.nio's SelectorProvider; Lea,
 * "Reactor 1: Setup").
 *
 * selector.c keeps the keys, the lock and the coalescing of wakeups; a provider only talks to the
 * kernel. It calls `watch` and `wait` with its lock held, `wakeup` in any thread without, and
 * `open` and `close` when nobody else has the selector.
 */
#ifndef COMMON_SELECTOR_PROVIDER_H
#define COMMON_SELECTOR_PROVIDER_H

#include "common/base/options.h"
#include "common/events/selector.h"

/** One descriptor that the kernel found ready. */
struct ready_event {
    struct selection_key *key;
    unsigned ready; /* SELECT_READ, SELECT_WRITE, SELECT_END; an error or a hang-up is SELECT_READ,
                       SELECT_WRITE and SELECT_LOSS together */
};

struct selector_provider {
    const char *name; /* for --selector */

    /** The provider's state for one selector; NULL with errno. */
    void *(*open)(void);
    void (*close)(void *state);

    /**
     * Tells the kernel to watch the key's descriptor for the events in `watch` instead of those in
     * key->watched; SELECT_NOTHING takes it out of the kernel's sight. While the key is watched,
     * key->index is the provider's. 0, or -1 with errno, and the kernel's view is unchanged.
     */
    int (*watch)(void *state, struct selection_key *key, unsigned watch);

    /**
     * Waits for up to SELECTOR_BATCH events, timeout_ms at most (-1: no limit). Swallows wakeups.
     * How many events it found; -1 with errno. Each wait reports what is ready, as far as there is
     * room, also what the one before has reported: an owner may leave some of it, and never says
     * so. A provider that hears of changes only (EPOLLET) has to look whether what it has reported
     * is still there. If the kernel has disarmed a key with SELECT_ONCE, key->watched is
     * SELECT_ONCE and nothing else from then on.
     */
    int (*wait)(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms);

    /** Makes the wait of now, or else the next one, return. Any thread, without the lock. */
    void (*wakeup)(void *state);
};

/** The providers of this platform, best first, ended by NULL. */
extern const struct selector_provider *const selector_providers[];

/** Their names, for people: "one of epoll, poll". */
extern const char selector_provider_names[];

/** The option --selector, which sets *provider. */
struct option selector_provider_option(const struct selector_provider **provider);

extern const struct selector_provider selector_epoll;
extern const struct selector_provider selector_poll;

#endif
