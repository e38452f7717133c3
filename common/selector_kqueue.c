/*
 * The provider on top of kqueue(2), for the BSDs and macOS. Reading and writing are two filters
 * there, each registered and reported on its own.
 */
#include "selector_provider.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/event.h>
#include <sys/time.h>
#include <sys/types.h>
#include <unistd.h>

enum {
    WAKEUP_IDENT = 1, /* names our one user event */
};

struct kqueue_state {
    int kqueue;
};

static int change(int kqueue, uintptr_t ident, short filter, unsigned short flags, void *udata)
{
    struct kevent event;
    EV_SET(&event, ident, filter, flags, 0, 0, udata);
    return kevent(kqueue, &event, 1, NULL, 0, NULL);
}

static void kqueue_close(void *state)
{
    struct kqueue_state *set = state;
    if (set->kqueue >= 0)
        close(set->kqueue);
    free(set);
}

static void *kqueue_open(void)
{
    struct kqueue_state *set = malloc(sizeof(*set));
    if (set == NULL)
        return NULL;
    set->kqueue = kqueue();
    if (set->kqueue < 0 ||
        change(set->kqueue, WAKEUP_IDENT, EVFILT_USER, EV_ADD | EV_CLEAR, NULL) != 0) {
        int error = errno;
        kqueue_close(set);
        errno = error;
        return NULL;
    }
    return set;
}

static int set_filter(int kqueue, struct selection_key *key, short filter, bool on)
{
    return change(kqueue, (uintptr_t)key->fd, filter, on ? EV_ADD : EV_DELETE, key);
}

static int kqueue_watch(void *state, struct selection_key *key, unsigned watch)
{
    const struct kqueue_state *set = state;
    unsigned changed = watch ^ key->watched;
    if ((changed & SELECT_READ) != 0 &&
        set_filter(set->kqueue, key, EVFILT_READ, (watch & SELECT_READ) != 0) != 0)
        return -1;
    if ((changed & SELECT_WRITE) != 0 &&
        set_filter(set->kqueue, key, EVFILT_WRITE, (watch & SELECT_WRITE) != 0) != 0) {
        int error = errno;
        if ((changed & SELECT_READ) != 0) /* as it was before */
            set_filter(set->kqueue, key, EVFILT_READ, (key->watched & SELECT_READ) != 0);
        errno = error;
        return -1;
    }
    return 0;
}

/* The kernel's set goes by descriptor, so a key's place in ours does not matter to it. */
static void kqueue_moved(void *state, const struct selection_key *key, size_t from)
{
    (void)state;
    (void)key;
    (void)from;
}

/* Both filters of a key report on their own: the second one joins the first. */
static int join_event(struct ready_event *events, int used, struct selection_key *key,
                      unsigned ready)
{
    for (int i = 0; i < used; i++) {
        if (events[i].key == key) {
            events[i].ready |= ready;
            return used;
        }
    }
    events[used].key = key;
    events[used].ready = ready;
    return used + 1;
}

static int kqueue_wait(void *state, struct ready_event *events, size_t capacity, int timeout_ms)
{
    const struct kqueue_state *set = state;
    struct kevent found[SELECTOR_BATCH];
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    int most = capacity < SELECTOR_BATCH ? (int)capacity : SELECTOR_BATCH;
    int count = kevent(set->kqueue, NULL, 0, found, most, timeout_ms < 0 ? NULL : &timeout);
    if (count < 0)
        return -1;

    int used = 0;
    for (int i = 0; i < count; i++) {
        if (found[i].udata == NULL)
            continue; /* the wakeup: it has done its work by ending the wait */
        unsigned ready = found[i].filter == EVFILT_READ ? SELECT_READ : SELECT_WRITE;
        used = join_event(events, used, found[i].udata, ready);
    }
    return used;
}

static void kqueue_wakeup(void *state)
{
    const struct kqueue_state *set = state;
    struct kevent event;
    EV_SET(&event, WAKEUP_IDENT, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
    while (kevent(set->kqueue, &event, 1, NULL, 0, NULL) < 0 && errno == EINTR)
        ;
}

const struct selector_provider selector_kqueue = {
    .name = "kqueue",
    .open = kqueue_open,
    .close = kqueue_close,
    .watch = kqueue_watch,
    .moved = kqueue_moved,
    .wait = kqueue_wait,
    .wakeup = kqueue_wakeup,
};
