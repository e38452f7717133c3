/*
 * The provider on top of poll(2): POSIX has it everywhere. The set lives here, in user space, and
 * is handed to the kernel anew on each wait, so a wait costs as much as there are keys.
 */
#include "common/events/selector_provider.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    BACK_OFF_MS = 20, /* before the next try, when the system has no memory for a wait */
};

/*
 * fds[0] is the reading end of the wakeup pipe. The others are those of the keys that are watched:
 * fds[i] is that of keys[i], which knows its place (key->index).
 */
struct poll_state {
    struct pollfd *fds;
    struct selection_key **keys;
    size_t capacity;
    size_t used;
    size_t next;   /* where the next search for ready ones begins, so that each gets its turn */
    int wakeup[2]; /* a pipe: reading end, writing end */
};

static void poll_close(void *state)
{
    struct poll_state *set = state;
    if (set->wakeup[0] >= 0) {
        close(set->wakeup[0]);
        close(set->wakeup[1]);
    }
    free(set->fds);
    free(set->keys);
    free(set);
}

/* Room for `wanted` entries; -1 without memory, and all is as before. */
static int grow(struct poll_state *set, size_t wanted)
{
    if (wanted <= set->capacity)
        return 0;
    size_t capacity = wanted < 16 ? 16 : wanted * 2;
    struct pollfd *fds = realloc(set->fds, capacity * sizeof(*fds));
    if (fds == NULL)
        return -1;
    set->fds = fds;
    struct selection_key **keys = realloc(set->keys, capacity * sizeof(struct selection_key *));
    if (keys == NULL)
        return -1;
    set->keys = keys;
    set->capacity = capacity;
    return 0;
}

static void *poll_open(void)
{
    struct poll_state *set = calloc(1, sizeof(*set));
    if (set == NULL)
        return NULL;
    set->wakeup[0] = set->wakeup[1] = -1;
    if (grow(set, 1) != 0 || pipe2(set->wakeup, O_CLOEXEC | O_NONBLOCK) != 0) {
        int error = errno;
        poll_close(set);
        errno = error;
        return NULL;
    }
    set->fds[0] = (struct pollfd){.fd = set->wakeup[0], .events = POLLIN};
    set->used = set->next = 1;
    return set;
}

/* The last one takes the place of the one that leaves. */
static void forget(struct poll_state *set, size_t place)
{
    size_t last = --set->used;
    set->fds[place] = set->fds[last];
    set->keys[place] = set->keys[last];
    set->keys[place]->index = (uint32_t)place;
}

static int poll_watch(void *state, struct selection_key *key, unsigned watch)
{
    struct poll_state *set = state;
    if (watch == SELECT_NOTHING) {
        forget(set, key->index);
        return 0;
    }
    if (key->watched == SELECT_NOTHING) {
        if (grow(set, set->used + 1) != 0)
            return -1;
        key->index = (uint32_t)set->used++;
    }
    short read = watch & SELECT_READ ? POLLIN : 0;
    short write = watch & SELECT_WRITE ? POLLOUT : 0;
    set->fds[key->index] = (struct pollfd){.fd = key->fd, .events = (short)(read | write)};
    set->keys[key->index] = key;
    return 0;
}

static unsigned ready_of(short events)
{
    if (events & (POLLERR | POLLHUP | POLLNVAL))
        return SELECT_READ | SELECT_WRITE | SELECT_LOSS;
    return (events & POLLIN ? (unsigned)SELECT_READ : 0) |
           (events & POLLOUT ? (unsigned)SELECT_WRITE : 0);
}

static void swallow_wakeups(const struct poll_state *set)
{
    char bytes[64];
    while (read(set->wakeup[0], bytes, sizeof(bytes)) > 0)
        ;
}

/* Goes once round the set, from where the last search ended. */
static int collect(struct poll_state *set, struct ready_event events[SELECTOR_BATCH])
{
    size_t used = 0;
    size_t keys = set->used - 1;
    size_t start = set->next < set->used ? set->next - 1 : 0;
    for (size_t i = 0; i < keys && used < SELECTOR_BATCH; i++) {
        size_t entry = 1 + (start + i) % keys;
        if (set->fds[entry].revents == 0)
            continue;
        events[used].key = set->keys[entry];
        events[used++].ready = ready_of(set->fds[entry].revents);
        set->next = entry + 1;
    }
    return (int)used;
}

/* With many entries the kernel needs memory for them. A loop that only came back would spin. */
static int back_off(void)
{
    const struct timespec moment = {.tv_nsec = BACK_OFF_MS * 1000000L};
    if (errno != EINTR)
        nanosleep(&moment, NULL);
    return -1;
}

static int poll_wait(void *state, struct ready_event events[SELECTOR_BATCH], int timeout_ms)
{
    struct poll_state *set = state;
    if (poll(set->fds, (nfds_t)set->used, timeout_ms) < 0)
        return back_off();
    if (set->fds[0].revents != 0)
        swallow_wakeups(set);
    return collect(set, events);
}

static void poll_wakeup(void *state)
{
    const struct poll_state *set = state;
    ssize_t written;
    do
        written = write(set->wakeup[1], "", 1);
    while (written < 0 && errno == EINTR);
}

const struct selector_provider selector_poll = {
    .name = "poll",
    .open = poll_open,
    .close = poll_close,
    .watch = poll_watch,
    .wait = poll_wait,
    .wakeup = poll_wakeup,
};
