/*
 * What can be made to fail: see failures.h.
 */
#include "failures.h"

#include <errno.h>
#include <stddef.h>

/* ---- the kernel's memory ---- */

atomic_bool failing_provider_fails;

static void *open_real(void)
{
    return selector_epoll.open();
}

static void close_real(void *state)
{
    selector_epoll.close(state);
}

static int watch_or_fail(void *state, struct selection_key *key, unsigned watch)
{
    if (watch != SELECT_NOTHING && atomic_load(&failing_provider_fails)) {
        errno = ENOSPC;
        return -1;
    }
    return selector_epoll.watch(state, key, watch);
}

static int wait_really(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms)
{
    return selector_epoll.wait(state, events, timeout_ms);
}

static void wakeup_really(void *state)
{
    selector_epoll.wakeup(state);
}

const struct selector_provider failing_provider = {
    .name = "failing",
    .open = open_real,
    .close = close_real,
    .watch = watch_or_fail,
    .wait = wait_really,
    .wakeup = wakeup_really,
};

/* ---- the process's memory ---- */

/*
 * Allocations that fail. The function is replaced in the whole test binary; a sanitizer has a
 * version of its own in front of the C library's, and wants to be asked.
 */
static _Thread_local bool spared;
static atomic_int failing_elsewhere;

void failing_reallocations_elsewhere(int count)
{
    spared = true;
    atomic_store(&failing_elsewhere, count);
}

int failing_reallocations_left(void)
{
    int left = atomic_load(&failing_elsewhere);
    return left > 0 ? left : 0;
}

extern void *interceptor_realloc(void *, size_t) __asm__("__interceptor_realloc")
    __attribute__((weak));
extern void *library_realloc(void *, size_t) __asm__("__libc_realloc");
void *replaced_realloc(void *block, size_t size) __asm__("realloc");

/* ThreadSanitizer comes by here before a thread of its own is ready. */
#if defined(__clang__)
#define NOT_SANITIZED __attribute__((disable_sanitizer_instrumentation))
#else
#define NOT_SANITIZED __attribute__((no_sanitize_thread, no_sanitize_address))
#endif

NOT_SANITIZED void *replaced_realloc(void *block, size_t size)
{
    if (!spared && atomic_load_explicit(&failing_elsewhere, memory_order_relaxed) > 0 &&
        atomic_fetch_sub(&failing_elsewhere, 1) > 0) {
        errno = ENOMEM;
        return NULL;
    }
    return interceptor_realloc ? interceptor_realloc(block, size) : library_realloc(block, size);
}
